/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of whole cache lines. */
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

#endif
