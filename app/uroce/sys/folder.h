/* SPDX-License-Identifier: BSD-3-Clause */
/* A folder that has the part of /sys that the files are about, where a namespace is not possible.
 */
#ifndef UROCE_SYS_FOLDER_H
#define UROCE_SYS_FOLDER_H

#include <limits.h>

/* Creates it in $XDG_RUNTIME_DIR or else in /tmp: links to the entries of /sys/class and
 * /sys/devices. 0 or a negative errno. */
int folder_make(char folder[PATH_MAX]);
void folder_remove(const char *folder);

#endif
