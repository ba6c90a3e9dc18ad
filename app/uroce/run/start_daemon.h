/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the user's private loopback daemon. */
#ifndef UROCE_START_DAEMON_H
#define UROCE_START_DAEMON_H

/*
 * Connects to the daemon at path, starting `daemon --loopback` there when none serves. Callers that
 * do this at the same time, in whatever process, end up with one daemon. The daemon is nobody's
 * child, has a session of its own, writes to PATH.log, and ends when it has been idle for a while.
 * Returns a connection as endpoint_probe() does; on a failure that was already reported on stderr,
 * -ECANCELED.
 */
int start_or_connect(const char *daemon, const char *path);

#endif
