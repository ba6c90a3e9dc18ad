/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be said about keys that were refused: see mem.h. */
#include <stddef.h>

#include "mem_internal.h"
#include "mr_about.h"

/* A search takes a tenth of a millisecond at most: no peer can keep a worker busy by it. */
#define SLOTS_LOOKED_AT   65536u
#define REGIONS_LOOKED_AT 1024u

/* The latest regions are in the last slots, until all were used once. */
bool mr_find_address(const struct mr_table *t, uint32_t pd, uint64_t va, uint64_t len,
                     const struct mem_region **out)
{
    uint32_t top = atomic_load_explicit(&t->top, memory_order_acquire), seen = 0, i = top;
    uint32_t end = top - min_of(top, SLOTS_LOOKED_AT);

    *out = NULL;
    while (i > end && seen < REGIONS_LOOKED_AT) {
        const struct mem_region *mr = atomic_load_explicit(&t->region[--i], memory_order_acquire);

        seen += mr != NULL;
        if (!mr || mr->kind != MEM_REGION || !mr_covers(mr, va, 0) ||
            atomic_load_explicit(&mr->pd, memory_order_relaxed) != pd)
            continue;
        if (!*out || mr_covers(mr, va, len))
            *out = mr;
        if (mr_covers(mr, va, len))
            break;
    }
    return *out || !i;
}

static enum mr_key_is window_is(const struct mem_region *w, uint32_t qpn)
{
    if (!w->bound)
        return MR_KEY_UNBOUND;
    if (w->kind == MEM_WINDOW_1)
        return MR_KEY_WINDOW_1;
    return w->qpn == qpn ? MR_KEY_WINDOW_2 : MR_KEY_OF_OTHER_QP;
}

static void copy_about(struct mr_about *out, const struct mem_region *mr)
{
    out->access = mr->access;
    out->va = mr->iova;
    out->len = mr->len;
}

static void about_window(struct mem_region *w, uint32_t key, uint32_t qpn, struct mr_about *out)
{
    if (!window_hold(w)) /* another worker is changing it */
        return;
    if (atomic_load_explicit(&w->key, memory_order_relaxed) == key)
        out->is = window_is(w, qpn);
    else
        out->is = MR_KEY_OLD;
    if (out->is != MR_KEY_OLD && w->bound)
        copy_about(out, w);
    window_release(w);
}

void mr_about(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn,
              struct mr_about *out)
{
    struct mem_region *mr = mr_lookup_any_tag(t, key);

    *out = (struct mr_about){.is = mr_removed_at(t, key) ? MR_KEY_REMOVED : MR_KEY_NONE};
    if (!mr || atomic_load_explicit(&mr->pd, memory_order_relaxed) != pd)
        return;
    if (mr->kind != MEM_REGION) {
        about_window(mr, key, qpn, out);
    } else if (atomic_load_explicit(&mr->key, memory_order_relaxed) == key) {
        out->is = MR_KEY_REGION;
        copy_about(out, mr);
    }
}
