/* SPDX-License-Identifier: BSD-3-Clause */
/* The other end of clients (client.h): any number of them, until a signal. */
#ifndef UROCE_PERF_SERVER_H
#define UROCE_PERF_SERVER_H

#include "options.h"

/* Listens at o->port of all addresses, and says so in a line. signal_fd becomes readable with a
 * signal. Returns the program's exit status. */
int server_run(const struct perf_options *o, int signal_fd);

#endif
