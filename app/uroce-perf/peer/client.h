/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client: it sends to a uroce-perf that serves (server.h), through libibverbs and librdmacm, as
 * any program does. Its run has one thread, and no port, device or worker of its own.
 */
#ifndef UROCE_PERF_CLIENT_H
#define UROCE_PERF_CLIENT_H

#include "perf.h"

struct client;

/* Connects p's queue pairs to the server that its options name. 0, or -1 with the reason in error.
 */
int client_open(struct perf *p, char *error, size_t size);
/* The traffic of p's only thread, until the run ends. */
void client_run(struct perf_thread *t);
/* May be called after a failed client_open, or without one. */
void client_close(struct perf *p);

#endif
