/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The indirection table of receive-side scaling: the low bits of a packet's hash choose an entry,
 * and the entry says the queue. Pure. One thread writes; a reader beside it sees an entry's old
 * value or its new one.
 */
#ifndef UROCE_INDIRECTION_H
#define UROCE_INDIRECTION_H

#include <stdint.h>

#define INDIRECTION_MAX 512 /* entries */

struct indirection {
    uint32_t size; /* entries, a power of two */
    uint16_t queue[INDIRECTION_MAX];
};

/*
 * A table of `size` entries in which queues 0 to queues - 1 take turns, so that the shares of any
 * two differ by one entry at most. -EINVAL: size is no power of two up to INDIRECTION_MAX, or there
 * are no queues, or more of them than entries.
 */
int indirection_init(struct indirection *t, uint32_t size, uint32_t queues);

/* Rewrites one entry. -EINVAL: there is no such entry. */
int indirection_set(struct indirection *t, uint32_t index, uint16_t queue);

/* How many entries lead to the queue. */
uint32_t indirection_share(const struct indirection *t, uint16_t queue);

static inline uint16_t indirection_lookup(const struct indirection *t, uint32_t hash)
{
    return __atomic_load_n(&t->queue[hash & (t->size - 1)], __ATOMIC_RELAXED);
}

#endif
