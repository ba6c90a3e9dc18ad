/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mem_internal.h"

/* Not found in the cache: from the table, and then in the cache. Windows come and go by themselves:
 * they are looked up each time. */
struct mem_region *mr_find_slowly(struct mr_cache *c, uint32_t key)
{
    uint64_t removals = __atomic_load_n(&c->table->removals, __ATOMIC_ACQUIRE);
    struct mem_region *mr;

    if (removals != c->removals)
        memset(c->entry, 0, sizeof(c->entry));
    c->removals = removals;
    mr = mr_lookup(c->table, key);
    if (mr && mr->kind == MEM_REGION) {
        c->entry[key / 256 % MR_CACHE].key = key;
        c->entry[key / 256 % MR_CACHE].mr = mr;
    }
    return mr;
}

static enum mr_fault check_window(struct mem_region *w, uint32_t key, uint32_t pd, uint32_t qpn,
                                  uint64_t va, uint64_t len, uint32_t access, struct mr_span *out)
{
    enum mr_fault f;

    if (!window_hold(w))
        return MR_BAD_KEY;
    /* Held it does not change any more; before that it may have. */
    if (w->key != key || !w->bound)
        f = MR_BAD_KEY;
    else if (w->kind == MEM_WINDOW_2 && w->qpn != qpn)
        f = MR_BAD_PD;
    else
        f = mr_grants(w, pd, va, len, access);
    if (f == MR_OK)
        *out = (struct mr_span){.mr = w->parent, .addr = mr_host_addr(w, va), .window = w};
    else
        window_release(w);
    return f;
}

enum mr_fault mr_check_remote(struct mr_cache *c, uint32_t key, uint32_t pd, uint32_t qpn,
                              uint64_t va, uint64_t len, uint32_t access, struct mr_span *out)
{
    struct mem_region *mr = mr_find(c, key);
    enum mr_fault f;

    if (!mr)
        return MR_BAD_KEY;
    if (unlikely(mr->kind != MEM_REGION))
        return check_window(mr, key, pd, qpn, va, len, access, out);
    f = mr_grants(mr, pd, va, len, access);
    if (f == MR_OK)
        *out = (struct mr_span){.mr = mr, .addr = mr_host_addr(mr, va)};
    return f;
}
