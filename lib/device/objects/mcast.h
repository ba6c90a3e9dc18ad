/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of UD queue pairs: engines deliver to members, the port is a member for each of
 * them. */
#ifndef UROCE_DEVICE_MCAST_H
#define UROCE_DEVICE_MCAST_H

#include "session.h"

struct device;
struct qp_object;

int mcast_attach(struct session *sn, struct ctl_call *call);
int mcast_detach(struct session *sn, struct ctl_call *call);

/* The port leaves the groups of a queue pair that no worker knows any more. */
void mcast_leave_all(struct qp_object *q);
/* The port joins and leaves groups in the VLANs that its addresses came to or went from. */
void mcast_follow_addresses(struct device *d);

#endif
