/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ringing and taking doorbells. Lock-free, no allocation.
 *
 * Why nothing is lost: the poster stores its producer index, then sets leaf, mid and top bits (or
 * sees them set) bottom up; the worker clears top, mid and leaf bits top down, then loads the
 * index. All sequentially consistent: if the poster saw a bit still set, the worker's clearing of
 * it comes later, and so do its reads below. The leaf's bit is written even if it is set: that is
 * also the fence between the index and the loads of the words above.
 *
 * A poster that sees the top bit set need not wake the worker. If the bit was set before the worker
 * armed, the worker saw it and does not sleep. If it was set later, `worker_armed` had been set
 * before the bit, and the poster sees that too, unless another poster has taken the wake-up over.
 */
#ifndef UROCE_DOORBELL_H
#define UROCE_DOORBELL_H

#include "queue_abi.h"

/**
 * The leaf word of 64 slots.
 *
 * @param db  The context's doorbells.
 * @param word  Slot / 64.
 * @return  The word.
 */
static inline _Atomic uint64_t *doorbell_leaf(struct doorbells *db, uint32_t word)
{
    return word ? &db->leaf[word] : &db->first_leaf;
}

/**
 * The mid word of 64 leaf words.
 *
 * @param db  The context's doorbells.
 * @param word  Slot / 4096.
 * @return  The word.
 */
static inline _Atomic uint64_t *doorbell_mid(struct doorbells *db, uint32_t word)
{
    return word ? &db->mid[word] : &db->first_mid;
}

/**
 * Set a bit of a word, without a write when the bit is set already.
 *
 * @param word  The word.
 * @param bit  0 to 63.
 */
static inline void doorbell_set_bit(_Atomic uint64_t *word, unsigned bit)
{
    uint64_t mask = UINT64_C(1) << bit;

    if (!(atomic_load(word) & mask))
        atomic_fetch_or(word, mask);
}

/**
 * Notify the worker that a queue pair has new work. The producer index must be stored before. Any
 * thread of the application.
 *
 * @param db  The context's doorbells.
 * @param slot  The queue pair's, below DB_SLOTS.
 * @return  True when the worker sleeps, and the caller must wake it (client_qp_wake() of
 * lib/client).
 */
static inline bool doorbell_ring(struct doorbells *db, uint32_t slot)
{
    atomic_fetch_or(doorbell_leaf(db, slot >> 6), UINT64_C(1) << (slot & 63));
    doorbell_set_bit(doorbell_mid(db, slot >> 12), (slot >> 6) & 63);
    doorbell_set_bit(&db->top, slot >> 12);
    return unlikely(atomic_load(&db->worker_armed)) && atomic_exchange(&db->worker_armed, 0);
}

/**
 * Whether any doorbell is pending. The worker, after it armed the wake-up and before it sleeps.
 *
 * @param db  The context's doorbells.
 * @return  True when a doorbell was rung and not taken.
 */
static inline bool doorbell_pending(struct doorbells *db)
{
    return atomic_load(&db->top) != 0;
}

/**
 * Take doorbells: clear them and store their slots. The worker. A call looks at no more than max
 * leaf words, so that a hostile application cannot hold the worker up; the next call goes on behind
 * them, so that no doorbell starves.
 *
 * @param db  The context's doorbells.
 * @param slot  Set to the slots, each below DB_SLOTS. They are what the application wrote: the
 *     caller looks them up.
 * @param max  Room at slot.
 * @return  How many slots were stored.
 */
unsigned doorbell_take(struct doorbells *db, uint32_t *slot, unsigned max);

#endif
