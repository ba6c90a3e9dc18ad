/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the other parts of the installation are, found from where this program is: so that a build
 * tree and an installed prefix that was moved both work without configuration.
 */
#ifndef UROCE_INSTALLATION_H
#define UROCE_INSTALLATION_H

#include <limits.h>

struct locations {
    char daemon[PATH_MAX];        /* the uroced executable */
    char libraries[2 * PATH_MAX]; /* directories of the verbs libraries, colon-separated */
};

/* Fills loc. 0; -ENOENT when the daemon or the verbs library is at none of the expected places
 * (what was looked for last stays in loc for the message); -ENAMETOOLONG; or the error of reading
 * /proc/self/exe. */
int locate_installation(struct locations *loc);

#endif
