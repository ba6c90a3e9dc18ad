/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ringing and taking doorbells. Lock-free, no allocation.
 *
 * Why nothing is lost: the poster stores its producer index, then sets leaf, mid and top bits (or
 * sees them set) bottom up; the worker clears top, mid and leaf bits top down, then loads the
 * index. All sequentially consistent: if the poster saw a bit still set, the worker's clearing of
 * it comes later, and so do its reads below. The leaf's bit is written even if it is set: that is
 * also the fence between the index and the looks at what lies above.
 *
 * Who sees the top bit set need not wake: if it was set before the worker armed, the worker saw it
 * and does not sleep; if after that, then `worker_armed` had been set before the bit was, and is
 * seen, too, unless somebody has taken the wake-up upon himself.
 */
#ifndef UROCE_DOORBELL_H
#define UROCE_DOORBELL_H

#include "queue_abi.h"

static inline _Atomic uint64_t *doorbell_leaf(struct doorbells *db, uint32_t word)
{
    return word ? &db->leaf[word] : &db->first_leaf;
}

static inline _Atomic uint64_t *doorbell_mid(struct doorbells *db, uint32_t word)
{
    return word ? &db->mid[word] : &db->first_mid;
}

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
    atomic_fetch_or(doorbell_leaf(db, slot >> 6), UINT64_C(1) << (slot & 63));
    doorbell_set_bit(doorbell_mid(db, slot >> 12), (slot >> 6) & 63);
    doorbell_set_bit(&db->top, slot >> 12);
    return unlikely(atomic_load(&db->worker_armed)) && atomic_exchange(&db->worker_armed, 0);
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
