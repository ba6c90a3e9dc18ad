/* SPDX-License-Identifier: BSD-3-Clause */
/* See handle_table.h. */
#include "objects/handle_table.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"

void handle_table_init(struct handle_table *t, uint32_t limit, const uint64_t secret[2])
{
    *t = (struct handle_table){.limit = limit};
    permutation_init(&t->order, limit, secret);
}

void handle_table_fini(struct handle_table *t)
{
    free(t->slot);
    free(t->free);
}

/* Called when every slot is in use, so the ring of free slots is empty and needs no copy. */
static int grow_table(struct handle_table *t)
{
    uint32_t room = t->room ? min_of(t->room * 2, t->limit) : min_of(64u, t->limit);
    struct object **slot;
    uint32_t *ring;

    if (room == t->room)
        return -1;
    slot = realloc(t->slot, room * sizeof(*slot));
    if (!slot)
        return -1;
    t->slot = slot;
    ring = realloc(t->free, room * sizeof(*ring));
    if (!ring)
        return -1;
    t->free = ring;
    t->free_head = 0;
    t->room = room;
    return 0;
}

uint32_t handle_add(struct handle_table *t, struct object *o)
{
    uint32_t slot;

    if (t->used == t->room && !t->free_count && grow_table(t))
        return 0;
    /* Fresh slots first: an old handle stays invalid as long as possible. */
    if (t->used < t->room) {
        slot = t->used++;
    } else {
        slot = t->free[t->free_head];
        t->free_head = (t->free_head + 1) % t->room;
        t->free_count--;
    }
    t->slot[slot] = o;
    return permute(&t->order, slot) + 1;
}

void handle_remove(struct handle_table *t, uint32_t handle)
{
    uint32_t slot = unpermute(&t->order, handle - 1);

    t->slot[slot] = NULL;
    t->free[(t->free_head + t->free_count) % t->room] = slot;
    t->free_count++;
}

struct object *handle_get(const struct handle_table *t, uint32_t handle)
{
    uint32_t slot;

    if (!handle || handle > t->limit)
        return NULL;
    slot = unpermute(&t->order, handle - 1);
    return slot < t->used ? t->slot[slot] : NULL;
}
