/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocating, publishing and freeing slots; lookups are in slot_table.h. */
#include "slot_table.h"

#include <errno.h>
#include <stdlib.h>

/* The last index is never used: no object has the id UINT32_MAX. */
#define SLOT_LIMIT (SLOT_CHUNKS * SLOT_CHUNK - 1)
#define SLOT_NONE  UINT32_MAX
#define INDEX_MASK ((1u << SLOT_INDEX_BITS) - 1)
#define GEN_MASK   ((1u << SLOT_GEN_BITS) - 1)

void slot_table_init(struct slot_table *t)
{
    *t = (struct slot_table){.free_head = SLOT_NONE, .free_tail = SLOT_NONE};
    pthread_mutex_init(&t->lock, NULL);
}

void slot_table_destroy(struct slot_table *t)
{
    for (unsigned i = 0; i < SLOT_CHUNKS; i++)
        free(atomic_load_explicit(&t->chunk[i], memory_order_relaxed));
    pthread_mutex_destroy(&t->lock);
}

static int add_slot(struct slot_table *t, uint32_t *index)
{
    uint32_t chunk = t->used / SLOT_CHUNK;
    struct slot *slots;

    if (t->used >= SLOT_LIMIT)
        return -ENOSPC;
    if (!atomic_load_explicit(&t->chunk[chunk], memory_order_relaxed)) {
        slots = calloc(SLOT_CHUNK, sizeof(*slots));
        if (!slots)
            return -ENOMEM;
        atomic_store_explicit(&t->chunk[chunk], slots, memory_order_release);
    }
    *index = t->used++;
    return 0;
}

int slot_table_reserve(struct slot_table *t, uint32_t *id)
{
    uint32_t index = 0;
    struct slot *s;
    int err = 0;

    pthread_mutex_lock(&t->lock);
    if (t->free_head != SLOT_NONE) {
        index = t->free_head;
        t->free_head = slot_at(t, index)->next_free;
        if (t->free_head == SLOT_NONE)
            t->free_tail = SLOT_NONE;
    } else {
        err = add_slot(t, &index);
    }
    if (!err) {
        s = slot_at(t, index);
        *id = atomic_load_explicit(&s->gen, memory_order_relaxed) << SLOT_INDEX_BITS | index;
    }
    pthread_mutex_unlock(&t->lock);
    return err;
}

void slot_table_publish(struct slot_table *t, uint32_t id, void *object)
{
    atomic_store_explicit(&slot_at(t, id & INDEX_MASK)->object, object, memory_order_release);
}

void slot_table_remove(struct slot_table *t, uint32_t id)
{
    uint32_t index = id & INDEX_MASK;
    struct slot *s = slot_at(t, index);
    uint32_t gen = ((id >> SLOT_INDEX_BITS) + 1) & GEN_MASK;

    pthread_mutex_lock(&t->lock);
    atomic_store_explicit(&s->object, NULL, memory_order_relaxed);
    atomic_store_explicit(&s->gen, gen, memory_order_release);
    s->next_free = SLOT_NONE;
    if (t->free_tail != SLOT_NONE)
        slot_at(t, t->free_tail)->next_free = index;
    else
        t->free_head = index;
    t->free_tail = index;
    pthread_mutex_unlock(&t->lock);
}
