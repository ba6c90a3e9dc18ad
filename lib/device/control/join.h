/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions that join another one, and then may import its protection domains, regions and device
 * memory. The key is in the other one's context segment: a process that has been given the
 * segment's descriptor can join, and no other.
 *
 * A session that was joined stays until the last joined session has ended, also when its own
 * connection has. Its application's memory is not accessed any more then.
 */
#ifndef UROCE_DEVICE_JOIN_H
#define UROCE_DEVICE_JOIN_H

#include "session.h"

/* The session whose context has this key, or NULL. */
struct session *session_with_key(struct rnic *r, const uint64_t key[2]);
/* CTL_JOIN. */
int ctx_join(struct session *sn, struct ctl_call *call);
/* The session has ended, and with it what it has imported. */
void join_end(struct session *sn);

#endif
