/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether descriptors are left open. */
#ifndef UROCE_TEST_DESCRIPTORS_H
#define UROCE_TEST_DESCRIPTORS_H

#include <dirent.h>

#include "unit.h"

/* How many this process has: to be compared with an earlier count. */
static inline unsigned open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

#endif
