/* SPDX-License-Identifier: BSD-3-Clause */
#include "grant.h"

struct grant grant_find(struct engine *e, const struct qp *qp, struct mr_hint *hint, uint32_t key,
                        uint32_t access)
{
    const struct mem_region *mr;

    if (!mr_hint_holds(hint, e->cfg.mrs, key) && !mr_hint_note(hint, &e->mrs, key, qp->pd, access))
        return (struct grant){.key = key};
    mr = hint->mr;
    if (!mr->direct)
        return (struct grant){.key = key};
    return (struct grant){key, mr->iova, mr->len, mr->direct};
}
