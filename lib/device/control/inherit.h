/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child takes over the context of its process, which has ended. Its connection gets the session;
 * from then on the regions are the same addresses in the child's memory, and all that were adopted
 * are copied. The child shows that it was given the context by the key in the context's segment, as
 * in join.h, and has the same user.
 */
#ifndef UROCE_DEVICE_INHERIT_H
#define UROCE_DEVICE_INHERIT_H

#include "session.h"

/* CTL_INHERIT: sets sn->inherits, and then the connection calls session_inherit. */
int ctx_inherit(struct session *sn, struct ctl_call *call);
/* The session of an ended process becomes sn's process's. sn, which has opened no device, keeps
 * what is left of the ended process, and is to be closed. */
void session_inherit(struct session *left, struct session *sn);

#endif
