/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, basic and XRC. */
#include "objects/srq_object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/raised.h"
#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/pd_mr.h"
#include "objects/xrcd.h"

struct srq_object *srq_object_get(struct session *sn, uint32_t srqn)
{
    struct srq *srq = srq_table_lookup(sn->device->srqs, srqn);
    struct srq_object *s;

    if (!srq)
        return NULL;
    s = container_of((struct dp_srq *)srq_owner(srq), struct srq_object, dp);
    return s->o.session == sn ? s : NULL;
}

/* A ring for at least max_wr WQEs of max_sge SGEs. */
static int plan_ring(struct ctl_create_srq *layout, uint32_t max_wr, uint32_t max_sge)
{
    if (!max_wr || max_wr > QUEUE_MAX_WR || max_sge > LIMIT_SGE)
        return -EINVAL;
    layout->size = pow2_at_least(max_wr);
    layout->stride = rqe_stride(max_of(max_sge, 1u));
    layout->max_wr = layout->size;
    layout->max_sge = min_of(
        (layout->stride - (uint32_t)sizeof(struct rqe)) / (uint32_t)sizeof(struct sge), LIMIT_SGE);
    layout->ring_off = sizeof(struct srq_shared);
    layout->segment_bytes = layout->ring_off + (uint64_t)layout->size * layout->stride;
    return 0;
}

static struct work_queue ring_of(const struct segment *segment, const struct ctl_create_srq *layout)
{
    struct srq_shared *shared = segment->base;

    return (struct work_queue){.ring = (uint8_t *)segment->base + layout->ring_off,
                               .prod = &shared->prod,
                               .size = layout->size,
                               .stride = layout->stride,
                               .max_sge = layout->max_sge};
}

/* XRC SRQs belong to a domain and complete into a queue of their own. */
static int find_parts(struct session *sn, const struct ctl_create_srq *rq, struct srq_object *s)
{
    struct object *pd = object_get(sn, OBJ_PD, rq->pd), *cq, *xrcd;

    if (!pd || (rq->type != CTL_SRQ_BASIC && rq->type != CTL_SRQ_XRC))
        return -EINVAL;
    s->pd = container_of(pd, struct pd, o);
    if (rq->type == CTL_SRQ_BASIC)
        return 0;
    cq = object_get(sn, OBJ_CQ, rq->cq);
    xrcd = object_get(sn, OBJ_XRCD, rq->xrcd);
    if (!cq || !xrcd)
        return -EINVAL;
    s->cq = container_of(cq, struct cq, o);
    s->xrcd = container_of(xrcd, struct xrcd, o);
    return 0;
}

static int build_srq(struct session *sn, struct srq_object *s, const struct ctl_create_srq *rq,
                     struct ctl_call *call)
{
    struct srq_init init;
    int err = plan_ring(&s->layout, rq->max_wr, rq->max_sge);

    if (!err)
        err = object_segment(sn, call, s->layout.segment_bytes, &s->segment, &s->layout.place);
    if (err)
        return err;
    init = (struct srq_init){
        .wq = ring_of(&s->segment, &s->layout),
        .taken = &((struct srq_shared *)s->segment.base)->taken,
        .pd = pd_number(s->pd),
        .xrc = s->xrcd != NULL,
        .xrcd = s->xrcd ? s->xrcd->domain->id : 0,
        .cq = s->cq ? &s->cq->dp.cq : NULL,
        .owner = &s->dp,
    };
    s->dp.events.owner = &s->o;
    s->srq = srq_create(sn->device->srqs, &init, &err);
    return s->srq ? 0 : err == -ENOSPC ? -ENOMEM : err;
}

int srq_object_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_srq *rq = &call->request->create_srq;
    struct srq_object *s = calloc(1, sizeof(*s));
    int err;

    if (!s)
        return -ENOMEM;
    s->layout = *rq;
    err = find_parts(sn, rq, s);
    if (!err)
        err = object_add(sn, &s->o, OBJ_SRQ); /* before others can find it */
    if (err) {
        free(s);
        return err;
    }
    err = build_srq(sn, s, rq, call);
    if (err) {
        slab_cancel(&sn->slabs, &s->segment);
        object_destroy(&s->o);
        return err;
    }
    s->pd->o.refs++;
    if (s->xrcd) {
        s->xrcd->o.refs++;
        s->cq->o.refs++;
    }
    s->o.handle = srq_number(s->srq);
    s->layout.handle = s->o.handle;
    s->layout.limit = 0;
    call->reply.create_srq = s->layout;
    return 0;
}

/* ---- resizing: the waiting WQEs move to a new segment ---- */

struct move_call {
    const struct ctl_create_srq *from, *to;
    const struct segment *old, *fresh;
};

static void move_wqes(void *arg, uint32_t first, uint32_t end)
{
    struct move_call *m = arg;
    struct srq_shared *shared = m->fresh->base;
    size_t bytes = min_of(m->from->stride, m->to->stride);

    for (uint32_t i = first; i != end; i++)
        memcpy(work_queue_slot((uint8_t *)m->fresh->base + m->to->ring_off, m->to->size,
                               m->to->stride, i),
               work_queue_slot((uint8_t *)m->old->base + m->from->ring_off, m->from->size,
                               m->from->stride, i),
               bytes);
    atomic_store(&shared->prod, end);
}

/* An errand: the copy may be of megabytes, in pages that have to be made first. */
static void run_move(struct session *sn)
{
    struct srq_resize *r = &sn->resize;
    struct work_queue wq = ring_of(&r->fresh, &r->layout);
    struct move_call m = {
        .from = &r->srq->layout, .to = &r->layout, .old = &r->srq->segment, .fresh = &r->fresh};

    srq_move(r->srq->srq, &wq, &((struct srq_shared *)r->fresh.base)->taken, move_wqes, &m);
}

static int begin_resize(struct srq_object *s, uint32_t max_wr, struct ctl_call *call)
{
    struct session *sn = s->o.session;
    struct srq_resize *r = &sn->resize;
    int err;

    *r = (struct srq_resize){.srq = s, .layout = s->layout, .fd = -1};
    err = plan_ring(&r->layout, max_wr, s->layout.max_sge);
    if (!err && r->layout.size < srq_waiting(s->srq))
        err = -EINVAL;
    if (!err)
        err = object_segment(sn, call, r->layout.segment_bytes, &r->fresh, &r->layout.place);
    if (!err && call->out_fds)
        r->fd = call->out_fd[--call->out_fds]; /* of the reply, and of none before */
    return err;
}

/* *slab_gone: the slab that was freed with the old segment, or 0. */
static int resize_srq(struct srq_object *s, uint32_t max_wr, struct ctl_call *call,
                      uint64_t *slab_gone)
{
    struct session *sn = s->o.session;
    struct srq_resize *r = &sn->resize;
    struct segment old = s->segment;
    int err = sn->away.state == AWAY_NOT ? begin_resize(s, max_wr, call) : 0;

    if (!err)
        err = session_errand(sn, run_move);
    if (err)
        return err;
    s->segment = r->fresh;
    s->layout = r->layout;
    if (r->fd >= 0)
        call->out_fd[call->out_fds++] = r->fd;
    r->fd = -1;
    *slab_gone = slab_free(&sn->slabs, &old); /* engines take WQEs from the new one by now */
    return 0;
}

void srq_end_resize(struct session *sn)
{
    if (sn->resize.fd >= 0)
        close(sn->resize.fd);
    sn->resize.fd = -1;
}

/* The limit that is armed afterwards must be one that the queue can be above. */
static bool has_valid_limit(const struct srq_object *s, const struct ctl_modify_srq *rq)
{
    uint32_t limit = rq->mask & CTL_SRQ_LIMIT ? rq->limit : srq_limit(s->srq);

    return limit <= (rq->mask & CTL_SRQ_MAX_WR ? rq->max_wr : s->layout.max_wr);
}

int srq_object_modify(struct session *sn, struct ctl_call *call)
{
    const struct ctl_modify_srq *rq = &call->request->modify_srq;
    struct srq_object *s = srq_object_get(sn, rq->handle);
    uint64_t slab_gone = 0;
    int err = 0;

    if (!s || (rq->mask & ~(uint32_t)(CTL_SRQ_MAX_WR | CTL_SRQ_LIMIT)))
        return -EINVAL;
    if (sn->away.state == AWAY_NOT && !has_valid_limit(s, rq))
        return -EINVAL;
    if (rq->mask & CTL_SRQ_MAX_WR)
        err = resize_srq(s, rq->max_wr, call, &slab_gone);
    if (err)
        return err;
    if ((rq->mask & CTL_SRQ_LIMIT) && srq_set_limit(s->srq, rq->limit))
        async_tell(sn, &s->wait, s->layout.uidx, 1u << QP_EVENT_SRQ_LIMIT_REACHED);
    call->reply.create_srq = s->layout;
    call->reply.create_srq.place.gone = slab_gone;
    return 0;
}

int srq_object_query(struct session *sn, struct ctl_call *call)
{
    struct srq_object *s = srq_object_get(sn, call->request->handle);

    if (!s)
        return -EINVAL;
    call->reply.create_srq = s->layout;
    call->reply.create_srq.limit = srq_limit(s->srq);
    return 0;
}

/* ---- destruction ---- */

/* Returns the slab that was freed with it, or 0. */
static uint64_t srq_object_free(struct srq_object *s)
{
    struct session *sn = s->o.session;
    uint64_t slab_gone;

    srq_unpublish(s->srq);
    device_quiesce(sn->device); /* XRC packets may have found it */
    raised_forget(sn->rnic, &s->dp.events);
    async_forget(sn, &s->wait);
    srq_free(s->srq);
    s->pd->o.refs--;
    if (s->xrcd) {
        s->xrcd->o.refs--;
        s->cq->o.refs--;
    }
    slab_gone = slab_free(&sn->slabs, &s->segment);
    object_destroy(&s->o);
    return slab_gone;
}

int srq_object_destroy(struct session *sn, struct ctl_call *call)
{
    struct srq_object *s = srq_object_get(sn, call->request->destroy.handle);

    if (!s)
        return -ENOENT;
    if (s->o.refs)
        return -EBUSY;
    call->reply.destroy.slab_gone = srq_object_free(s);
    return 0;
}

static void srq_free_one(struct object *o)
{
    srq_object_free(container_of(o, struct srq_object, o));
}

bool srq_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_SRQ, s, srq_free_one);
}
