/* SPDX-License-Identifier: BSD-3-Clause */
#include "doorbell.h"

/* One call's progress. */
struct taking {
    struct doorbells *db;
    uint32_t *slot;
    unsigned n, max;
    unsigned visits; /* leaf words looked at, rung or not */
    uint32_t resume; /* the slot behind the last one looked at */
};

static bool cut_short(const struct taking *t)
{
    return t->n == t->max || t->visits == t->max;
}

static uint64_t bit(unsigned i)
{
    return UINT64_C(1) << i;
}

static uint64_t bits_from(unsigned i)
{
    return ~UINT64_C(0) << i;
}

/* Takes the bells of one leaf word from bit `first` on. Its bit above must be clear already. */
static void take_leaf(struct taking *t, uint32_t word, unsigned first)
{
    _Atomic uint64_t *leaf = doorbell_leaf(t->db, word);
    uint64_t rung = atomic_load(leaf) & bits_from(first);
    uint64_t taken = 0;

    t->visits++;
    t->resume = (word + 1) << 6;
    while (rung) {
        if (t->n == t->max) {
            t->resume = t->slot[t->n - 1] + 1;
            break;
        }
        t->slot[t->n++] = word << 6 | (uint32_t)__builtin_ctzll(rung);
        taken |= rung & -rung;
        rung &= rung - 1;
    }
    if (atomic_fetch_and(leaf, ~taken) & ~taken)
        doorbell_set_bit(doorbell_mid(t->db, word >> 6), word & 63);
}

/* Takes the bells under one bit of the top word, from slot `from` on if that lies under it. */
static void take_mid(struct taking *t, unsigned top_bit, uint32_t from)
{
    _Atomic uint64_t *mid = doorbell_mid(t->db, top_bit);
    unsigned first = from >> 12 == top_bit ? (from >> 6) & 63 : 0;
    uint64_t rung;

    atomic_fetch_and(&t->db->top, ~bit(top_bit));
    rung = atomic_load(mid) & bits_from(first);
    for (; rung && !cut_short(t); rung &= rung - 1) {
        uint32_t word = top_bit << 6 | (uint32_t)__builtin_ctzll(rung);

        atomic_fetch_and(mid, ~bit(word & 63));
        take_leaf(t, word, from >> 6 == word ? from & 63 : 0);
    }
    /* Bells that were left out. One that is rung only now sets the bit itself as well. */
    if (atomic_load(mid))
        doorbell_set_bit(&t->db->top, top_bit);
}

static void take_from(struct taking *t, uint32_t from)
{
    uint64_t rung = atomic_load(&t->db->top) & bits_from(from >> 12);

    for (; rung && !cut_short(t); rung &= rung - 1)
        take_mid(t, (unsigned)__builtin_ctzll(rung), from);
}

unsigned doorbell_take(struct doorbells *db, uint32_t *slot, unsigned max)
{
    struct taking t = {.db = db, .slot = slot, .max = max};
    uint32_t from, resume;

    if (!doorbell_pending(db) || !max)
        return 0;
    from = atomic_load_explicit(&db->resume, memory_order_relaxed) % DB_SLOTS;
    take_from(&t, from);
    if (from && !cut_short(&t))
        take_from(&t, 0);
    resume = cut_short(&t) ? t.resume % DB_SLOTS : 0;
    if (resume != from)
        atomic_store_explicit(&db->resume, resume, memory_order_relaxed);
    return t.n;
}
