/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory under a key, looked up: see mr_grant.h. */
#include "mr_grant.h"

struct mr_grant mr_grant_find(struct engine *e, uint32_t pd, struct mr_hint *hint, uint32_t key,
                              uint32_t access)
{
    struct mem_region *mr;

    if (!mr_hint_holds(hint, e->cfg.mrs, key) && !mr_hint_note(hint, &e->mrs, key, pd, access))
        return (struct mr_grant){.key = key};
    mr = hint->mr;
    if (!mr->direct)
        return (struct mr_grant){.key = key, .copied = mr};
    return (struct mr_grant){key, mr->iova, mr->len, mr->direct, NULL};
}
