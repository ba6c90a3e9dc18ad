/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RLIMIT_FSIZE (ulimit -f), which is for memfds, too. Beyond it the kernel does not only refuse a
 * size or a write: SIGXFSZ ends the program, unless the program handles the signal. A library asks
 * before.
 */
#ifndef UROCE_FILE_LIMIT_H
#define UROCE_FILE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* Whether this process may make a file of that many bytes. Any thread. */
static inline bool file_limit_allows(uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur;
}

#endif
