/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking doorbells, a bounded number at a time: see doorbell.h. */
#include "doorbell.h"

/* The progress of one doorbell_take. */
struct take {
    struct doorbells *db;
    uint32_t *slot;
    unsigned n, max;
    unsigned visits; /* leaf words read, with doorbells or without */
    uint32_t resume; /* the slot behind the last one visited */
};

static bool is_cut_short(const struct take *t)
{
    return t->n == t->max || t->visits == t->max;
}

static uint64_t bit_at(unsigned i)
{
    return UINT64_C(1) << i;
}

static uint64_t bits_from(unsigned i)
{
    return ~UINT64_C(0) << i;
}

/* Takes the doorbells of one leaf word from bit `first` on. The word's bit in its mid word must be
 * clear already. */
static void take_leaf(struct take *t, uint32_t word, unsigned first)
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

/* Takes the doorbells under one bit of the top word, from slot `from` on if the bit covers it. */
static void take_mid(struct take *t, unsigned top_bit, uint32_t from)
{
    _Atomic uint64_t *mid = doorbell_mid(t->db, top_bit);
    unsigned first = from >> 12 == top_bit ? (from >> 6) & 63 : 0;
    uint64_t rung;

    atomic_fetch_and(&t->db->top, ~bit_at(top_bit));
    rung = atomic_load(mid) & bits_from(first);
    for (; rung && !is_cut_short(t); rung &= rung - 1) {
        uint32_t word = top_bit << 6 | (uint32_t)__builtin_ctzll(rung);

        atomic_fetch_and(mid, ~bit_at(word & 63));
        take_leaf(t, word, from >> 6 == word ? from & 63 : 0);
    }
    /* Some doorbells were left out. An application that rings one now also sets the bit itself. */
    if (atomic_load(mid))
        doorbell_set_bit(&t->db->top, top_bit);
}

static void take_from(struct take *t, uint32_t from)
{
    uint64_t rung = atomic_load(&t->db->top) & bits_from(from >> 12);

    for (; rung && !is_cut_short(t); rung &= rung - 1)
        take_mid(t, (unsigned)__builtin_ctzll(rung), from);
}

unsigned doorbell_take(struct doorbells *db, uint32_t *slot, unsigned max)
{
    struct take t = {.db = db, .slot = slot, .max = max};
    uint32_t from, resume;

    if (!doorbell_pending(db) || !max)
        return 0;
    from = atomic_load_explicit(&db->resume, memory_order_relaxed) % DB_SLOTS;
    take_from(&t, from);
    if (from && !is_cut_short(&t))
        take_from(&t, 0);
    resume = is_cut_short(&t) ? t.resume % DB_SLOTS : 0;
    if (resume != from)
        atomic_store_explicit(&db->resume, resume, memory_order_relaxed);
    return t.n;
}
