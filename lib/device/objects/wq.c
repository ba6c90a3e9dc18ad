/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues: receive queues of raw packets, used by indirection tables. */
#include "objects/wq_object.h"

#include <errno.h>
#include <stdlib.h>

#include "control/permission.h"
#include "control/raised.h"
#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/pd_mr.h"
#include "objects/srq_object.h"
#include "objects/steer.h"
#include "objects/xrcd.h"

struct wq_object *wq_object_get(struct session *sn, uint32_t number)
{
    struct wq *wq = wq_table_lookup(sn->device->wqs, number);
    struct wq_object *w;

    if (!wq)
        return NULL;
    w = container_of((struct dp_wq *)wq_owner(wq), struct wq_object, dp);
    return w->o.session == sn ? w : NULL;
}

/* ---- creation ---- */

static int check_create(struct session *sn, const struct ctl_create_wq *rq)
{
    if (!permission_raw(sn))
        return -EPERM;
    if (rq->type != CTL_WQ_RQ && rq->type != CTL_WQ_SRQ)
        return -EINVAL;
    if (rq->type == CTL_WQ_RQ &&
        (rq->srq || !rq->max_wr || rq->max_wr > QUEUE_MAX_WR || rq->max_sge > LIMIT_SGE))
        return -EINVAL;
    return 0;
}

static int find_parts(struct session *sn, const struct ctl_create_wq *rq, struct wq_object *w)
{
    struct object *pd = object_get(sn, OBJ_PD, rq->pd), *cq = object_get(sn, OBJ_CQ, rq->cq);

    if (!pd || !cq)
        return -EINVAL;
    w->pd = container_of(pd, struct pd, o);
    w->cq = container_of(cq, struct cq, o);
    if (rq->type == CTL_WQ_RQ)
        return 0;
    w->srq = srq_object_get(sn, rq->srq);
    return w->srq && !w->srq->xrcd ? 0 : -EINVAL;
}

static void count_parts(struct wq_object *w, int n)
{
    w->pd->o.refs += (uint32_t)n;
    w->cq->o.refs += (uint32_t)n;
    if (w->srq)
        w->srq->o.refs += (uint32_t)n;
}

/* The ring is laid out as the receive ring of a queue pair. */
static void plan_ring(struct ctl_create_wq *layout, const struct ctl_create_wq *rq)
{
    layout->size = pow2_at_least(rq->max_wr);
    layout->stride = rqe_stride(max_of(rq->max_sge, 1u));
    layout->max_wr = layout->size;
    layout->max_sge = min_of(
        (layout->stride - (uint32_t)sizeof(struct rqe)) / (uint32_t)sizeof(struct sge), LIMIT_SGE);
    layout->rq_off = round_up(sizeof(struct qp_shared), CACHE_LINE);
    layout->segment_bytes = layout->rq_off + (uint64_t)layout->size * layout->stride;
}

static int make_ring(struct session *sn, struct wq_object *w, const struct ctl_create_wq *rq,
                     struct ctl_call *call, struct wq_init *init)
{
    struct ctl_create_wq *layout = &call->reply.create_wq;
    struct qp_shared *shared;
    int err;

    plan_ring(layout, rq);
    err = object_segment(sn, call, layout->segment_bytes, &w->segment, &layout->place);
    if (err)
        return err;
    shared = w->segment.base;
    init->rq = (struct work_queue){.ring = (uint8_t *)w->segment.base + layout->rq_off,
                                   .prod = &shared->rq_prod,
                                   .size = layout->size,
                                   .stride = layout->stride,
                                   .max_sge = layout->max_sge};
    init->rq_prod = &shared->rq_prod;
    return 0;
}

static void attach_wq(struct worker *worker, void *arg)
{
    struct wq_object *w = arg;

    engine_wq_attach(w->port->engine, w->wq);
}

/* An application that spreads its completion queues over vectors wants their work done there; one
 * that does not uses vector 0 for all. */
static struct worker_port *choose_port(struct device *d, uint32_t vector)
{
    for (unsigned i = 0; vector && i < d->parts; i++)
        if (worker_index(d->workers[i]) == vector)
            return d->port[i];
    return device_next_port(d);
}

static int build_wq(struct session *sn, struct wq_object *w, const struct ctl_create_wq *rq,
                    struct ctl_call *call)
{
    struct wq_init init = {
        .pd = pd_number(w->pd), .uidx = rq->uidx, .cq = &w->cq->dp.cq, .owner = &w->dp};
    struct ctl_create_wq *layout = &call->reply.create_wq;
    int err = 0;

    layout->size = layout->stride = layout->max_wr = layout->max_sge = 0;
    layout->rq_off = layout->segment_bytes = 0;
    layout->place = (struct ctl_place){0};
    if (w->srq)
        init.srq = w->srq->srq;
    else
        err = make_ring(sn, w, rq, call, &init);
    if (err)
        return err;
    w->wq = wq_create(sn->device->wqs, &init, &err);
    if (!w->wq)
        return err == -ENOSPC ? -ENOMEM : err;
    w->dp = (struct dp_wq){.ctx = &sn->ctx[0], .events.owner = &w->o};
    w->uidx = rq->uidx;
    w->port = choose_port(sn->device, w->cq->vector);
    sn->device->assigned[w->port->queue]++;
    worker_call(w->port->worker, attach_wq, w);
    return 0;
}

int wq_object_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_wq *rq = &call->request->create_wq;
    struct wq_object *w;
    int err = check_create(sn, rq);

    if (err)
        return err;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    err = find_parts(sn, rq, w);
    if (!err)
        err = object_add(sn, &w->o, OBJ_WQ); /* before others can find it */
    if (err) {
        free(w);
        return err;
    }
    err = build_wq(sn, w, rq, call);
    if (err) {
        slab_cancel(&sn->slabs, &w->segment);
        object_destroy(&w->o);
        return err;
    }
    count_parts(w, 1);
    w->o.handle = wq_number(w->wq);
    call->reply.create_wq.handle = w->o.handle;
    return 0;
}

/* ---- use ---- */

struct modify_call {
    struct wq_object *w;
    enum wq_state to;
    int err;
};

static void modify_wq(struct worker *worker, void *arg)
{
    struct modify_call *m = arg;

    m->err = engine_wq_modify(m->w->port->engine, m->w->wq, m->to,
                              m->w->o.session->rnic->config.clock());
    if (!m->err && m->to == WQS_RESET)
        m->w->dp.resets++;
}

int wq_object_modify(struct session *sn, struct ctl_call *call)
{
    const struct ctl_modify_wq *rq = &call->request->modify_wq;
    struct modify_call m = {.w = wq_object_get(sn, rq->handle), .to = rq->state};

    if (!m.w || rq->state > WQS_ERR)
        return -EINVAL;
    worker_call(m.w->port->worker, modify_wq, &m);
    call->reply.modify_wq.state = wq_current_state(m.w->wq);
    return m.err;
}

/* ---- destruction ---- */

static void detach_wq(struct worker *worker, void *arg)
{
    struct wq_object *w = arg;

    engine_wq_detach(w->port->engine, w->wq);
}

/* No indirection table has used it since the last quiet point, so that only its worker knows it.
 * Returns the slab that was freed with it, or 0. */
static uint64_t wq_object_free(struct wq_object *w)
{
    struct session *sn = w->o.session;
    uint64_t slab_gone = 0;

    worker_call(w->port->worker, detach_wq, w);
    sn->device->assigned[w->port->queue]--;
    raised_forget(sn->rnic, &w->dp.events);
    async_forget(sn, &w->wait);
    wq_free(w->wq);
    count_parts(w, -1);
    if (w->segment.base)
        slab_gone = slab_free(&sn->slabs, &w->segment);
    object_destroy(&w->o);
    return slab_gone;
}

struct stop_call {
    struct wq_object *w;
    bool stopped;
};

static void stop_wq(struct worker *worker, void *arg)
{
    struct stop_call *s = arg;

    s->stopped = engine_wq_stop(s->w->port->engine, s->w->wq);
}

int wq_object_destroy(struct session *sn, struct ctl_call *call)
{
    struct wq_object *w = wq_object_get(sn, call->request->destroy.handle);
    struct stop_call s = {.w = w};

    if (!w)
        return -ENOENT;
    if (w->o.refs)
        return -EBUSY;
    worker_call(w->port->worker, stop_wq, &s);
    if (!s.stopped)
        return -EAGAIN;
    call->reply.destroy.slab_gone = wq_object_free(w);
    return 0;
}

static void wq_free_one(struct object *o)
{
    wq_object_free(container_of(o, struct wq_object, o));
}

bool wq_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_WQ, s, wq_free_one);
}
