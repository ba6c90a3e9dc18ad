/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_serve.h. */
#include "metrics_serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "metrics_socket.h"

int metrics_serve(const struct uroced_config *c, struct event_loop *loop, struct rnic *r,
                  struct metrics_http **server)
{
    struct metrics_address address;
    const char *error;
    int listener;

    *server = NULL;
    if (!c->metrics[0])
        return 0;
    metrics_address_parse(&address, c->metrics);
    listener = metrics_socket_open(&address);
    if (listener < 0) {
        fprintf(stderr, "uroced: metrics at %s: %s\n", c->metrics,
                listener == -EEXIST ? "exists and is not a socket" : strerror(-listener));
        return listener;
    }
    *server = metrics_http_open(loop, r, listener, &error);
    if (*server)
        return 0;
    metrics_socket_remove(&address);
    fprintf(stderr, "uroced: metrics: %s\n", error);
    return -ENOTSUP;
}

void metrics_serve_end(const struct uroced_config *c, struct metrics_http *server)
{
    struct metrics_address address;

    if (!server)
        return;
    metrics_http_close(server);
    metrics_address_parse(&address, c->metrics);
    metrics_socket_remove(&address);
}
