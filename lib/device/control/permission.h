/* SPDX-License-Identifier: BSD-3-Clause */
/* Which applications may send and receive raw packets. */
#ifndef UROCE_DEVICE_PERMISSION_H
#define UROCE_DEVICE_PERMISSION_H

#include <stdbool.h>

struct session;

/* The application's process is root's or of the daemon's user, or has CAP_NET_RAW now. */
bool permission_raw(const struct session *sn);
/* Whether a process with this /proc/PID/status has CAP_NET_RAW in effect. */
bool permission_of_status(const char *status);

#endif
