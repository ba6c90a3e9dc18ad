/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCE_DETACH_H
#define UROCE_DETACH_H

/*
 * Forks a process in a session of its own that is no child of this one. Returns 0 in it; in the
 * caller 1, or a negative errno.
 */
int fork_detached(void);

#endif
