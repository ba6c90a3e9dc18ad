/* SPDX-License-Identifier: BSD-3-Clause */
/* See qp_open.h. */
#include "objects/qp_open.h"

#include <errno.h>

#include "control/session_state.h"
#include "invariant.h"
#include "objects/counter_object.h"
#include "objects/db_slot.h"
#include "objects/xrcd.h"
#include "trust.h"

static struct qp_handle *handle_of(struct session *sn, uint32_t number)
{
    struct object *o = NULL;

    if (number & CTL_QP_OPENED)
        o = object_get(sn, OBJ_QP_HANDLE, number & ~CTL_QP_OPENED);
    return o ? container_of(o, struct qp_handle, o) : NULL;
}

struct qp_object *qp_object_reach(struct session *sn, uint32_t number)
{
    struct qp_handle *h;

    if (!(number & CTL_QP_OPENED))
        return qp_object_get(sn, number);
    h = handle_of(sn, number);
    return h ? h->qp : NULL;
}

bool qp_handle_is_last(struct session *sn, uint32_t number)
{
    const struct qp_object *q = qp_object_reach(sn, number);
    const struct qp_handle *first = LIST_FIRST(&q->handles);

    return q->left ? !LIST_NEXT(first, link) : !first;
}

/* ---- what a handle is charged for ---- */

static struct quota_cost cost_of_qp(uint64_t memory)
{
    struct quota_cost cost = object_cost(OBJ_QP);

    cost.n[QUOTA_MEMORY] += memory;
    return cost;
}

static struct quota_cost cost_of_bytes(uint64_t bytes)
{
    return (struct quota_cost){{[QUOTA_MEMORY] = bytes}};
}

static void uncharge_until(struct qp_object *q, const struct qp_handle *end, size_t bytes)
{
    struct quota_cost cost = cost_of_bytes(bytes);
    struct qp_handle *h;

    if (!bytes)
        return;
    LIST_FOREACH(h, &q->handles, link)
    {
        if (h == end)
            return;
        if (h->spent)
            continue;
        quota_uncharge(&h->o.session->account, &cost);
        h->memory -= bytes;
    }
}

int qp_handles_charge(struct qp_object *q, size_t bytes)
{
    struct quota_cost cost = cost_of_bytes(bytes);
    struct qp_handle *h;

    if (!bytes) /* nearly always; and there may be tens of thousands */
        return 0;
    LIST_FOREACH(h, &q->handles, link)
    {
        if (h->spent)
            continue;
        if (quota_charge(&h->o.session->account, &cost)) {
            uncharge_until(q, h, bytes);
            return -ENOMEM;
        }
        h->memory += bytes;
    }
    return 0;
}

void qp_handles_uncharge(struct qp_object *q, size_t bytes)
{
    uncharge_until(q, NULL, bytes);
}

/* The charge, and a doorbell slot whose entry in the directory exists. */
static int reserve(struct session *sn, struct qp_handle *h)
{
    struct quota_cost cost = cost_of_qp(h->memory);
    int err = quota_charge(&sn->account, &cost);

    if (err)
        return err;
    err = db_slot_alloc(sn, &h->slot);
    if (!err) {
        err = dp_slots_set(&sn->slots, h->slot, NULL);
        if (!err)
            return 0;
        db_slot_free(sn, h->slot);
    }
    quota_uncharge(&sn->account, &cost);
    return err;
}

static void uncharge(struct qp_handle *h)
{
    struct quota_cost cost = cost_of_qp(h->memory);

    quota_uncharge(&h->o.session->account, &cost);
}

/* ---- opening ---- */

/*
 * The queue pair of the domain, or NULL: also when it is another user's, as its handles may modify
 * it, and each other's quotas bound it; and when it is about to end.
 */
static struct qp_object *find_qp(struct session *sn, const struct xrcd *x, uint32_t qpn)
{
    struct qp_object *q = qp_object_of(sn->device, qpn);

    if (!q || !q->xrcd || q->xrcd->domain != x->domain ||
        !trust_same_user(q->o.session->peer.uid, sn->peer.uid) ||
        (q->left && LIST_EMPTY(&q->handles)))
        return NULL;
    return q;
}

int qp_handle_open(struct session *sn, struct ctl_call *call)
{
    const struct ctl_open_qp *rq = &call->request->open_qp;
    struct ctl_open_qp *reply = &call->reply.open_qp;
    struct object *o = object_get(sn, OBJ_XRCD, rq->xrcd);
    struct xrcd *x = o ? container_of(o, struct xrcd, o) : NULL;
    struct qp_object *q = x ? find_qp(sn, x, rq->qpn) : NULL;
    struct qp_handle *h;
    int err;

    if (!q)
        return -EINVAL;
    h = object_create(sn, OBJ_QP_HANDLE, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->memory = q->memory;
    err = reserve(sn, h);
    if (err) {
        object_destroy(&h->o);
        return err;
    }
    h->qp = q;
    h->uidx = rq->uidx;
    h->xrcd = x;
    x->o.refs++;
    LIST_INSERT_HEAD(&q->handles, h, link);
    q->owner_handles += sn == q->o.session;
    reply->handle = h->o.handle | CTL_QP_OPENED;
    reply->sq_sig_all = q->sq_sig_all;
    reply->caps = *qp_capabilities(q->dp.qp);
    return 0;
}

/* ---- another owner ---- */

struct move_call {
    struct qp_object *q;
    struct session *to;
    uint32_t slot;
};

/* On the queue pair's worker, which alone looks at these. */
static void move_qp(struct worker *w, void *arg)
{
    struct move_call *m = arg;
    struct dp_qp *dq = &m->q->dp;
    struct ctx_shared *shared = m->to->segment.base;

    atomic_store(&shared->slot_worker[m->slot], (uint8_t)worker_index(w));
    dq->ctx = &m->to->ctx[0];
    dq->by_worker = m->to->by_worker;
    dq->slot = m->slot;
    engine_qp_count_none(dq->qp);
    engine_qp_set_shares(qp_object_engine(m->q), dq->qp, m->to->program->share);
}

/* One whose session will not end now, if there is one. */
static struct qp_handle *heir_of(const struct qp_object *q)
{
    struct qp_handle *h;

    LIST_FOREACH(h, &q->handles, link)
    if (!h->o.session->ending)
        return h;
    return LIST_FIRST(&q->handles);
}

static void charge_new_owner(struct qp_object *q, struct qp_handle *h)
{
    struct quota_cost cost = cost_of_bytes(q->memory);
    int err;

    invariant(h->memory == q->memory);
    quota_uncharge(&q->o.session->account, &cost);
    object_remove(&q->o);
    uncharge(h); /* and then the same */
    h->spent = true;
    err = object_add(h->o.session, &q->o, OBJ_QP);
    invariant(!err);
    err = quota_charge(&h->o.session->account, &cost);
    invariant(!err);
}

static uint32_t count_handles(const struct qp_object *q, const struct session *sn)
{
    const struct qp_handle *h;
    uint32_t n = 0;

    LIST_FOREACH(h, &q->handles, link)
    n += h->o.session == sn;
    return n;
}

/* The workers' doorbells may find the queue pair by its old slot until they have passed a quiet
 * point: they then only look for work that it does not have. */
static void hand_over(struct qp_object *q)
{
    struct session *from = q->o.session;
    struct qp_handle *h = heir_of(q);
    struct move_call m = {.q = q, .to = h->o.session, .slot = h->slot};
    uint32_t old = q->dp.slot;

    qp_object_call(q, move_qp, &m);
    counters_released(q); /* they are the creator's */
    dp_slots_set(&from->slots, old, NULL);
    dp_slots_set(&m.to->slots, m.slot, &q->dp);
    db_slot_free(from, old);
    q->xrcd->o.refs--;
    q->xrcd = h->xrcd;
    q->xrcd->o.refs++;
    charge_new_owner(q, h);
    q->owner_handles = count_handles(q, m.to);
}

/* ---- closing ---- */

/* Whether its session still has it. There may be tens of thousands of handles: no search. */
static bool owner_has_it(const struct qp_object *q)
{
    return !q->left || q->owner_handles;
}

static void close_handle(struct qp_handle *h)
{
    struct qp_object *q = h->qp;

    async_forget(h->o.session, &h->wait);
    LIST_REMOVE(h, link);
    q->owner_handles -= h->o.session == q->o.session;
    if (!h->spent) {
        db_slot_free(h->o.session, h->slot);
        uncharge(h);
    }
    h->xrcd->o.refs--;
    object_destroy(&h->o);
    if (!LIST_EMPTY(&q->handles) && !owner_has_it(q))
        hand_over(q);
}

uint64_t qp_handle_close(struct session *sn, uint32_t number)
{
    struct qp_object *q;
    uint64_t slab_gone;

    if (number & CTL_QP_OPENED) {
        close_handle(handle_of(sn, number));
        return 0;
    }
    q = qp_object_of(sn->device, number);
    slab_gone = q->left ? 0 : slab_free(&sn->slabs, &q->segment);
    async_forget(sn, &q->wait);
    q->left = true;
    if (!owner_has_it(q))
        hand_over(q);
    return slab_gone;
}

static void free_handle(struct object *o)
{
    close_handle(container_of(o, struct qp_handle, o));
}

bool qp_handles_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_QP_HANDLE, s, free_handle);
}

/* ---- events ---- */

/* There may be tens of thousands of handles, and each event is a system call. */
void qp_handles_tell(struct qp_object *q, uint32_t events)
{
    struct qp_handle *h;

    if (!q->left)
        async_tell(q->o.session, &q->wait, qp_uidx(q->dp.qp), events);
    LIST_FOREACH(h, &q->handles, link)
    async_tell_later(h->o.session, &h->wait, h->uidx, events);
}
