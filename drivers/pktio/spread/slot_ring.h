/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames from one thread to another without a copy at the receiving end. The frames are in slots of
 * memory, and slot numbers travel to the consumer and back. A slot is free (the producer has it),
 * in flight, or held by the consumer. Slots may come back in any order.
 */
#ifndef UROCE_SLOT_RING_H
#define UROCE_SLOT_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common.h"

struct slot_entry {
    uint16_t slot;
    uint32_t len;
};

/* One producer, one consumer. An entry is a slot, and there are at least as many entries as slots.
 * The fifo is therefore never full, and the producer does not need the consumer's index. */
struct slot_fifo {
    struct slot_entry *entry;
    uint32_t mask;
    CACHE_ALIGNED uint32_t head;         /* the consumer's */
    CACHE_ALIGNED _Atomic uint32_t tail; /* the producer's; seq_cst, see wake_arm */
};

static inline void slot_fifo_put(struct slot_fifo *f, struct slot_entry e)
{
    uint32_t tail = atomic_load_explicit(&f->tail, memory_order_relaxed);

    f->entry[tail & f->mask] = e;
    atomic_store(&f->tail, tail + 1);
}

static inline bool slot_fifo_empty(struct slot_fifo *f)
{
    return f->head == atomic_load(&f->tail);
}

static inline uint32_t slot_fifo_count(struct slot_fifo *f)
{
    return atomic_load(&f->tail) - f->head;
}

static inline bool slot_fifo_take(struct slot_fifo *f, struct slot_entry *e)
{
    if (slot_fifo_empty(f))
        return false;
    *e = f->entry[f->head++ & f->mask];
    return true;
}

struct slot_ring {
    uint8_t *memory;
    size_t bytes;
    uint32_t room; /* bytes of a slot */
    /* The producer's: a stack, so that slots in the cache are used first. */
    uint16_t *free;
    uint32_t free_count;
    struct slot_fifo out, back;
};

/* 0 or -ENOMEM; the caller calls slot_ring_fini in both cases. A slot takes no memory until it is
 * used. */
int slot_ring_init(struct slot_ring *r, uint32_t slots, uint32_t room);
void slot_ring_fini(struct slot_ring *r);

static inline uint8_t *slot_ring_data(const struct slot_ring *r, uint16_t slot)
{
    return r->memory + (size_t)slot * r->room;
}

static inline void slot_ring_free(struct slot_ring *r, uint16_t slot)
{
    r->free[r->free_count++] = slot;
}

/* Takes back the slots that the consumer has released. The producer. */
static inline void slot_ring_collect(struct slot_ring *r)
{
    struct slot_entry e;

    while (slot_fifo_take(&r->back, &e))
        slot_ring_free(r, e.slot);
}

#endif
