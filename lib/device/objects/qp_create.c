/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs are created: their rings, the objects that they use, the worker that owns them. */
#include "objects/qp_object.h"

#include <errno.h>
#include <stdlib.h>

#include "control/incident_call.h"
#include "control/limits.h"
#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/db_slot.h"
#include "objects/pd_mr.h"
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

/* The objects that each type uses: an XRC receive side has a domain and nothing else, as it may
 * outlive its session with all other objects; a send side has no receive queue. */
static int find_parts(struct session *sn, const struct ctl_create_qp *rq, struct qp_object *q)
{
    bool xrc_recv = rq->type == QPT_XRC_RECV, xrc_send = rq->type == QPT_XRC_SEND;
    bool rss = rq->rx_hash.ind != 0;
    struct object *pd, *send_cq, *recv_cq, *xrcd, *ind;

    if (xrc_recv && (rq->pd || rq->send_cq || rq->recv_cq))
        return -EINVAL;
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

/* Allocates the doorbell slot, creates the engine's queue pair and attaches it to a worker. */
static int attach_to_worker(struct session *sn, struct qp_object *q, const struct qp_init *init)
{
    int err = db_slot_alloc(sn, &q->dp.slot);

    if (err)
        return err;
    q->dp.ctx = &sn->ctx[0];
    q->dp.events.owner = &q->o;
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
    err = qp_object_charge(sn, q, qp_memory_max(&init) + qp_memory_reads(RD_ATOM_INCLUDED));
    if (err)
        return err;
    err = attach_to_worker(sn, q, &init);
    if (err)
        qp_object_uncharge(sn, q, q->memory);
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
    qp_object_count_parts(q, 1);
    if (rq->type == QPT_UD)
        LIST_INSERT_HEAD(&pd_original(q->pd)->datagram_qps, q, of_pd);
    q->o.handle = qp_number(q->dp.qp);
    q->serial = ++sn->device->qp_serials;
    reply->qpn = q->o.handle;
    reply->db_slot = q->dp.slot;
    return 0;
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
