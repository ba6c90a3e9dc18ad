/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening streams. With the socket's lock. */
#ifndef UROCE_RS_ACCEPT_H
#define UROCE_RS_ACCEPT_H

#include "rs_socket.h"

int rs_stream_listen(struct rsocket *rs, int backlog);

/* Answers a request that waits, if the backlog has room for its stream. True: there may be more to
 * do. A socket that does not listen has nothing to do. */
bool rs_stream_serve(struct rsocket *rs);

/* The new socket's descriptor; peer is its peer's address. */
int rs_stream_accept(struct rsocket *rs, int flags, struct sockaddr_storage *peer);

#endif
