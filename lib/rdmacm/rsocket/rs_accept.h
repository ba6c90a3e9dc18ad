/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening streams. With the socket's lock. */
#ifndef UROCE_RS_ACCEPT_H
#define UROCE_RS_ACCEPT_H

#include "rs_socket.h"

struct rs_stream;

int rs_stream_listen(struct rsocket *rs, int backlog);

/* Ends what waits to be accepted, and refuses what comes then. It can listen again. */
int rs_stream_unlisten(struct rsocket *rs);

/* Refuses the requests that wait. */
void rs_stream_refuse_all(struct rs_stream *s);

/* Answers a request that waits, if the backlog has room for its stream. True: there may be more to
 * do. A socket that does not listen has nothing to do. */
bool rs_stream_serve(struct rsocket *rs);

/* The new socket's descriptor; peer is its peer's address. */
int rs_stream_accept(struct rsocket *rs, int flags, struct sockaddr_storage *peer);

#endif
