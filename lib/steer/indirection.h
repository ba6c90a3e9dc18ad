/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The indirection table of receive-side scaling: the low bits of a packet's hash choose an entry,
 * and the entry says the queue. Pure. One thread writes; a reader beside it sees an entry's old
 * value or its new one.
 */
#ifndef UROCE_INDIRECTION_H
#define UROCE_INDIRECTION_H

#include <stdatomic.h>
#include <stdint.h>

#define INDIRECTION_MAX 512 /**< entries */

/** An indirection table. */
struct indirection {
    uint32_t size; /**< entries, a power of two */
    _Atomic uint16_t queue[INDIRECTION_MAX];
};

/**
 * Make a table in which the queues alternate, so that the shares of any two differ by one entry at
 * most.
 *
 * @param t  Set on success.
 * @param size  Entries.
 * @param queues  How many queues: 0 to queues - 1.
 * @return  0; -EINVAL: size is no power of two up to INDIRECTION_MAX, or queues is 0 or more than
 *     size.
 */
int indirection_init(struct indirection *t, uint32_t size, uint32_t queues);

/**
 * Write one entry. The thread that owns the table; other threads may look entries up.
 *
 * @param t  The table.
 * @param index  The entry.
 * @param queue  Its queue.
 * @return  0; -EINVAL: there is no such entry.
 */
int indirection_set(struct indirection *t, uint32_t index, uint16_t queue);

/**
 * How many entries lead to a queue.
 *
 * @param t  The table.
 * @param queue  The queue.
 * @return  Entries, 0 to t->size.
 */
uint32_t indirection_share(const struct indirection *t, uint16_t queue);

/**
 * The queue of a packet. Any thread.
 *
 * @param t  The table.
 * @param hash  The packet's hash.
 * @return  The queue.
 */
static inline uint16_t indirection_lookup(const struct indirection *t, uint32_t hash)
{
    return atomic_load_explicit(&t->queue[hash & (t->size - 1)], memory_order_relaxed);
}

#endif
