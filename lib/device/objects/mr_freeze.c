/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application rearranges the memory behind its regions: workers wait where they would access
 * this memory, and continue with other mappings, or by copying.
 *
 * Workers serve other applications too, so a freeze is short, and each user has a credit of time
 * for which that user's applications may stop workers. Without credit freezes last no time, at the
 * application's own risk; and the application asks again later for what has to stop the workers.
 */
#include "objects/pd_mr.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "control/session_state.h"
#include "objects/freeze_credit.h"

#define LATE_MAX (200 * NS_PER_MS)

void mrs_end_freeze(struct session *sn)
{
    ns_t waited;

    if (!sn->freeze.on)
        return;
    sn->freeze.on = false;
    waited = sn->rnic->config.mem->thaw(sn->space);
    freeze_credit_return(sn->rnic, sn->peer.uid,
                         sn->freeze.granted - min_of(waited, sn->freeze.granted));
}

struct freeze_call {
    struct session *sn;
    ns_t time;
    bool unmap;
    ns_t took; /* out */
};

/* Runs while no worker does. */
static void freeze_now(struct worker *w, void *arg)
{
    struct freeze_call *call = arg;
    struct session *sn = call->sn;
    ns_t start = sn->rnic->config.clock();
    struct mr *mr;

    if (call->time)
        sn->rnic->config.mem->freeze(sn->space, call->time);
    if (!call->unmap)
        return;
    LIST_FOREACH(mr, &sn->movable_mrs, movable)
    mr->region.direct = NULL;
    call->took = sn->rnic->config.clock() - start;
}

static void unmap_all(struct session *sn)
{
    struct mr *mr;

    while ((mr = LIST_FIRST(&sn->movable_mrs))) {
        mr_left(&sn->device->mrs, &mr->region);
        mr_unmap(sn, mr->mapping, &mr->region, mr->pieces);
        mr_set_mapping(mr, NULL);
        mr_set_why(mr, CTL_MR_FORKED);
        mr_heat_start(mr);
    }
}

static bool copies_are_late(const struct session *sn)
{
    return sn->copy->late && atomic_load(sn->copy->late(sn->space));
}

/* A copy that another thread has been left with is not suspended. Mostly it ends soon: the
 * application asks again until then, but not for longer than LATE_MAX. */
static bool wait_for_late_copies(struct session *sn)
{
    ns_t now = sn->rnic->config.clock();

    if (!copies_are_late(sn)) {
        sn->freeze.late_since = 0;
        return false;
    }
    if (!sn->freeze.late_since)
        sn->freeze.late_since = now;
    return now - sn->freeze.late_since < LATE_MAX;
}

int mrs_freeze(struct session *sn, struct ctl_call *call)
{
    struct rnic *r = sn->rnic;
    uint32_t flags = call->request->freeze.flags;
    struct freeze_call f = {.sn = sn, .unmap = flags & CTL_FREEZE_UNMAP};
    bool may_stop;

    if (flags & ~(uint32_t)CTL_FREEZE_UNMAP)
        return -EINVAL;
    mrs_end_freeze(sn);
    if (wait_for_late_copies(sn))
        return -EAGAIN;
    f.unmap = f.unmap && !LIST_EMPTY(&sn->movable_mrs);
    may_stop = freeze_credit_stop(r, sn->peer.uid);
    if (f.unmap && !may_stop)
        return -EAGAIN;
    if (may_stop && r->config.mem->freeze)
        f.time = freeze_credit_take(r, sn->peer.uid);
    sn->freeze.on = f.time;
    sn->freeze.granted = f.time;
    if (may_stop)
        device_call_all(sn->device, freeze_now, &f);
    freeze_credit_pay(r, sn->peer.uid, f.took);
    if (f.unmap)
        unmap_all(sn);
    if (f.time && wait_for_late_copies(sn)) { /* it became late while the workers were called */
        mrs_end_freeze(sn);
        return -EAGAIN;
    }
    if (copies_are_late(sn)) { /* it cannot be suspended */
        mrs_end_freeze(sn);
        f.time = 0;
    }
    call->reply.freeze.granted_us = (uint32_t)(f.time / 1000);
    return 0;
}

int mrs_thaw(struct session *sn, struct ctl_call *call)
{
    mrs_end_freeze(sn);
    return 0;
}

struct move_call {
    struct session *sn;
    void *space;
    const struct mem_backend *copy;
    ns_t took; /* out */
};

static void move_now(struct worker *w, void *arg)
{
    struct move_call *call = arg;
    struct session *sn = call->sn;
    ns_t start = sn->rnic->config.clock();
    struct object *o;

    TAILQ_FOREACH (o, &sn->objects[OBJ_MR], link) {
        struct mem_region *r = &container_of(o, struct mr, o)->region;

        if (r->space != sn->space || r->backend != sn->copy)
            continue;
        r->space = call->space;
        r->backend = call->copy;
    }
    for (unsigned i = 0; i < sn->device->parts; i++)
        sn->ctx[i].space = call->space;
    call->took = sn->rnic->config.clock() - start;
}

void mrs_move_space(struct session *sn, void *space, const struct mem_backend *copy)
{
    struct freeze_call unmap = {.sn = sn, .unmap = true};
    struct move_call move = {.sn = sn, .space = space, .copy = copy};

    mrs_end_freeze(sn);
    device_call_all(sn->device, freeze_now, &unmap);
    device_call_all(sn->device, move_now, &move);
    freeze_credit_pay(sn->rnic, sn->peer.uid, unmap.took + move.took);
    /* The list is the old space's, in which workers report no regions any more. */
    mrs_take_hot(sn);
    unmap_all(sn);
}

struct remap_call {
    struct mr *mr;
    uint8_t *direct;
};

static void remap_now(struct worker *w, void *arg)
{
    const struct remap_call *call = arg;

    call->mr->region.direct = call->direct;
}

/* A region that cannot be mapped remains copied. */
int mr_remap(struct session *sn, struct ctl_call *call)
{
    const struct ctl_remap *rq = &call->request->remap;
    struct object *o = object_get(sn, OBJ_MR, rq->handle);
    struct remap_call r;
    struct mem_region region;
    void *mapping;
    int err;

    if (!o || !call->in_fds != !rq->pieces || rq->why >= CTL_MR_WHYS)
        return -EINVAL;
    r.mr = container_of(o, struct mr, o);
    if (r.mr->region.direct)
        return -EBUSY;
    if (r.mr->region.backend != sn->copy)
        return -EINVAL;
    call->reply.remap.mapped = 0;
    if (!call->in_fds) {
        mr_set_why(r.mr, rq->why);
        mr_heat_start(r.mr);
        return 0;
    }
    /* At first, not when the region has been mapped for nothing. */
    if (sn->away.state == AWAY_NOT && !freeze_credit_stop(sn->rnic, sn->peer.uid))
        return -EAGAIN;
    /* Workers must not see a partial change. */
    region = r.mr->region;
    err = mr_reach(sn, &region, call, rq->piece, rq->pieces, &mapping);
    if (err == -EINPROGRESS)
        return err;
    mr_set_why(r.mr, mapping ? rq->why : CTL_MR_REFUSED);
    if (!mapping) {
        freeze_credit_return(sn->rnic, sn->peer.uid, STOP_COST);
        mr_heat_start(r.mr);
        return 0;
    }
    r.direct = region.direct;
    device_call_all(sn->device, remap_now, &r);
    r.mr->pieces = rq->pieces;
    mr_set_mapping(r.mr, mapping);
    call->reply.remap.mapped = 1;
    return 0;
}

int uffd_get(struct session *sn, struct ctl_call *call)
{
    const int *device = sn->rnic->config.uffd_device;
    int fd;

    if (!device)
        return -EPERM;
    fd = fcntl(*device, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    call->out_fd[call->out_fds++] = fd;
    return 0;
}
