/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers as the vectors of a kernel call, and what became of them. */
#ifndef UROCE_MEM_RANGES_H
#define UROCE_MEM_RANGES_H

#include <stdbool.h>
#include <sys/uio.h>

#include "mem.h"

#define RANGES_MAX MEM_BATCH_MAX /* of one call; the kernel's limit is 1024 */

/* Whether b's bytes follow a's in the application: packets of one message do. */
static inline bool ranges_follow(const struct mem_io *a, const struct mem_io *b)
{
    return a->addr + a->len == b->addr;
}

static inline struct iovec ranges_local(const struct mem_io *io, uint64_t skip)
{
    return (struct iovec){io->local + skip, io->len - skip};
}

/* Accounts for `bytes` done, in order, after *skip of io[0]: how many ranges are complete now, and
 * in *skip how much of the next one. */
static inline unsigned ranges_complete(struct mem_io *io, unsigned n, uint64_t bytes,
                                       uint64_t *skip)
{
    unsigned i;

    for (i = 0; i < n && bytes >= io[i].len - *skip; i++) {
        bytes -= io[i].len - *skip;
        *skip = 0;
        io[i].status = 0;
    }
    *skip += bytes;
    return i;
}

static inline void ranges_fail(struct mem_io *io, unsigned n, int status)
{
    for (unsigned i = 0; i < n; i++)
        io[i].status = status;
}

#endif
