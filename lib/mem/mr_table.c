/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of regions by key: see mem.h. */
#include <errno.h>
#include <stdlib.h>

#include "common.h"
#include "mem.h"

#define ID_BITS   24 /* of (generation, slot), and of its permutation in the key */
#define HALF_BITS (ID_BITS / 2)
#define HALF_MASK ((1u << HALF_BITS) - 1)
#define TAG_BITS  8
#define ROUNDS    4

/* One round's pseudo-random function of half an id. */
static uint32_t scramble(const struct mr_table *t, unsigned round, uint32_t half)
{
    uint64_t x = (round + 1) << HALF_BITS | half;

    x = (x ^ t->secret[round & 1]) * UINT64_C(0xd1342543de82ef95);
    x ^= x >> 32;
    x = (x ^ t->secret[~round & 1]) * UINT64_C(0xaf251af3b0f025b5);
    return (uint32_t)(x >> (64 - HALF_BITS));
}

/* The secret permutation: a Feistel network, which is invertible for every function scramble(). */
static uint32_t permute(const struct mr_table *t, uint32_t id)
{
    uint32_t left = id >> HALF_BITS, right = id & HALF_MASK;

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t swap = right;

        right = left ^ scramble(t, round, right);
        left = swap;
    }
    return left << HALF_BITS | right;
}

static uint32_t unpermute(const struct mr_table *t, uint32_t id)
{
    uint32_t left = id >> HALF_BITS, right = id & HALF_MASK;

    for (unsigned round = ROUNDS; round-- > 0;) {
        uint32_t swap = left;

        left = right ^ scramble(t, round, left);
        right = swap;
    }
    return left << HALF_BITS | right;
}

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
    uint32_t key = permute(t, id) << TAG_BITS | tag;

    return key ? key : 1; /* the same id with another tag: no other slot has it */
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
    atomic_store_explicit(&mr->key, make_key(t, slot, tag), memory_order_relaxed);
    mr->bound = mr->kind == MEM_REGION;
    atomic_store_explicit(&t->region[slot], mr, memory_order_release);
    return 0;
}

void mr_remove(struct mr_table *t, struct mem_region *mr)
{
    uint32_t key = atomic_load_explicit(&mr->key, memory_order_relaxed);
    uint32_t slot = unpermute(t, key >> TAG_BITS) & (t->slots - 1);

    if (atomic_load_explicit(&t->region[slot], memory_order_relaxed) != mr)
        return;
    atomic_store_explicit(&t->region[slot], NULL, memory_order_release);
    atomic_fetch_add_explicit(&t->removals, 1, memory_order_release);
    t->generation[slot]++;
    t->used--;
}

struct mem_region *mr_lookup(const struct mr_table *t, uint32_t key)
{
    uint32_t slot = unpermute(t, key >> TAG_BITS) & (t->slots - 1);
    struct mem_region *mr = atomic_load_explicit(&t->region[slot], memory_order_acquire);

    /* The whole key must match, with its generation and tag. */
    return mr && atomic_load_explicit(&mr->key, memory_order_relaxed) == key ? mr : NULL;
}
