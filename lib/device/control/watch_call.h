/* SPDX-License-Identifier: BSD-3-Clause */
/* What applications do for the daemon (enum ctx_watch): work requests are timed while some
 * connection asks for it, or the configuration; calls are judged while there are rules for them. */
#ifndef UROCE_DEVICE_WATCH_CALL_H
#define UROCE_DEVICE_WATCH_CALL_H

#include "control/device_state.h"

struct ctl_call;

/* CTL_JUDGE that no rule lets fail. */
int judge_call(struct session *sn, struct ctl_call *call);
/* CTL_WATCH. */
int watch_call(struct session *sn, struct ctl_call *call);
/* The session ends, and what it asked for with it. */
void watch_end(struct session *sn);
/* There is another device, or another rule: engines and applications know what they are to do. */
void watch_follow(struct rnic *r);
/* The session has opened a device: the same for its application. */
void watch_context(struct session *sn);

#endif
