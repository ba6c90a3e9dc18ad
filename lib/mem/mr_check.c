/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem_internal.h"

/* No sum is formed, so nothing can wrap around. */
static bool inside(const struct mem_region *mr, uint64_t va, uint64_t len)
{
    return va >= mr->iova && va - mr->iova <= mr->len && len <= mr->len - (va - mr->iova);
}

static inline enum mr_fault check(const struct mem_region *mr, uint32_t pd, uint64_t va,
                                  uint64_t len, uint32_t access)
{
    if (mr->pd != pd)
        return MR_BAD_PD;
    if ((mr->access & access) != access)
        return MR_BAD_ACCESS;
    return inside(mr, va, len) ? MR_OK : MR_BAD_RANGE;
}

enum mr_fault mr_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint64_t va,
                       uint64_t len, uint32_t access, struct mem_region **out)
{
    struct mem_region *mr = mr_lookup(t, key);
    enum mr_fault f;

    if (!mr || mr->kind != MEM_REGION)
        return MR_BAD_KEY;
    f = check(mr, pd, va, len, access);
    if (f == MR_OK)
        *out = mr;
    return f;
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
        f = check(w, pd, va, len, access);
    if (f == MR_OK)
        *out = (struct mr_span){.mr = w->parent, .addr = mr_host_addr(w, va), .window = w};
    else
        window_release(w);
    return f;
}

enum mr_fault mr_check_remote(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn,
                              uint64_t va, uint64_t len, uint32_t access, struct mr_span *out)
{
    struct mem_region *mr = mr_lookup(t, key);
    enum mr_fault f;

    if (!mr)
        return MR_BAD_KEY;
    if (unlikely(mr->kind != MEM_REGION))
        return check_window(mr, key, pd, qpn, va, len, access, out);
    f = check(mr, pd, va, len, access);
    if (f == MR_OK)
        *out = (struct mr_span){.mr = mr, .addr = mr_host_addr(mr, va)};
    return f;
}
