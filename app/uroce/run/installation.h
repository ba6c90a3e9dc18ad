/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of the installation's other parts, derived from the path of this program: a build tree
 * and a relocated prefix both work without configuration.
 */
#ifndef UROCE_INSTALLATION_H
#define UROCE_INSTALLATION_H

#include <limits.h>

struct locations {
    char daemon[PATH_MAX];        /* the uroced executable */
    char libraries[2 * PATH_MAX]; /* directories of the verbs libraries, colon-separated */
    char programs[PATH_MAX];      /* directory of programs that show the kernel's devices without
                                     uroce: rdma */
};

/* Fills loc. 0; -ENOENT when the daemon or the verbs library is in none of the expected folders
 * (loc keeps the last paths tried, for the message); -ENAMETOOLONG; or the error of reading
 * /proc/self/exe. */
int locate_installation(struct locations *loc);

#endif
