/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_QUERY_DEVICE, CTL_QUERY_PORT, CTL_QUERY_GID. 0 or a negative errno, which becomes the reply's
 * status. */
#ifndef UROCE_DEVICE_QUERY_H
#define UROCE_DEVICE_QUERY_H

#include "session.h"

int query_device(struct session *sn, struct ctl_call *call);
int query_port(struct session *sn, struct ctl_call *call);
int query_gid(struct session *sn, struct ctl_call *call);

#endif
