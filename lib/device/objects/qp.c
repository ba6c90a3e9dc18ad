/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: the control thread creates and destroys them, a worker owns them in between. */
#include "objects/qp_object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/incident_call.h"
#include "control/limits.h"
#include "control/permission.h"
#include "control/session_state.h"
#include "device_host.h"
#include "ece.h"
#include "net/resolve.h"
#include "objects/agree.h"
#include "objects/counter_object.h"
#include "objects/cq_channel.h"
#include "objects/db_slot.h"
#include "objects/local_peer.h"
#include "objects/mcast.h"
#include "objects/pd_mr.h"
#include "objects/qp_open.h"
#include "objects/srq_object.h"
#include "objects/steer.h"
#include "objects/wq_object.h"
#include "objects/xrcd.h"

static void detach_one(struct worker *w, void *arg)
{
    struct qp_object *q = arg;

    engine_qp_detach(qp_object_engine(q), q->dp.qp);
}

static void attach_qp(struct worker *w, void *arg)
{
    struct qp_object *q = arg;

    engine_qp_attach(qp_object_engine(q), q->dp.qp);
}

/* ---- creation ---- */

#define GENEROUS_RING_BYTES (128u << 10)

static int check_create(struct session *sn, const struct ctl_create_qp *rq)
{
    const struct qp_caps *caps = &rq->caps;

    if (rq->type != QPT_RC && rq->type != QPT_UC && rq->type != QPT_UD &&
        rq->type != QPT_RAW_PACKET && rq->type != QPT_XRC_SEND && rq->type != QPT_XRC_RECV)
        return -EINVAL;
    if (caps->max_send_wr > QUEUE_MAX_WR || caps->max_recv_wr > QUEUE_MAX_WR ||
        caps->max_send_sge > LIMIT_SGE || caps->max_recv_sge > LIMIT_SGE ||
        caps->max_inline_data > QUEUE_MAX_INLINE)
        return -EINVAL;
    return raw_qp_check(sn, rq);
}

/*
 * Programs post more inline data than they have asked for, because NICs grant more: a program that
 * asks for some is granted the maximum, unless the ring becomes larger than a cache.
 */
static uint32_t inline_to_grant(uint32_t wanted, uint32_t sq_size, uint32_t sge)
{
    uint64_t bytes = (uint64_t)sq_size * sqe_stride(sge, QUEUE_MAX_INLINE);

    return wanted && bytes <= GENEROUS_RING_BYTES ? QUEUE_MAX_INLINE : wanted;
}

/* Rings are powers of two, and the capabilities cover all that a WQE's stride has room for: at
 * least two send SGEs, which UCX requires. */
static void plan_segment(struct ctl_create_qp *reply, const struct ctl_create_qp *rq)
{
    const struct qp_caps *wanted = &rq->caps;
    bool own_rq =
        !rq->srq && !rq->rx_hash.ind && rq->type != QPT_XRC_SEND && rq->type != QPT_XRC_RECV;
    struct qp_caps *given = &reply->caps;
    uint32_t sge = max_of(wanted->max_send_sge, 2u);
    uint32_t body;

    reply->sq_size = pow2_at_least(wanted->max_send_wr);
    reply->sq_stride =
        sqe_stride(sge, inline_to_grant(wanted->max_inline_data, reply->sq_size, sge));
    reply->rq_size = pow2_at_least(wanted->max_recv_wr);
    reply->rq_stride = rqe_stride(max_of(wanted->max_recv_sge, 1u));
    body = reply->sq_stride - (uint32_t)sizeof(struct sqe);
    given->max_send_wr = reply->sq_size;
    given->max_recv_wr = reply->rq_size;
    given->max_send_sge = min_of(body / (uint32_t)sizeof(struct sge), LIMIT_SGE);
    given->max_inline_data = min_of(body, (uint32_t)QUEUE_MAX_INLINE);
    given->max_recv_sge =
        min_of((reply->rq_stride - (uint32_t)sizeof(struct rqe)) / (uint32_t)sizeof(struct sge),
               LIMIT_SGE);
    if (!own_rq) { /* a ring of one WQE, not used */
        reply->rq_size = 1;
        given->max_recv_wr = given->max_recv_sge = 0;
    }
    if (rq->rx_hash.ind)
        *given = (struct qp_caps){0};
    reply->sq_off = round_up(sizeof(struct qp_shared), CACHE_LINE);
    reply->rq_off = reply->sq_off + (uint64_t)reply->sq_size * reply->sq_stride;
    reply->segment_bytes = reply->rq_off + (uint64_t)reply->rq_size * reply->rq_stride;
}

static void fill_init(struct qp_init *init, struct qp_object *q, const struct ctl_create_qp *rq,
                      const struct ctl_create_qp *layout)
{
    struct qp_shared *shared = q->segment.base;
    uint8_t *base = q->segment.base;

    *init = (struct qp_init){
        .type = rq->type,
        .pd = q->pd ? pd_number(q->pd) : 0,
        .sq_sig_all = rq->sq_sig_all != 0,
        .uidx = rq->uidx,
        .srq = q->srq ? q->srq->srq : NULL,
        .xrcd = q->xrcd ? q->xrcd->domain->id : 0,
        .send_cq = q->send_cq ? &q->send_cq->dp.cq : NULL,
        .recv_cq = q->recv_cq ? &q->recv_cq->dp.cq : NULL,
        .shared = shared,
        .sq = {.ring = base + layout->sq_off,
               .prod = &shared->sq_prod,
               .size = layout->sq_size,
               .stride = layout->sq_stride,
               .max_sge = layout->caps.max_send_sge,
               .max_inline = layout->caps.max_inline_data},
        .rq = {.ring = base + layout->rq_off,
               .prod = &shared->rq_prod,
               .size = layout->rq_size,
               .stride = layout->rq_stride,
               .max_sge = layout->caps.max_recv_sge},
        .caps = layout->caps,
        .rx_hash = q->ind ? &q->rx_hash : NULL,
        .ind = q->ind ? q->ind->ind : NULL,
        .shares = q->o.session->program->share,
        .owner = &q->dp,
    };
    if (rq->type == QPT_XRC_RECV) { /* it may outlive the segment, and posts nothing */
        init->shared = NULL;
        init->sq.ring = init->rq.ring = NULL;
        init->sq.prod = init->rq.prod = &q->nothing;
    }
}

/* The object of this kind and handle; the handle may be 0 unless the object is needed. */
static int find_part(struct session *sn, enum object_kind kind, uint32_t handle, bool needed,
                     struct object **out)
{
    *out = handle ? object_get(sn, kind, handle) : NULL;
    return *out || (!needed && !handle) ? 0 : -EINVAL;
}

/* The objects that each type uses: an XRC receive side has a domain and nothing else, a send side
 * no receive queue. */
static int find_parts(struct session *sn, const struct ctl_create_qp *rq, struct qp_object *q)
{
    bool xrc_recv = rq->type == QPT_XRC_RECV, xrc_send = rq->type == QPT_XRC_SEND;
    bool rss = rq->rx_hash.ind != 0;
    struct object *pd, *send_cq, *recv_cq, *xrcd, *ind;

    if (find_part(sn, OBJ_PD, rq->pd, !xrc_recv, &pd) ||
        find_part(sn, OBJ_CQ, rq->send_cq, !xrc_recv && !rss, &send_cq) ||
        find_part(sn, OBJ_CQ, rq->recv_cq, !xrc_recv && !xrc_send && !rss, &recv_cq) ||
        find_part(sn, OBJ_XRCD, rq->xrcd, xrc_recv, &xrcd) ||
        find_part(sn, OBJ_RWQ_IND, rq->rx_hash.ind, false, &ind))
        return -EINVAL;
    if (rq->srq) {
        q->srq = xrc_recv || xrc_send || rss ? NULL : srq_object_get(sn, rq->srq);
        if (!q->srq || q->srq->xrcd)
            return -EINVAL;
    }
    q->pd = pd ? container_of(pd, struct pd, o) : NULL;
    q->send_cq = send_cq ? container_of(send_cq, struct cq, o) : NULL;
    q->recv_cq = recv_cq ? container_of(recv_cq, struct cq, o) : q->send_cq;
    q->xrcd = xrc_recv ? container_of(xrcd, struct xrcd, o) : NULL;
    q->ind = ind ? container_of(ind, struct rwq_ind_object, o) : NULL;
    if (q->ind)
        raw_qp_hash(&q->rx_hash, &rq->rx_hash);
    return 0;
}

static void count_parts(struct qp_object *q, int n)
{
    if (q->pd)
        q->pd->o.refs += (uint32_t)n;
    if (q->send_cq)
        q->send_cq->o.refs += (uint32_t)n;
    if (q->recv_cq)
        q->recv_cq->o.refs += (uint32_t)n;
    if (q->srq)
        q->srq->o.refs += (uint32_t)n;
    if (q->xrcd)
        q->xrcd->o.refs += (uint32_t)n;
    if (q->ind)
        q->ind->o.refs += (uint32_t)n;
}

/* What the transport may come to allocate for the queue pair. */
static int charge_memory(struct session *sn, struct qp_object *q, size_t bytes)
{
    int err = quota_charge(&sn->account, &(struct quota_cost){{[QUOTA_MEMORY] = bytes}});

    if (!err)
        q->memory += bytes;
    return err;
}

static void uncharge_memory(struct session *sn, struct qp_object *q, size_t bytes)
{
    quota_uncharge(&sn->account, &(struct quota_cost){{[QUOTA_MEMORY] = bytes}});
    q->memory -= bytes;
}

/* The bytes of READs and atomics that the queue pair has not been charged for. It keeps what it was
 * charged for once. */
static size_t reads_to_charge(const struct qp_object *q, const struct qp_attr *attr, uint32_t mask)
{
    uint32_t reads = max_of((uint32_t)attr->max_dest_rd_atomic, RD_ATOM_INCLUDED);
    size_t bytes = qp_memory_reads(reads) - qp_memory_reads(RD_ATOM_INCLUDED);

    if (!(mask & QPA_MAX_DEST_RD_ATOMIC) || bytes < q->reads_memory)
        return 0;
    return bytes - q->reads_memory;
}

/* Allocates the doorbell slot, creates the engine's queue pair and attaches it to a worker. */
static int attach_to_worker(struct session *sn, struct qp_object *q, const struct qp_init *init)
{
    int err = db_slot_alloc(sn, &q->dp.slot);

    if (err)
        return err;
    q->dp.ctx = &sn->ctx[0];
    q->dp.by_worker = sn->by_worker;
    steer_begin(sn, q, device_next_port(sn->device));
    q->dp.qp = qp_create(sn->device->qps, init, &err);
    if (q->dp.qp) {
        qp_object_call(q, attach_qp, q);
        err = dp_slots_set(&sn->slots, q->dp.slot, &q->dp);
        if (!err)
            return 0;
        qp_unpublish(q->dp.qp);
        qp_object_call(q, detach_one, q);
        device_quiesce(sn->device);
        qp_free(q->dp.qp);
    }
    steer_end(sn, q);
    db_slot_free(sn, q->dp.slot);
    return err == -ENOSPC ? -ENOMEM : err;
}

static int build_qp(struct session *sn, struct qp_object *q, const struct ctl_create_qp *rq,
                    struct ctl_call *call)
{
    struct ctl_create_qp *layout = &call->reply.create_qp;
    struct incident_program program = session_program(sn);
    struct entropy_policy entropy;
    struct qp_init init;
    int own, err;

    own = entropy_from_ctl(&rq->entropy, &entropy);
    if (own < 0 || (own && rq->type == QPT_RAW_PACKET))
        return -EINVAL;
    plan_segment(layout, rq);
    err = object_segment(sn, call, layout->segment_bytes, &q->segment, &layout->place);
    if (err)
        return err;
    fill_init(&init, q, rq, layout);
    init.entropy = own ? &entropy : NULL;
    init.program = &program;
    err = charge_memory(sn, q, qp_memory_max(&init) + qp_memory_reads(RD_ATOM_INCLUDED));
    if (err)
        return err;
    err = attach_to_worker(sn, q, &init);
    if (err)
        uncharge_memory(sn, q, q->memory);
    return err;
}

int qp_object_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_qp *rq = &call->request->create_qp;
    struct ctl_create_qp *reply = &call->reply.create_qp;
    struct qp_object *q;
    int err = check_create(sn, rq);

    if (err)
        return err;
    q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    err = find_parts(sn, rq, q);
    if (!err)
        err = object_add(sn, &q->o, OBJ_QP);
    if (err) {
        free(q);
        return err;
    }
    err = build_qp(sn, q, rq, call);
    if (err) {
        slab_cancel(&sn->slabs, &q->segment);
        object_destroy(&q->o);
        return err;
    }
    q->sq_sig_all = rq->sq_sig_all != 0;
    count_parts(q, 1);
    if (rq->type == QPT_UD)
        LIST_INSERT_HEAD(&pd_original(q->pd)->datagram_qps, q, of_pd);
    q->o.handle = qp_number(q->dp.qp);
    q->serial = ++sn->device->qp_serials;
    reply->qpn = q->o.handle;
    reply->db_slot = q->dp.slot;
    return 0;
}

/* ---- use ---- */

/* A request to reset or destroy a queue pair comes again while something keeps the queue pair from
 * its end; but what waits for room in a port is lost after END_TRIES. */

/* wait: something waits for room in the port. */
static bool may_end(struct qp_object *q, bool wait)
{
    if (wait && ++q->end_tries <= END_TRIES)
        return false;
    q->end_tries = 0;
    return true;
}

/* On its worker: the peer gets the answers that are owed. False: the request is to come again. */
static bool send_answers(struct qp_object *q)
{
    return may_end(q, !worker_send_answers(q->dp.port, q->dp.qp));
}

/* A step of a request. */
struct modify_call {
    struct qp_object *q;
    struct qp_attr attr;
    uint32_t mask;
    const struct address_vector *av; /* NULL: mask does not have it */
    uint32_t max_mtu;
    bool held;
    int err;
    struct incident why; /* with -EINVAL */
};

static void modify_qp(struct worker *w, void *arg)
{
    struct modify_call *m = arg;
    struct dp_qp *dq = &m->q->dp;

    if ((m->mask & QPA_STATE) && m->attr.state == QPS_RESET && !send_answers(m->q)) {
        m->err = -EAGAIN;
        return;
    }
    m->err = engine_qp_modify(qp_object_engine(m->q), dq->qp, &m->attr, m->mask, m->av, m->max_mtu,
                              m->q->o.session->rnic->config.clock());
    if (m->err == -EINVAL)
        engine_qp_modify_why(dq->qp, &m->attr, m->mask, m->max_mtu, &m->why);
    if (!m->err && m->av)
        engine_qp_hold(qp_object_engine(m->q), dq->qp, m->held);
}

/* Volume 1, 3.5.3: Q_Keys with the most significant bit set are controlled, and applications may
 * not choose them. The kernel has the same rule. A work request that names one sends the queue
 * pair's own (req_ud.c). */
static bool qkey_is_allowed(const struct session *sn, const struct ctl_modify_qp *rq, uint32_t mask)
{
    return !(mask & QPA_QKEY) || !(rq->attr.qkey & QKEY_CONTROLLED) || permission_raw(sn);
}

/* What is wrong with the attributes that any of the steps names. */
static int check_modify(const struct session *sn, const struct qp_object *q,
                        const struct ctl_modify_qp *rq, uint32_t mask)
{
    if (!q)
        return -EINVAL;
    if (q->ind) /* it has no states, as with mlx5 */
        return -EOPNOTSUPP;
    if (!qkey_is_allowed(sn, rq, mask))
        return -EPERM;
    if ((mask & QPA_PORT) && rq->attr.port_num != 1)
        return -EINVAL;
    return (mask & QPA_PKEY_INDEX) && rq->attr.pkey_index ? -EINVAL : 0;
}

/* Each handle is charged for the whole queue pair. */
static int charge_reads(struct qp_object *q, size_t more)
{
    int err = charge_memory(q->o.session, q, more);

    if (err)
        return err;
    err = qp_handles_charge(q, more);
    if (err)
        uncharge_memory(q->o.session, q, more);
    return err;
}

static void uncharge_reads(struct qp_object *q, size_t more)
{
    qp_handles_uncharge(q, more);
    uncharge_memory(q->o.session, q, more);
}

static int modify_step(struct modify_call *m)
{
    struct qp_object *q = m->q;
    uint32_t dest_qpn = m->mask & QPA_DEST_QPN ? m->attr.dest_qpn : q->peer_qpn;
    size_t more;
    int err;

    if (m->av) {
        steer_connect(q, m->av, &m->attr, m->mask);
        m->held = local_peer_prepare(q, m->av, dest_qpn);
    }
    more = reads_to_charge(q, &m->attr, m->mask);
    err = charge_reads(q, more);
    if (err)
        return err;
    qp_object_call(q, modify_qp, m);
    if (m->err) {
        uncharge_reads(q, more);
        incident_of_modify(q->o.session, q->o.handle, &m->why);
        return m->err;
    }
    q->reads_memory += more;
    if (m->av) {
        local_peer_connected(q, m->av, dest_qpn);
        agree_connected(q, m->av);
    } else if ((m->mask & QPA_STATE) && m->attr.state == QPS_RESET) {
        local_peer_reset(q);
        agree_forget(q);
        q->ece = 0;
    }
    return 0;
}

/* The first step is done whatever its mask is: ibv_modify_qp has no other. */
static int modify_steps(struct modify_call *m, struct ctl_modify_qp *rq,
                        const struct address_vector *av)
{
    uint32_t mask = rq->mask, state = rq->attr.state;
    int err;

    for (;;) {
        m->attr = rq->attr;
        m->attr.state = state;
        m->mask = mask;
        m->av = mask & QPA_AV ? av : NULL;
        err = modify_step(m);
        if (err || ++rq->done == QP_STEPS || !rq->next[rq->done - 1].mask)
            return err;
        mask = rq->next[rq->done - 1].mask;
        state = rq->next[rq->done - 1].state;
    }
}

int qp_object_modify_by(struct session *sn, struct ctl_modify_qp *rq)
{
    struct modify_call m = {.q = qp_object_reach(sn, rq->qpn),
                            .max_mtu = device_mtu_code(sn->device->info.mtu)};
    uint32_t all = rq->mask, mtu;
    struct address_vector av;
    bool resolved;
    int err;

    rq->done = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(rq->next); i++)
        all |= rq->next[i].mask;
    err = check_modify(sn, m.q, rq, all);
    resolved = !err && (all & QPA_AV);
    if (resolved)
        err = device_resolve(sn->device, &rq->attr.ah, &av, &mtu);
    if (err && resolved)
        incident_of_resolve(sn, rq->qpn, rq->attr.dest_qpn, &rq->attr.ah, err);
    if (err)
        return err; /* -EINPROGRESS: dispatched again, and no step is done */
    /* A router on the path may have reported a smaller MTU than the port's. */
    if (all & QPA_AV)
        m.max_mtu = min_of(m.max_mtu, device_mtu_code(mtu));
    if (rq->ece & ECE_SAID)
        m.q->ece = rq->ece;
    return modify_steps(&m, rq, &av);
}

int qp_object_modify(struct session *sn, struct ctl_call *call)
{
    return qp_object_modify_by(sn, &call->reply.modify_qp); /* a copy of the request */
}

/* With an address vector it might have to wait for the next hop, and would be dispatched again. */
static bool has_address(const struct ctl_modify_qp *rq)
{
    uint32_t all = rq->mask;

    for (unsigned i = 0; i < ARRAY_SIZE(rq->next); i++)
        all |= rq->next[i].mask;
    return all & QPA_AV;
}

int qp_object_create_in(struct session *sn, struct ctl_call *call)
{
    struct ctl_create_qp_in *reply = &call->reply.create_qp_in; /* a copy of the request */
    int err = has_address(&reply->modify) ? -EINVAL : qp_object_create(sn, call);

    if (err)
        return err;
    reply->modify.qpn = reply->create.qpn;
    reply->modify_status = qp_object_modify_by(sn, &reply->modify);
    return 0;
}

int qp_object_query(struct session *sn, struct ctl_call *call)
{
    struct ctl_query_qp *reply = &call->reply.query_qp;
    struct qp_object *q = qp_object_reach(sn, call->request->query_qp.qpn);

    if (!q)
        return -EINVAL;
    if (q->ind)
        return -EOPNOTSUPP;
    *reply = (struct ctl_query_qp){
        .qpn = q->o.handle, .sq_sig_all = q->sq_sig_all, .caps = *qp_capabilities(q->dp.qp)};
    qp_object_attr(q, &reply->attr);
    return 0;
}

/* ---- destruction ---- */

/* Queue pairs that are detached in one call; few, so that the worker is not delayed. */
#define DETACH_MAX 64

struct detach_call {
    struct worker_port *port;
    struct qp_object *q[DETACH_MAX];
    unsigned n;
};

/* Runs on each worker: each engine knows the groups, and the owner all the rest. */
static void detach_batch(struct worker *w, void *arg)
{
    struct detach_call *d = arg;

    for (unsigned i = 0; i < d->n; i++) {
        worker_send_answers(d->port, d->q[i]->dp.qp); /* those of a program that has ended, too */
        engine_qp_detach(d->port->engine, d->q[i]->dp.qp);
    }
}

/* Returns the slab that was freed with it, or 0. */
static uint64_t qp_object_free(struct session *sn, struct qp_object *q)
{
    uint64_t slab_gone;

    db_slot_free(sn, q->dp.slot);
    mcast_leave_all(q);
    if (qp_type(q->dp.qp) == QPT_UD)
        LIST_REMOVE(q, of_pd);
    qp_totals_add(&sn->device->past_qps, q->dp.qp);
    qp_free(q->dp.qp);
    counters_released(q);
    uncharge_memory(sn, q, q->memory);
    count_parts(q, -1);
    slab_gone = q->left ? 0 : slab_free(&sn->slabs, &q->segment);
    object_destroy(&q->o);
    return slab_gone;
}

/* Packets and doorbells no longer find the queue pairs; then every worker detaches them, and so
 * passes a quiet point. Returns the slab that was freed with the last one, or 0. */
static uint64_t free_queue_pairs(struct session *sn, struct detach_call *d)
{
    uint64_t slab_gone = 0;

    for (unsigned i = 0; i < d->n; i++) {
        agree_forget(d->q[i]);
        qp_unpublish(d->q[i]->dp.qp);
        dp_slots_set(&sn->slots, d->q[i]->dp.slot, NULL);
        steer_end(sn, d->q[i]);
    }
    for (unsigned i = 0; i < sn->device->parts; i++) {
        d->port = sn->device->port[i];
        worker_call(sn->device->workers[i], detach_batch, d);
    }
    for (unsigned i = 0; i < d->n; i++)
        slab_gone = qp_object_free(sn, d->q[i]);
    return slab_gone;
}

struct stop_call {
    struct qp_object *q;
    bool stopped;
};

/* Programs that send datagrams destroy their queue pairs after they have posted: NICs have sent by
 * then what was posted. */
static void stop_qp(struct worker *w, void *arg)
{
    struct stop_call *s = arg;
    struct qp *qp = s->q->dp.qp;
    bool waits = !worker_send_answers(s->q->dp.port, qp) || qp_datagrams_wait(qp);

    s->stopped = may_end(s->q, waits) && engine_qp_stop(qp_object_engine(s->q), qp);
}

int qp_object_destroy(struct session *sn, struct ctl_call *call)
{
    uint32_t number = call->request->destroy.handle;
    struct detach_call d = {.n = 1};
    struct stop_call s;

    d.q[0] = s.q = qp_object_reach(sn, number);
    if (!d.q[0])
        return -ENOENT;
    if (!qp_handle_is_last(sn, number)) {
        call->reply.destroy.slab_gone = qp_handle_close(sn, number);
        return 0;
    }
    if (d.q[0]->group_count || d.q[0]->o.refs) /* groups; flow rules */
        return -EBUSY;
    qp_object_call(s.q, stop_qp, &s);
    if (!s.stopped) /* packets wait for room, or copies still move the application's buffers */
        return -EAGAIN;
    if (number & CTL_QP_OPENED)
        qp_handle_close(sn, number);
    call->reply.destroy.slab_gone = free_queue_pairs(sn, &d);
    return 0;
}

bool qp_free_some(struct session *sn, const struct slice *s)
{
    while (!TAILQ_EMPTY(&sn->objects[OBJ_QP])) {
        struct object *o = TAILQ_FIRST(&sn->objects[OBJ_QP]), *next;
        struct detach_call d = {0};

        for (unsigned i = 0; o && i < DETACH_MAX; i++, o = next) {
            struct qp_object *q = container_of(o, struct qp_object, o);

            next = TAILQ_NEXT(o, link);
            if (LIST_EMPTY(&q->handles))
                d.q[d.n++] = q;
            else
                qp_handle_close(sn, o->handle);
        }
        free_queue_pairs(sn, &d);
        if (slice_over(s))
            break;
    }
    return !TAILQ_EMPTY(&sn->objects[OBJ_QP]);
}
