/* SPDX-License-Identifier: BSD-3-Clause */
/* What `uroce why` shows when the daemon that knew it has ended for lack of programs. */
#ifndef UROCED_LAST_INCIDENTS_H
#define UROCED_LAST_INCIDENTS_H

struct rnic;

/* Writes what failed to the file beside the control socket that `uroce why` reads, for the daemon's
 * user alone. Without failures, or where the file cannot be written, nothing changes. */
void last_incidents_keep(struct rnic *r, const char *socket);

#endif
