/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of regions by key: see mem.h. */
#include <errno.h>
#include <stdlib.h>

#include "mem_internal.h"
#include "permute.h"

#define ID_BITS   24 /* of (generation, slot), and of its permutation in the key */
#define HALF_BITS (ID_BITS / 2)
#define TAG_BITS  8

int mr_table_init(struct mr_table *t, uint32_t slots, const uint64_t secret[2])
{
    if (slots > MR_TABLE_MAX_SLOTS)
        return -EINVAL;
    slots = pow2_at_least(slots);
    *t = (struct mr_table){
        .slots = slots,
        .slot_bits = (uint32_t)__builtin_ctz(slots),
        .secret = {secret[0], secret[1]},
        .generation = calloc(slots, sizeof(*t->generation)),
        .region = calloc(slots, sizeof(*t->region)),
    };
    if (t->generation && t->region)
        return 0;
    mr_table_fini(t);
    return -ENOMEM;
}

void mr_table_fini(struct mr_table *t)
{
    free(t->generation);
    free(t->region);
    t->generation = NULL;
    t->region = NULL;
    t->slots = 0;
}

static uint32_t make_key(const struct mr_table *t, uint32_t slot, uint8_t tag)
{
    uint32_t id = ((uint32_t)t->generation[slot] << t->slot_bits | slot) & ((1u << ID_BITS) - 1);
    uint32_t key = permute_bits(t->secret, HALF_BITS, id) << TAG_BITS | tag;

    return key ? key : 1; /* the same id with another tag: no other slot has it */
}

static uint32_t slot_of(const struct mr_table *t, uint32_t key)
{
    return unpermute_bits(t->secret, HALF_BITS, key >> TAG_BITS) & (t->slots - 1);
}

int mr_insert(struct mr_table *t, struct mem_region *mr, uint8_t tag)
{
    uint32_t slot = t->next;

    if (t->used == t->slots)
        return -ENOSPC;
    while (atomic_load_explicit(&t->region[slot], memory_order_relaxed))
        slot = (slot + 1) & (t->slots - 1);
    /* The search continues here and not at the start: a freed slot, and its keys, stay unused for
     * long. */
    t->next = (slot + 1) & (t->slots - 1);
    t->used++;
    if (slot >= atomic_load_explicit(&t->top, memory_order_relaxed))
        atomic_store_explicit(&t->top, slot + 1, memory_order_release);
    atomic_store_explicit(&mr->key, make_key(t, slot, tag), memory_order_relaxed);
    mr->bound = mr->kind == MEM_REGION;
    atomic_store_explicit(&t->region[slot], mr, memory_order_release);
    return 0;
}

void mr_replace(struct mr_table *t, struct mem_region *old, struct mem_region *mr)
{
    uint32_t key = atomic_load_explicit(&old->key, memory_order_relaxed);

    atomic_store_explicit(&mr->key, key, memory_order_relaxed);
    mr->bound = old->bound;
    mr_leave(t, old);
    atomic_store_explicit(&t->region[slot_of(t, key)], mr, memory_order_release);
    atomic_fetch_add_explicit(&t->removals, 1, memory_order_release); /* of what hints lead to */
}

void mr_remove(struct mr_table *t, struct mem_region *mr)
{
    uint32_t key = atomic_load_explicit(&mr->key, memory_order_relaxed);
    uint32_t slot = slot_of(t, key);

    if (atomic_load_explicit(&t->region[slot], memory_order_relaxed) != mr)
        return;
    mr_leave(t, mr);
    atomic_store_explicit(&t->region[slot], NULL, memory_order_release);
    atomic_fetch_add_explicit(&t->removals, 1, memory_order_release);
    t->generation[slot]++;
    t->used--;
}

struct mem_region *mr_lookup_any_tag(const struct mr_table *t, uint32_t key)
{
    struct mem_region *mr = atomic_load_explicit(&t->region[slot_of(t, key)], memory_order_acquire);

    return mr && !((atomic_load_explicit(&mr->key, memory_order_relaxed) ^ key) >> TAG_BITS) ? mr
                                                                                             : NULL;
}

struct mem_region *mr_lookup(const struct mr_table *t, uint32_t key)
{
    uint32_t slot = slot_of(t, key);
    struct mem_region *mr = atomic_load_explicit(&t->region[slot], memory_order_acquire);

    /* The whole key must match, with its generation and tag. */
    return mr && atomic_load_explicit(&mr->key, memory_order_relaxed) == key ? mr : NULL;
}
