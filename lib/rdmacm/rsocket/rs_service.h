/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread of the process that serves sockets whose program does not call: listeners. It sleeps
 * until a socket's descriptor becomes readable, and calls the socket's `serve` then, with its lock,
 * until there is nothing more to do.
 */
#ifndef UROCE_RS_SERVICE_H
#define UROCE_RS_SERVICE_H

#include "rs_socket.h"

/* A socket of the table, which must be unwatched before its descriptor is closed. Starts the thread
 * if there is none. Where that fails, only the program's calls serve. */
void rs_service_watch(struct rsocket *rs);
void rs_service_unwatch(struct rsocket *rs);

#endif
