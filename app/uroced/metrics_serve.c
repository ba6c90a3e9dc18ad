/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_serve.h. */
#include "metrics_serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "metrics_socket.h"

int metrics_serve(struct metrics_served *m, const struct uroced_config *c, struct event_loop *loop,
                  struct rnic *r)
{
    const char *error;
    int listener;

    if (!c->metrics[0])
        return 0;
    metrics_address_parse(&m->address, c->metrics);
    listener = metrics_socket_open(&m->address);
    if (listener < 0) {
        fprintf(stderr, "uroced: metrics at %s: %s\n", c->metrics,
                listener == -EEXIST ? "exists and is not a socket" : strerror(-listener));
        return listener;
    }
    m->server = metrics_http_open(loop, r, listener, &error);
    if (m->server)
        return 0;
    metrics_socket_remove(&m->address);
    fprintf(stderr, "uroced: metrics: %s\n", error);
    return -ENOTSUP;
}

void metrics_serve_end(struct metrics_served *m)
{
    if (!m->server)
        return;
    metrics_http_close(m->server);
    metrics_socket_remove(&m->address);
}
