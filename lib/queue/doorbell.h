/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ringing and taking doorbells. Lock-free, no allocation.
 *
 * Why nothing is lost: the poster stores its producer index, then sets leaf, mid and top bits (or
 * sees them set) bottom up; the worker clears top, mid and leaf bits top down, then loads the
 * index. All sequentially consistent: if the poster saw a bit still set, the worker's clearing of
 * it comes later, and so do its reads below.
 */
#ifndef UROCE_DOORBELL_H
#define UROCE_DOORBELL_H

#include "queue_abi.h"

static inline void doorbell_set_bit(_Atomic uint64_t *word, unsigned bit)
{
    uint64_t mask = UINT64_C(1) << bit;

    if (!(atomic_load(word) & mask))
        atomic_fetch_or(word, mask);
}

/*
 * Says that queue pair `slot` (below DB_SLOTS) has new work. The producer index must be stored
 * before. Returns true if the worker sleeps and the caller must wake it (wake_worker's futex).
 * Any application thread.
 */
static inline bool doorbell_ring(struct doorbells *db, uint32_t slot)
{
    atomic_thread_fence(memory_order_seq_cst);
    doorbell_set_bit(&db->leaf[slot >> 6], slot & 63);
    doorbell_set_bit(&db->mid[slot >> 12], (slot >> 6) & 63);
    doorbell_set_bit(&db->top, slot >> 12);
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&db->worker_armed, memory_order_relaxed) &&
           atomic_exchange(&db->worker_armed, 0);
}

/* Whether any bell rings. The worker, after arming, before sleeping. */
static inline bool doorbell_pending(struct doorbells *db)
{
    return atomic_load(&db->top) != 0;
}

/*
 * Takes rung bells: clears them and stores their slots, all below DB_SLOTS, at slot[0..max).
 * Returns how many. A call looks at no more than max leaf words, so a hostile application cannot
 * hold the worker up; what it left is still pending, and the next call goes on behind it, so that
 * no bell starves. Slots are whatever the application wrote: the caller looks them up. Worker.
 */
unsigned doorbell_take(struct doorbells *db, uint32_t *slot, unsigned max);

#endif
