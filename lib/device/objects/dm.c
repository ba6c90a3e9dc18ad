/* SPDX-License-Identifier: BSD-3-Clause */
/* See dm.h. */
#include "objects/dm.h"

#include <errno.h>

#include "control/session_state.h"

#define DM_LOG_ALIGN_MAX 12u /* slabs begin with a page */

uint64_t dm_max_size(const struct session *sn)
{
    uint64_t memory = quota_limit(&sn->rnic->quota, sn->peer.uid, QUOTA_MEMORY);

    return min_of(memory / 2, LIMIT_DM_SIZE); /* there are queues, too */
}

/* The application knows slabs of both pools by their ids. */
#define DM_SLAB_IDS (UINT64_C(1) << 63)

void dm_open(struct session *sn)
{
    sn->dm_slabs.account = &sn->account;
    sn->dm_slabs.owner = sn;
    sn->dm_slabs.shares = true;
    sn->dm_slabs.last_id = DM_SLAB_IDS;
}

int dm_alloc(struct session *sn, struct ctl_call *call)
{
    const struct ctl_alloc_dm *rq = &call->request->alloc_dm;
    struct ctl_alloc_dm *reply = &call->reply.alloc_dm;
    uint64_t align = UINT64_C(1) << min_of(rq->log_align, DM_LOG_ALIGN_MAX), skip;
    struct dm *dm;
    int err;

    if (!rq->length || rq->length > dm_max_size(sn) || rq->log_align > DM_LOG_ALIGN_MAX)
        return -EINVAL;
    dm = object_create(sn, OBJ_DM, sizeof(*dm));
    if (!dm)
        return -ENOMEM;
    /* A piece begins with a cache line of its own. */
    err = object_piece(&sn->dm_slabs, call,
                       rq->length + (align > CACHE_LINE ? align - CACHE_LINE : 0), &dm->segment,
                       &reply->place);
    if (err) {
        object_destroy(&dm->o);
        return err;
    }
    skip = round_up(reply->place.offset, align) - reply->place.offset;
    reply->place.offset += skip;
    reply->handle = dm->o.handle;
    dm->base = (uint8_t *)dm->segment.base + skip;
    dm->length = rq->length;
    return 0;
}

/* Returns the slab that was freed with it, or 0. No region leads to it, and none did at the last
 * quiet point. */
static uint64_t dm_destroy(struct object *o)
{
    struct dm *dm = container_of(o, struct dm, o);
    uint64_t slab_gone = dm->alias.of ? 0 : slab_free(&o->session->dm_slabs, &dm->segment);

    alias_end(&dm->alias);
    object_destroy(o);
    return slab_gone;
}

void dm_end_unused(struct object *o)
{
    if (container_of(o, struct dm, o)->alias.unimported && !o->refs)
        dm_destroy(o);
}

int dm_free(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err;

    aliases_sweep(sn, OBJ_DM, dm_end_unused);
    err = object_get_unused(sn, OBJ_DM, call->request->destroy.handle, &o);
    if (!err)
        call->reply.destroy.slab_gone = dm_destroy(o);
    return err;
}

static void dm_free_one(struct object *o)
{
    dm_destroy(o);
}

bool dm_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_DM, s, dm_free_one);
}

/* ---- regions ---- */

/* addr is an offset in the memory, and the region's addresses begin with 0. */
int dm_reach(struct session *sn, const struct ctl_reg_mr *rq, struct mem_region *r, struct dm **dm)
{
    struct object *o = object_get(sn, OBJ_DM, rq->handle);

    if (!o)
        return -ENOENT;
    *dm = container_of(o, struct dm, o);
    if (!(rq->access & MEM_ZERO_BASED) || (rq->access & MEM_ON_DEMAND) ||
        rq->addr > (*dm)->length || rq->length > (*dm)->length - rq->addr)
        return -EINVAL;
    r->direct = (*dm)->base + rq->addr;
    return 0;
}

/* All addresses; a peer's access discards or reads zeros, as the program's does. */
int null_reach(const struct ctl_reg_mr *rq, struct mem_region *r)
{
    if (rq->access &
            ~(uint32_t)(MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC) ||
        rq->addr || rq->iova || rq->length != UINT64_MAX)
        return -EINVAL;
    r->backend = &mem_null_backend;
    r->space = NULL;
    return 0;
}
