/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of the daemon's side of a connection. */
#ifndef UROCE_DEVICE_SOCKET_END_H
#define UROCE_DEVICE_SOCKET_END_H

#include <sys/socket.h>

#include "control/account.h"

struct errands;

/*
 * Closes the socket of a connection to the process peer. Messages that were not read may carry
 * descriptors, whose close may wait: then the close is an errand, until whose end the account is
 * charged with the cost and *closing is one more. Without such a message the socket is closed at
 * once, so that connections that were used as they should need no errand.
 *
 * account NULL: no account was charged. closing NULL: nothing counts.
 */
void socket_end(struct errands *es, const struct ucred *peer, int fd, struct quota_account *account,
                const struct quota_cost *cost, unsigned *closing);

#endif
