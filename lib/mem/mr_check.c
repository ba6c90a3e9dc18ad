/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of keys, ranges and rights: see mem.h. */
#include <string.h>

#include "lines.h"
#include "mem_internal.h"

/* Looks a key up in the table, and adds a region to the cache. Windows are not cached: work
 * requests change them at any time. */
static __attribute__((noinline)) struct mem_region *find_region_in_table(struct mr_cache *c,
                                                                         uint32_t key)
{
    uint64_t removals = atomic_load_explicit(&c->table->removals, memory_order_acquire);
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

/* NULL: it is not in the cache. */
static inline struct mem_region *find_region_in_cache(const struct mr_cache *c, uint32_t key)
{
    unsigned at = key / 256 % MR_CACHE; /* the low bits are a tag */

    if (likely(c->entry[at].key == key && c->entry[at].mr &&
               atomic_load_explicit(&c->table->removals, memory_order_acquire) == c->removals))
        return c->entry[at].mr;
    return NULL;
}

static inline struct mem_region *find_region(struct mr_cache *c, uint32_t key)
{
    struct mem_region *mr = find_region_in_cache(c, key);

    return likely(mr) ? mr : find_region_in_table(c, key);
}

static inline enum mr_fault check_access(const struct mem_region *mr, uint32_t pd, uint64_t va,
                                         uint64_t len, uint32_t access)
{
    if (atomic_load_explicit(&mr->pd, memory_order_relaxed) != pd)
        return MR_BAD_PD;
    if ((mr->access & access) != access)
        return MR_BAD_ACCESS;
    return mr_covers(mr, va, len) ? MR_OK : MR_BAD_RANGE;
}

enum mr_fault region_check(const struct mem_region *mr, uint32_t pd, uint64_t va, uint64_t len,
                           uint32_t access)
{
    if (!mr || mr->kind != MEM_REGION)
        return MR_BAD_KEY;
    return check_access(mr, pd, va, len, access);
}

enum mr_fault mr_check(struct mr_cache *c, uint32_t key, uint32_t pd, uint64_t va, uint64_t len,
                       uint32_t access, struct mem_region **out)
{
    struct mem_region *mr = find_region(c, key);
    enum mr_fault f = region_check(mr, pd, va, len, access);

    if (f == MR_OK)
        *out = mr;
    return f;
}

void mr_fetch(const struct mr_cache *c, uint32_t key, uint64_t va)
{
    const struct mem_region *mr = find_region_in_cache(c, key);

    if (mr && mr->direct)
        line_fetch((const void *)((uintptr_t)mr->direct + (uintptr_t)(va - mr->iova)));
}

bool mr_hint_note(struct mr_hint *h, struct mr_cache *c, uint32_t key, uint32_t pd, uint32_t access)
{
    uint64_t removals = atomic_load_explicit(&c->table->removals, memory_order_acquire);
    struct mem_region *mr = find_region(c, key);

    if (!mr || mr->kind != MEM_REGION || mr->iova + mr->len < mr->iova ||
        check_access(mr, pd, mr->iova, 0, access) != MR_OK)
        return false;
    *h = (struct mr_hint){.mr = mr, .removals = removals, .key = key};
    return true;
}

bool mr_hint_holds(const struct mr_hint *h, const struct mr_table *t, uint32_t key)
{
    return h->mr && h->key == key &&
           atomic_load_explicit(&t->removals, memory_order_acquire) == h->removals;
}

static bool has_failed(const struct mem_region *mr)
{
    return atomic_load_explicit(&mr->pd, memory_order_relaxed) == MEM_PD_NONE;
}

static enum mr_fault check_window(struct mem_region *w, uint32_t key, uint32_t pd, uint32_t qpn,
                                  uint64_t va, uint64_t len, uint32_t access, struct mr_span *out)
{
    enum mr_fault f;

    if (!window_hold(w))
        return MR_BAD_KEY;
    /* The window may have changed before it was held; from now on it does not. */
    if (w->key != key || !w->bound)
        f = MR_BAD_KEY;
    else if (has_failed(w->parent))
        f = MR_BAD_PD;
    else if (w->kind == MEM_WINDOW_2 && w->qpn != qpn)
        f = MR_BAD_PD;
    else
        f = check_access(w, pd, va, len, access);
    if (f == MR_OK)
        *out = (struct mr_span){.mr = w->parent, .addr = mr_host_addr(w, va), .window = w};
    else
        window_release(w);
    return f;
}

enum mr_fault mr_check_remote(struct mr_cache *c, uint32_t key, uint32_t pd, uint32_t qpn,
                              uint64_t va, uint64_t len, uint32_t access, struct mr_span *out)
{
    struct mem_region *mr = find_region(c, key);
    enum mr_fault f;

    if (!mr)
        return MR_BAD_KEY;
    if (unlikely(mr->kind != MEM_REGION))
        return check_window(mr, key, pd, qpn, va, len, access, out);
    f = check_access(mr, pd, va, len, access);
    if (f == MR_OK)
        *out = (struct mr_span){.mr = mr, .addr = mr_host_addr(mr, va)};
    return f;
}
