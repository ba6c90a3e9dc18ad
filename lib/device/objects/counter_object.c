/* SPDX-License-Identifier: BSD-3-Clause */
/* See counter_object.h. */
#include "objects/counter_object.h"

#include <errno.h>

#include "control/session_state.h"
#include "objects/qp_object.h"

int counter_create(struct session *sn, struct ctl_call *call)
{
    struct ctl_create_counter *reply = &call->reply.create_counter;
    uint32_t lanes = sn->rnic->workers;
    struct counter_object *c;
    int err;

    if (reply->type > CTL_COUNTER_BYTES)
        return -EINVAL;
    c = object_create(sn, OBJ_COUNTER, sizeof(*c));
    if (!c)
        return -ENOMEM;
    err = object_segment(sn, call, counter_segment_bytes(lanes), &c->segment, &reply->place);
    if (err) {
        object_destroy(&c->o);
        return err;
    }
    c->counter =
        (struct comp_counter){.line = c->segment.base, .bytes = reply->type == CTL_COUNTER_BYTES};
    reply->handle = c->o.handle;
    reply->lanes = lanes;
    return 0;
}

/* Returns the slab that was freed with it, or 0. */
static uint64_t destroy(struct object *o)
{
    struct counter_object *c = container_of(o, struct counter_object, o);
    uint64_t slab_gone = slab_free(&o->session->slabs, &c->segment);

    object_destroy(o);
    return slab_gone;
}

int counter_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_COUNTER, call->request->destroy.handle, &o);

    if (!err)
        call->reply.destroy.slab_gone = destroy(o);
    return err;
}

static void free_one(struct object *o)
{
    destroy(o);
}

bool counter_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_COUNTER, s, free_one);
}

/* ---- queue pairs ---- */

struct attach_call {
    struct qp_object *q;
    struct counter_object *c;
    uint32_t what;
    int err;
};

static void attach(struct worker *w, void *arg)
{
    struct attach_call *a = arg;

    a->err = engine_qp_count(a->q->dp.qp, &a->c->counter, a->what);
}

/* Handles of other sessions, and queue pairs that have queues only by their table of others, have
 * no counters. */
static int find(struct session *sn, const struct ctl_attach_counter *rq, struct attach_call *a)
{
    struct object *o = object_get(sn, OBJ_COUNTER, rq->counter);

    if ((rq->what & ~(uint32_t)QP_COUNT_ALL) || (rq->qpn & CTL_QP_OPENED))
        return -EOPNOTSUPP;
    a->q = qp_object_get(sn, rq->qpn);
    if (!o || !a->q || !rq->what)
        return -EINVAL;
    a->c = container_of(o, struct counter_object, o);
    a->what = rq->what;
    return a->q->ind ? -EOPNOTSUPP : 0;
}

int counter_attach(struct session *sn, struct ctl_call *call)
{
    struct attach_call a = {0};
    int err = find(sn, &call->request->attach_counter, &a);

    if (err)
        return err;
    qp_object_call(a.q, attach, &a);
    for (unsigned i = 0; !a.err && i < QP_COUNTS; i++) {
        if (a.what >> i & 1) {
            a.q->counter[i] = a.c;
            a.c->o.refs++;
        }
    }
    return a.err;
}

void counters_released(struct qp_object *q)
{
    for (unsigned i = 0; i < QP_COUNTS; i++) {
        if (q->counter[i])
            q->counter[i]->o.refs--;
        q->counter[i] = NULL;
    }
}
