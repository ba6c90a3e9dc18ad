/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening streams. With the socket's lock. */
#ifndef UROCE_RS_ACCEPT_H
#define UROCE_RS_ACCEPT_H

#include "rs_socket.h"

int rs_stream_listen(struct rsocket *rs, int backlog);

/* The new socket's descriptor; peer is its peer's address. */
int rs_stream_accept(struct rsocket *rs, int flags, struct sockaddr_storage *peer);

#endif
