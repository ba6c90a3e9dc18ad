/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that name objects: one load to look up. A number is reused as late as possible, so that a
 * stale one rarely reaches a new object. The control thread writes, workers read; an object
 * is freed only after the workers' next quiet point.
 */
#ifndef UROCE_ID_TABLE_H
#define UROCE_ID_TABLE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct id_table {
    uint32_t first, end, next, used;
    uint64_t inserted; /* ever: numbers come round again, this does not */
    void *slot[];      /* index = number */
};

/* Numbers from `first` to end - 1. NULL: out of memory. */
static inline struct id_table *id_table_create(uint32_t first, uint32_t end)
{
    struct id_table *t = calloc(1, sizeof(*t) + end * sizeof(t->slot[0]));

    if (t) {
        t->first = t->next = first;
        t->end = end;
    }
    return t;
}

static inline void *id_table_lookup(const struct id_table *t, uint32_t id)
{
    return id < t->end ? __atomic_load_n(&t->slot[id], __ATOMIC_ACQUIRE) : NULL;
}

/* Gives the object the next free number. 0 or -ENOSPC. */
static inline int id_table_insert(struct id_table *t, void *object, uint32_t *id)
{
    if (t->used == t->end - t->first)
        return -ENOSPC;
    while (t->slot[t->next])
        t->next = t->next + 1 < t->end ? t->next + 1 : t->first;
    *id = t->next;
    t->used++;
    t->inserted++;
    t->next = t->next + 1 < t->end ? t->next + 1 : t->first;
    __atomic_store_n(&t->slot[*id], object, __ATOMIC_RELEASE);
    return 0;
}

/* The next object gets this number, if it is free. */
static inline void id_table_prefer(struct id_table *t, uint32_t id)
{
    if (id >= t->first && id < t->end && !t->slot[id])
        t->next = id;
}

static inline void id_table_remove(struct id_table *t, uint32_t id, const void *object)
{
    if (id >= t->end || t->slot[id] != object)
        return;
    __atomic_store_n(&t->slot[id], NULL, __ATOMIC_RELEASE);
    t->used--;
}

#endif
