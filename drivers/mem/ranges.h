/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers as the vectors of kernel calls, for the backends that copy. */
#ifndef UROCE_MEM_RANGES_H
#define UROCE_MEM_RANGES_H

#include <stdbool.h>
#include <sys/uio.h>

#include "freeze.h"
#include "heat.h"
#include "mem_call.h"
#include "mem_heat.h"

#define RANGES_MAX MEM_BATCH_MAX /* of one call; the kernel's limit is 1024 */

/* Whether b's bytes follow a's in the application: those of one message's packets do. */
static inline bool ranges_follow(const struct mem_io *a, const struct mem_io *b)
{
    return a->addr + a->len == b->addr;
}

/* The daemon's bytes of n transfers as a vector, without the first `skip`: neighbours become one
 * range. Returns the number of ranges. */
static inline unsigned ranges_local(struct iovec *v, const struct mem_io *io, unsigned n,
                                    uint64_t skip)
{
    unsigned ranges = 1;

    v[0] = (struct iovec){io->local + skip, io->len - skip};
    for (unsigned i = 1; i < n; i++)
        if (io[i].local == io[i - 1].local + io[i - 1].len)
            v[ranges - 1].iov_len += io[i].len;
        else
            v[ranges++] = (struct iovec){io[i].local, io[i].len};
    return ranges;
}

/* Accounts for `bytes` moved, in order, after the first *skip of io[0]. Returns how many transfers
 * are complete; *skip: how many bytes of the next one are done. */
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

/*
 * A backend's kernel call for the *n transfers at io; `skip` bytes of the first are done. Sets *n
 * to how many transfers the result is about, and returns the bytes moved (0 only if the first
 * transfer is empty), or the negative errno with which they fail.
 */
typedef ssize_t (*ranges_call_fn)(void *space, const struct mem_io *io, unsigned *n, uint64_t skip,
                                  bool out);

/*
 * Does n transfers. A kernel call may stop early: at a bad page, in the middle of a range, or at
 * the kernel's limit of bytes. It is repeated from there; at a bad page the second call moves
 * nothing and returns the error.
 */
static inline void ranges_transfer(void *space, struct mem_freeze *freeze, struct mem_heat *heat,
                                   struct mem_io *io, unsigned n, ranges_call_fn call, bool out)
{
    uint64_t skip = 0;

    mem_heat_count(heat, io, n); /* before anything waits: the regions may go then */
    mem_freeze_wait(freeze);
    while (n) {
        unsigned done = n;
        ssize_t moved = call(space, io, &done, skip, out);

        if (moved >= 0) {
            done = ranges_complete(io, done, (uint64_t)moved, &skip);
        } else {
            ranges_fail(io, done, (int)moved);
            skip = 0;
        }
        io += done;
        n -= done;
    }
}

#endif
