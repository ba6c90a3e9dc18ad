/* SPDX-License-Identifier: BSD-3-Clause */
/* See output.h. */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int output_end(const char *who, int err)
{
    int failed = ferror(stdout);

    errno = 0;
    if (fflush(stdout) || failed)
        fprintf(stderr, "%s: standard output: %s\n", who,
                errno ? strerror(errno) : "a write has failed");
    else if (err)
        fprintf(stderr, "%s: %s\n", who, strerror(ENOMEM));
    else
        return 0;
    return 1;
}
