/* SPDX-License-Identifier: BSD-3-Clause */
/* Which copied regions are used often enough to be worth mapping: see mem.h. */
#include "mem_heat.h"
#include "common.h"

static void list_hot_region(struct mem_heat *h, struct mem_region *mr)
{
    struct mem_region *first = atomic_load_explicit(&h->hot, memory_order_relaxed);

    do
        mr->heat.next = first;
    while (!atomic_compare_exchange_weak(&h->hot, &first, mr));
}

/* Whether this use made the region hot. */
static bool count_use(struct mem_heat *h, struct mem_region *mr)
{
    uint64_t uses = atomic_load_explicit(&mr->heat.uses, memory_order_relaxed) + 1;
    uint32_t limit = atomic_load_explicit(&mr->heat.limit, memory_order_acquire);

    atomic_store_explicit(&mr->heat.uses, uses, memory_order_relaxed);
    if (likely(!limit || uses < limit) ||
        atomic_load_explicit(&mr->heat.listed, memory_order_relaxed) ||
        atomic_exchange(&mr->heat.listed, true))
        return false;
    list_hot_region(h, mr);
    return true;
}

bool mem_heat_note(struct mem_heat *h, const struct mem_io *io, unsigned n)
{
    bool any = false;

    for (unsigned i = 0; i < n; i++)
        if (io[i].mr && (!i || io[i].mr != io[i - 1].mr))
            any |= count_use(h, io[i].mr);
    return unlikely(any) && h->word && !atomic_exchange(h->word, 1);
}

struct mem_region *mem_heat_take(struct mem_heat *h)
{
    struct mem_region *first = atomic_exchange(&h->hot, NULL);

    for (struct mem_region *mr = first; mr; mr = mr->heat.next)
        mr->heat.taken = true;
    return first;
}

/*
 * A worker that has set `listed` may still be about to put the region on the list. The flag
 * therefore stays set until the region has been taken from the list: else the region could be on
 * the list twice, or after its end. A worker that sets `listed` again sees `taken`. The limit is
 * stored last: a worker that sees it also sees the other fields.
 */
void mem_heat_restart(struct mem_region *mr, uint32_t limit)
{
    atomic_store_explicit(&mr->heat.limit, 0, memory_order_relaxed);
    atomic_store_explicit(&mr->heat.uses, 0, memory_order_relaxed);
    if (mr->heat.taken) {
        mr->heat.taken = false;
        atomic_store_explicit(&mr->heat.listed, false, memory_order_release);
    }
    atomic_store_explicit(&mr->heat.limit, limit, memory_order_release);
}
