/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that workers leave for the control thread: asynchronous events, completion events that an
 * application has not read, and misplaced queue pairs. */
#ifndef UROCE_DEVICE_NOTIFY_H
#define UROCE_DEVICE_NOTIFY_H

struct rnic;

/* Opens the descriptor by which workers notify the control thread. 0 or a negative errno. */
int notify_open(struct rnic *r);

#endif
