/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions that are copied often, and could be mapped, are reported to the application, as only the
 * application can move its pages. Workers count copies and put hot regions on a list of the space;
 * this file moves them to a list of the session, from which a region can be removed before it ends.
 */
#include "control/session_state.h"
#include "objects/pd_mr.h"

/* Moving a small region's pages takes as long as some hundred copies of one packet, and two pages
 * more as long as one more copy. So no region is hot for one transfer of all of it. */
#define HOT_USES      128u
#define BYTES_FOR_USE 8192u
#define HOT_USES_MAX  (UINT32_C(1) << 31)

static struct mem_heat *heat_of(const struct session *sn)
{
    return sn->rnic->config.mem->heat ? sn->rnic->config.mem->heat(sn->space) : NULL;
}

void mrs_report_heat(struct session *sn)
{
    struct ctx_shared *shared = sn->segment.base;
    struct mem_heat *h = heat_of(sn);

    if (h)
        h->word = &shared->mr_hot;
}

/* The order does not matter. */
void mrs_take_hot(struct session *sn)
{
    struct mem_heat *h = heat_of(sn);
    struct mem_region *r = h ? mem_heat_take(h) : NULL;

    while (r) {
        struct mr *mr = container_of(r, struct mr, region);

        r = r->heat.next;
        LIST_INSERT_HEAD(&sn->hot_mrs, mr, hot);
        mr->is_listed = true;
    }
}

static void unlist_hot(struct mr *mr)
{
    if (mr->is_listed)
        LIST_REMOVE(mr, hot);
    mr->is_listed = false;
}

/* Removes the region from the lists. A worker that is just reporting it adds it later, unless no
 * worker uses the region. */
void mr_heat_stop(struct mr *mr)
{
    if (atomic_load_explicit(&mr->region.heat.listed, memory_order_relaxed))
        mrs_take_hot(mr->o.session);
    unlist_hot(mr);
}

static uint32_t next_limit(const struct mr *mr)
{
    uint64_t first = HOT_USES + mr->region.len / BYTES_FOR_USE;

    return (uint32_t)min_of(mr->hot_uses ? 2 * (uint64_t)mr->hot_uses : first,
                            (uint64_t)HOT_USES_MAX);
}

void mr_heat_start(struct mr *mr)
{
    uint32_t limit = 0;

    mr_heat_stop(mr);
    if (!mr->mapping && ctl_mr_may_change(mr->why)) {
        limit = next_limit(mr);
        mr->hot_uses = limit;
    }
    mem_heat_restart(&mr->region, limit);
}

int mrs_hot(struct session *sn, struct ctl_call *call)
{
    struct ctl_hot *hot = &call->reply.hot;
    struct mr *mr;

    *hot = (struct ctl_hot){0};
    mrs_take_hot(sn);
    while (hot->count < CTL_HOT_MAX && (mr = LIST_FIRST(&sn->hot_mrs))) {
        unlist_hot(mr);
        if (!mr->mapping)
            hot->uidx[hot->count++] = mr->uidx;
    }
    hot->more = !LIST_EMPTY(&sn->hot_mrs);
    return 0;
}
