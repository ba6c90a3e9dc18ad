/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for a device's files in the kernel's folders, for the processes of a mount namespace. */
#ifndef UROCE_SYS_NAMESPACE_H
#define UROCE_SYS_NAMESPACE_H

/* Makes /sys/class, /sys/devices and /dev/infiniband folders in which files can be created, in the
 * mount namespace of this process, which must be its own. 0 or a negative errno; *what: the folder
 * that it is about. */
int namespace_fill(const char **what);

/* Whether this process should get namespaces of its own, and has no right to mount in those it is
 * in. In a user namespace it would lose its capabilities. */
int namespace_needs_user(void);

#endif
