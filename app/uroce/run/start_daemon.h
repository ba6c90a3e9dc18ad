/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the user's private daemon. */
#ifndef UROCE_START_DAEMON_H
#define UROCE_START_DAEMON_H

/*
 * Connects to the daemon at path, or starts `daemon PORT` there when no daemon serves: --loopback
 * or --udp. Concurrent callers, in any process, share one daemon. The daemon is a child of no
 * process, has a session of its own, writes to PATH.log, and exits after it has been idle for a
 * while. Returns a connection as endpoint_probe() does; -ECANCELED after a failure that was already
 * reported on stderr.
 */
int start_or_connect(const char *daemon, const char *path, const char *port);

#endif
