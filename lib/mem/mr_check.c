/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem.h"

/* No sum is formed, so nothing can wrap around. */
static bool inside(const struct mem_region *mr, uint64_t va, uint64_t len)
{
    return va >= mr->iova && va - mr->iova <= mr->len && len <= mr->len - (va - mr->iova);
}

enum mr_fault mr_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint64_t va,
                       uint64_t len, uint32_t access, struct mem_region **out)
{
    struct mem_region *mr = mr_lookup(t, key);

    if (!mr || !mr->bound)
        return MR_BAD_KEY;
    if (mr->pd != pd)
        return MR_BAD_PD;
    if ((mr->access & access) != access)
        return MR_BAD_ACCESS;
    if (!inside(mr, va, len))
        return MR_BAD_RANGE;
    *out = mr;
    return MR_OK;
}
