/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics where the configuration says that they are served. */
#ifndef UROCED_METRICS_SERVE_H
#define UROCED_METRICS_SERVE_H

#include "config.h"
#include "metrics_address.h"
#include "metrics_http.h"

/* Zeroed it serves nothing. */
struct metrics_served {
    struct metrics_http *server;
    struct metrics_address address;
};

/* Opens the socket and the server, before the filter of system calls. 0: it serves, or
 * nothing is configured; or a negative errno with the reason on stderr. */
int metrics_serve(struct metrics_served *m, const struct uroced_config *c, struct event_loop *loop,
                  struct rnic *r);
/* Also of what serves nothing. */
void metrics_serve_end(struct metrics_served *m);

#endif
