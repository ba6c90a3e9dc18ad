/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids for objects that the daemon names in completions and events: a slot index and the slot's
 * generation, so that an id that outlives its object finds none.
 *
 * Lookups are lock-free. They are safe only while the caller knows that the object cannot be freed
 * concurrently; client_cq.h and the verbs layer say why at each use.
 */
#ifndef UROCE_SLOT_TABLE_H
#define UROCE_SLOT_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_INDEX_BITS 20 /* all regions of a device and more (LIMIT_KEY) */
#define SLOT_GEN_BITS   12
#define SLOT_CHUNK      1024u
#define SLOT_CHUNKS     ((1u << SLOT_INDEX_BITS) / SLOT_CHUNK)

struct slot {
    void *_Atomic object; /* NULL: free */
    _Atomic uint32_t gen;
    uint32_t next_free;
};

struct slot_table {
    pthread_mutex_t lock; /* for insertion and removal, and to keep other threads from both */
    struct slot *_Atomic chunk[SLOT_CHUNKS];
    uint32_t used;                 /* slots ever used */
    uint32_t free_head, free_tail; /* a FIFO, so that a slot is not soon used again */
};

void slot_table_init(struct slot_table *t);
void slot_table_destroy(struct slot_table *t);

/* Reserves a slot, still empty. Returns its id (generation and index), or -ENOMEM or -ENOSPC. */
int slot_table_reserve(struct slot_table *t, uint32_t *id);

/* Makes the object visible under its reserved id. */
void slot_table_publish(struct slot_table *t, uint32_t id, void *object);

/* Hides the object, if it was visible, and frees the slot. */
void slot_table_remove(struct slot_table *t, uint32_t id);

static inline struct slot *slot_at(struct slot_table *t, uint32_t index)
{
    struct slot *chunk = NULL;

    if (index < SLOT_CHUNKS * SLOT_CHUNK)
        chunk = atomic_load_explicit(&t->chunk[index / SLOT_CHUNK], memory_order_acquire);
    return chunk ? &chunk[index % SLOT_CHUNK] : NULL;
}

/* The object of this id, or NULL. */
static inline void *slot_table_get(struct slot_table *t, uint32_t id)
{
    struct slot *s = slot_at(t, id & ((1u << SLOT_INDEX_BITS) - 1));

    if (!s || atomic_load_explicit(&s->gen, memory_order_relaxed) != id >> SLOT_INDEX_BITS)
        return NULL;
    return atomic_load_explicit(&s->object, memory_order_acquire);
}

/* An id as a 64-bit event cookie, generation above the index, and back. */
static inline uint64_t slot_id_to_cookie(uint32_t id)
{
    return (uint64_t)(id >> SLOT_INDEX_BITS) << 32 | (id & ((1u << SLOT_INDEX_BITS) - 1));
}

/* For a cookie that no object has: an id that no object has. */
static inline uint32_t slot_id_from_cookie(uint64_t cookie)
{
    if (cookie >> 32 >> SLOT_GEN_BITS || (uint32_t)cookie >> SLOT_INDEX_BITS)
        return UINT32_MAX;
    return (uint32_t)(cookie >> 32) << SLOT_INDEX_BITS | (uint32_t)cookie;
}

#endif
