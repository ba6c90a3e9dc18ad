/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics where the configuration says that they are served. */
#ifndef UROCED_METRICS_SERVE_H
#define UROCED_METRICS_SERVE_H

#include "config.h"
#include "metrics_http.h"

/* Opens the socket and the server, before the filter of system calls. 0: *server serves, or is
 * NULL, as nothing is configured; or a negative errno with the reason on stderr. */
int metrics_serve(const struct uroced_config *c, struct event_loop *loop, struct rnic *r,
                  struct metrics_http **server);
/* server may be NULL. */
void metrics_serve_end(const struct uroced_config *c, struct metrics_http *server);

#endif
