/* SPDX-License-Identifier: BSD-3-Clause */
/* Cache lines: memory of whole ones, and what is fetched into the cache ahead of its use. */
#ifndef UROCE_LINES_H
#define UROCE_LINES_H

#include <stdlib.h>
#include <string.h>

#include "common.h"

/* At least one line, zeroed; free() gives it back. NULL: there is none. Any thread. */
static inline void *lines_alloc(size_t bytes)
{
    size_t whole = round_up(max_of(bytes, (size_t)1), CACHE_LINE);
    void *p = aligned_alloc(CACHE_LINE, whole);

    return p ? memset(p, 0, whole) : NULL;
}

/*
 * Begins to fetch the line of p, which need not be valid, and does not wait for it. Into the second
 * cache, which can have more lines on their way than the first. gcc leaves out calls of functions
 * that only fetch, as without effect; an asm statement is one.
 */
static inline void line_fetch(const volatile void *p)
{
    __builtin_prefetch((const void *)p, 0, 2);
    __asm__ volatile("");
}

/* The same for a line that is going to be written. */
static inline void line_fetch_to_write(const volatile void *p)
{
    __builtin_prefetch((const void *)p, 1, 2);
    __asm__ volatile("");
}

#endif
