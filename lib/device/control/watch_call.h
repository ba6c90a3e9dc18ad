/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests are timed while some connection asks for it (CTL_WATCH), or the configuration. */
#ifndef UROCE_DEVICE_WATCH_CALL_H
#define UROCE_DEVICE_WATCH_CALL_H

#include "control/device_state.h"

struct ctl_call;

/* CTL_WATCH. */
int watch_call(struct session *sn, struct ctl_call *call);
/* The session ends, and what it asked for with it. */
void watch_end(struct session *sn);
/* There is another device: its engines know whether work requests are timed. */
void watch_follow(struct rnic *r);
/* The session has opened a device: its application knows, too. */
void watch_context(struct session *sn);

#endif
