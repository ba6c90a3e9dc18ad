/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Transfers between application and dataplane, done with few calls of backends; atomics.
 */
#ifndef UROCE_MEM_BATCH_H
#define UROCE_MEM_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mem_call.h"
#include "mr_check.h"

/** Transfers collected to be done with few backend calls. One direction per batch. */
struct mem_batch {
    unsigned n;
    struct mem_io *io;         /**< io[0..n): of its caller's call, or `own` */
    struct mem_caller *caller; /**< or NULL */
    void *owner;               /**< with a caller: of the batch */
    /** With a caller: a call goes on, or is put off. Its transfers have their tags. */
    void (*late)(void *owner, struct mem_call *call);
    /** With a caller: what is copied from may be used again when a flush returns. Calls then get
     * their own bytes, or fail with -ENOMEM. */
    bool bytes_leave;
    struct mem_io own[MEM_BATCH_MAX];
};

/**
 * Whether a batch has no room.
 *
 * @param b  The batch.
 * @return  True when it has to be flushed before the next transfer.
 */
static inline bool mem_batch_full(const struct mem_batch *b)
{
    return b->n == MEM_BATCH_MAX;
}

/**
 * Whether no call for a region can be made now. To be asked before a transfer to the application is
 * queued, or an atomic is made. The batch's worker.
 *
 * @param b  The batch.
 * @param mr  The region.
 * @return  True: the one who needs it comes again later.
 */
static inline bool mem_refuses(const struct mem_batch *b, const struct mem_region *mr)
{
    return !mr->direct && b->caller && b->caller->full && b->caller->refuses(b->caller, mr);
}

/**
 * Copy to the application: at once when the region is mapped, else with the next flush. The batch's
 * worker.
 *
 * @param b  The batch, not full.
 * @param mr  The region.
 * @param addr  The application's virtual address (mr_host_addr), which a check has accepted.
 * @param local  The bytes; when the result is false they stay valid until the flush.
 * @param len  How many.
 * @param tag  The caller's own; it is in the batch's mem_io.
 * @return  True: done. False: queued.
 */
bool mem_batch_out(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const void *local,
                   uint32_t len, uint64_t tag);

/**
 * Copy from the application: at once when the region is mapped, else with the next flush. The
 * batch's worker.
 *
 * @param b  The batch, not full.
 * @param mr  The region.
 * @param addr  The application's virtual address (mr_host_addr), which a check has accepted.
 * @param local  Room for the bytes; when the result is false it stays valid until the flush.
 * @param len  How many.
 * @param tag  The caller's own; it is in the batch's mem_io.
 * @return  True: done. False: queued.
 */
bool mem_batch_in(struct mem_batch *b, struct mem_region *mr, uint64_t addr, void *local,
                  uint32_t len, uint64_t tag);

/**
 * mem_batch_out() with what mr_check_remote() gave, which ends: at once or with the flush.
 *
 * @param b  The batch, not full.
 * @param s  The span.
 * @param local  The bytes.
 * @param len  How many.
 * @param tag  The caller's own.
 * @return  True: done. False: queued.
 */
bool mem_batch_out_span(struct mem_batch *b, struct mr_span *s, const void *local, uint32_t len,
                        uint64_t tag);

/**
 * mem_batch_in() with what mr_check_remote() gave, which ends: at once or with the flush.
 *
 * @param b  The batch, not full.
 * @param s  The span.
 * @param local  Room for the bytes.
 * @param len  How many.
 * @param tag  The caller's own.
 * @return  True: done. False: queued.
 */
bool mem_batch_in_span(struct mem_batch *b, struct mr_span *s, void *local, uint32_t len,
                       uint64_t tag);

/**
 * Do the queued transfers to applications, neighbours of one space in one backend call. The batch's
 * worker.
 *
 * @param b  The batch. b->io[0..n) hold the statuses afterwards, until the caller sets b->n = 0.
 * @return  The number of transfers that failed.
 */
unsigned mem_batch_flush_out(struct mem_batch *b);

/**
 * Do the queued transfers from applications; the rest as mem_batch_flush_out().
 *
 * @param b  The batch.
 * @return  The number of transfers that failed.
 */
unsigned mem_batch_flush_in(struct mem_batch *b);

/**
 * Do one 64-bit atomic operation in memory that is mapped. Any thread.
 *
 * @param at  The dataplane's address, a multiple of 8 (mem_atomic_fits()).
 * @param op  The operation.
 * @param swap_add  The value to store or to add, host order.
 * @param compare  For MEM_CMP_SWP, the value to compare with.
 * @return  The value before, host order.
 */
static inline uint64_t mem_atomic_mapped(void *at, enum mem_atomic_op op, uint64_t swap_add,
                                         uint64_t compare)
{
    _Atomic uint64_t *p = at;

    if (op == MEM_FETCH_ADD)
        return atomic_fetch_add(p, swap_add);
    atomic_compare_exchange_strong(p, &compare, swap_add);
    return compare;
}

/**
 * Whether an atomic operation can be done at an address of mapped memory: a mapping with another
 * alignment than the application's would make it a split lock.
 *
 * @param at  The dataplane's address.
 * @return  True when it is a multiple of 8.
 */
static inline bool mem_atomic_fits(const void *at)
{
    return (uintptr_t)at % sizeof(uint64_t) == 0;
}

/**
 * Store 8 bytes at once in memory that is mapped. Any thread.
 *
 * @param at  The dataplane's address, a multiple of 8 (mem_atomic_fits()).
 * @param bytes  What is stored there.
 */
static inline void mem_store8_mapped(void *at, const uint8_t bytes[8])
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    atomic_store((_Atomic uint64_t *)at, value);
}

/**
 * Do one 64-bit atomic operation. It is atomic with all other RDMA atomics of this device
 * (IBV_ATOMIC_HCA), and with the application's CPU when the region is mapped. The batch's worker.
 *
 * @param b  The batch, which has nothing queued; NULL: the calling thread makes the call.
 * @param mr  The region.
 * @param addr  The application's virtual address, a multiple of 8, which a check has accepted.
 * @param op  The operation.
 * @param swap_add  The value to store or to add, host order.
 * @param compare  For MEM_CMP_SWP, the value to compare with.
 * @param old  Set to the value before, host order.
 * @param tag  The caller's own.
 * @return  0; -EFAULT: bad page; -ESRCH: the application is gone; -EINPROGRESS: it is under way,
 *     and the call that `late` got will have the old value.
 */
int mem_atomic(struct mem_batch *b, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
               uint64_t swap_add, uint64_t compare, uint64_t *old, uint64_t tag);

/**
 * Store 8 bytes: at once when the region is mapped, else by one copy. The batch's worker.
 *
 * @param b  The batch, which has nothing queued; NULL: the calling thread makes the call.
 * @param mr  The region.
 * @param addr  The application's virtual address, a multiple of 8, which a check has accepted.
 * @param bytes  The bytes, in their order.
 * @param tag  The caller's own.
 * @return  0; -EFAULT: bad page, or mapped with another alignment; -ESRCH: the application is gone;
 *     -EINPROGRESS: it is under way.
 */
int mem_store8(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const uint8_t bytes[8],
               uint64_t tag);

#endif
