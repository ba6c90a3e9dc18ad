/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids follow the addresses of their devices. One whose address has gone tells its program once,
 * by ADDR_CHANGE. An address that comes back may have another place in the GID table. A job, as
 * there may be many ids.
 */
#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "control/slice.h"

/* Whether the device still has the id's address. */
static bool has_address(struct cm_object *o)
{
    int place = cm_address_place(o);

    if (place < 0)
        return false;
    o->sgid_index = (unsigned)place;
    return true;
}

/* The program has not read of an earlier one. */
static bool is_told(const struct cm_object *o)
{
    const struct cm_record *r;

    TAILQ_FOREACH (r, &o->records, own)
        if (r->e.type == CTL_CM_ADDR_CHANGE)
            return true;
    return false;
}

/* While its peer's address is being resolved, the id hears ADDR_ERROR instead. */
static void look(struct cm_object *o)
{
    bool gone = o->address_gone;

    if (!o->device || !o->bound || o->progress == CM_AT_QUERY || cm_address_is_any(&o->src))
        return;
    o->address_gone = !has_address(o);
    if (o->address_gone && !gone && !is_told(o))
        cm_object_report(o, CTL_CM_ADDR_CHANGE, 0);
}

/* A slice; false: all have been looked at. */
static bool follow_some(struct rnic *r)
{
    struct cm_follow *f = &r->cm.follow;
    struct slice s = slice_begin();

    do {
        struct object *o = walk_next(&f->walk);

        if (o) {
            look(container_of(o, struct cm_object, o));
            continue;
        }
        walk_end(&f->walk);
        f->active = f->again;
        f->again = false;
        if (!f->active)
            return false;
        walk_begin(&f->walk, r, OBJ_CM_ID);
    } while (!slice_over(&s) || !r->config.loop);
    return true;
}

static bool run_follow(struct event_job *job)
{
    struct cm_follow *f = container_of(job, struct cm_follow, job);

    return follow_some(container_of(container_of(f, struct cm_host, follow), struct rnic, cm));
}

void cm_host_addresses_changed(struct rnic *r)
{
    struct cm_follow *f = &r->cm.follow;

    cm_resolve_again(r);
    f->again = f->active;
    if (f->active)
        return;
    f->active = true;
    f->job.run = run_follow;
    walk_begin(&f->walk, r, OBJ_CM_ID);
    if (follow_some(r))
        event_loop_start(r->config.loop, &f->job);
}

void cm_follow_stop(struct rnic *r)
{
    struct cm_follow *f = &r->cm.follow;

    if (!f->active)
        return;
    event_loop_stop(r->config.loop, &f->job);
    walk_end(&f->walk);
    f->active = false;
}
