/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys that were removed lately: see mem.h. */
#include "mr_table.h"

void mr_note_removal(struct mr_table *t, const struct mem_region *mr, uint64_t now)
{
    uint64_t n = atomic_load_explicit(&t->noted, memory_order_relaxed);
    unsigned at = n & (MR_REMOVALS_NOTED - 1);

    /* No key has a wrong time, not even while this is written. */
    atomic_store_explicit(&t->removal[at].key, 0, memory_order_release);
    atomic_store_explicit(&t->removal[at].time, now ? now : 1, memory_order_release);
    atomic_store_explicit(&t->removal[at].key, atomic_load_explicit(&mr->key, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&t->noted, n + 1, memory_order_release);
}

uint64_t mr_removed_at(const struct mr_table *t, uint32_t key)
{
    uint64_t n = atomic_load_explicit(&t->noted, memory_order_acquire);

    for (unsigned back = 1; key && back <= MR_REMOVALS_NOTED && back <= n; back++) {
        unsigned at = (n - back) & (MR_REMOVALS_NOTED - 1);
        uint64_t time;

        if (atomic_load_explicit(&t->removal[at].key, memory_order_acquire) != key)
            continue;
        time = atomic_load_explicit(&t->removal[at].time, memory_order_acquire);
        if (atomic_load_explicit(&t->removal[at].key, memory_order_acquire) == key)
            return time;
    }
    return 0;
}
