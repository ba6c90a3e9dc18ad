/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket at which metrics are served. */
#ifndef UROCED_METRICS_SOCKET_H
#define UROCED_METRICS_SOCKET_H

#include "metrics_address.h"

/* A listening, non-blocking socket. A unix socket is its owner's alone; that of a dead daemon is
 * replaced. The descriptor or a negative errno: -EADDRINUSE: another process listens; -EEXIST: the
 * path is no socket. */
int metrics_socket_open(struct metrics_address *a);
/* Removes the name of the unix socket that was opened: not that of another daemon, which may be
 * there by now. The descriptor belongs to the server. */
void metrics_socket_remove(const struct metrics_address *a);

#endif
