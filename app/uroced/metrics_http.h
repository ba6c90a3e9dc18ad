/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Serves metrics by HTTP: GET /metrics. On the control thread, with a bounded number of
 * connections. A connection is for one request, and lasts for a bounded time.
 */
#ifndef UROCED_METRICS_HTTP_H
#define UROCED_METRICS_HTTP_H

#include "event_loop.h"

struct metrics_http;
struct rnic;

/* Before threads and the filter of system calls. listener: a listening socket, which is the
 * server's then. NULL with the reason in *error. */
struct metrics_http *metrics_http_open(struct event_loop *loop, struct rnic *r, int listener,
                                       const char **error);
/* Before the devices are destroyed. h may be NULL. */
void metrics_http_close(struct metrics_http *h);

#endif
