/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that name objects: one load to look up. Their order is secret: other applications and
 * hosts learn nothing from the numbers they see. A number is reused as late as possible, so that a
 * stale one rarely reaches a new object. The control thread writes, workers read; an object
 * is freed only after the workers' next quiet point.
 */
#ifndef UROCE_ID_TABLE_H
#define UROCE_ID_TABLE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "lines.h"
#include "permute.h"

struct id_table {
    uint32_t first, end, used;
    uint32_t next;      /* in the order of the permutation: where the search for a number starts */
    uint32_t preferred; /* the next object's number, or 0 */
    uint64_t inserted;  /* ever: numbers come round again, this does not */
    struct permutation order;
    void *slot[]; /* index = number */
};

/* Numbers from `first`, which is not 0, to end - 1; secret as in permute.h. NULL: out of memory. */
static inline struct id_table *id_table_create(uint32_t first, uint32_t end,
                                               const uint64_t secret[2])
{
    struct id_table *t = calloc(1, sizeof(*t) + end * sizeof(t->slot[0]));

    if (t) {
        t->first = first;
        t->end = end;
        permutation_init(&t->order, end - first, secret);
    }
    return t;
}

static inline void *id_table_lookup(const struct id_table *t, uint32_t id)
{
    return id < t->end ? __atomic_load_n(&t->slot[id], __ATOMIC_ACQUIRE) : NULL;
}

/* Begins to fetch what a lookup reads into the cache. */
static inline void id_table_fetch(const struct id_table *t, uint32_t id)
{
    if (id < t->end)
        line_fetch(&t->slot[id]);
}

static inline uint32_t id_table_next(struct id_table *t)
{
    uint32_t id = t->first + permute(&t->order, t->next);

    t->next = t->next + 1 < t->end - t->first ? t->next + 1 : 0;
    return id;
}

/* Gives the object the next free number. 0 or -ENOSPC. */
static inline int id_table_insert(struct id_table *t, void *object, uint32_t *id)
{
    if (t->used == t->end - t->first)
        return -ENOSPC;
    *id = t->preferred;
    t->preferred = 0;
    while (!*id || t->slot[*id])
        *id = id_table_next(t);
    t->used++;
    t->inserted++;
    __atomic_store_n(&t->slot[*id], object, __ATOMIC_RELEASE);
    return 0;
}

/* The next object gets this number, if it is free. */
static inline void id_table_prefer(struct id_table *t, uint32_t id)
{
    if (id >= t->first && id < t->end && !t->slot[id])
        t->preferred = id;
}

static inline void id_table_remove(struct id_table *t, uint32_t id, const void *object)
{
    if (id >= t->end || t->slot[id] != object)
        return;
    __atomic_store_n(&t->slot[id], NULL, __ATOMIC_RELEASE);
    t->used--;
}

#endif
