/* SPDX-License-Identifier: BSD-3-Clause */
/* ibv_post_send and ibv_post_recv. No allocation, no system call unless the worker sleeps. */
#include <limits.h>

#include "shim.h"
#include "watch.h"

enum op_trait {
    OP_KNOWN = 1 << 0,
    OP_IMM = 1 << 1,
    OP_REMOTE = 1 << 2,
    OP_ATOMIC = 1 << 3,
    OP_INLINE = 1 << 4, /* the payload may be in the request */
    OP_INVALIDATE = 1 << 5,
    OP_BIND = 1 << 6,
    OP_DATAGRAM = 1 << 7, /* UD offers it (volume 1, table 38) */
};

static const uint8_t op_traits[] = {
    [IBV_WR_RDMA_WRITE] = OP_KNOWN | OP_REMOTE | OP_INLINE,
    [IBV_WR_RDMA_WRITE_WITH_IMM] = OP_KNOWN | OP_REMOTE | OP_IMM | OP_INLINE,
    [IBV_WR_SEND] = OP_KNOWN | OP_INLINE | OP_DATAGRAM,
    [IBV_WR_SEND_WITH_IMM] = OP_KNOWN | OP_IMM | OP_INLINE | OP_DATAGRAM,
    [IBV_WR_RDMA_READ] = OP_KNOWN | OP_REMOTE,
    [IBV_WR_ATOMIC_CMP_AND_SWP] = OP_KNOWN | OP_ATOMIC,
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = OP_KNOWN | OP_ATOMIC,
    [IBV_WR_SEND_WITH_INV] = OP_KNOWN | OP_INLINE | OP_INVALIDATE,
    [IBV_WR_LOCAL_INV] = OP_KNOWN | OP_INVALIDATE,
    [IBV_WR_BIND_MW] = OP_KNOWN | OP_BIND,
    [IBV_WR_ATOMIC_WRITE] = OP_KNOWN | OP_REMOTE | OP_INLINE,
};

#define SEND_FLAGS (SQE_FENCE | SQE_SIGNALED | SQE_SOLICITED | SQE_INLINE)

/* Copies the payload behind the WQE's header. */
static int build_inline(const struct shim_qp *qp, struct sqe *s, const struct ibv_send_wr *wr)
{
    uint8_t *to = (uint8_t *)(s + 1);
    uint32_t room = qp->queue.max_inline;

    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];

        if (unlikely(sge->length > room))
            return EINVAL;
        copy_inline(to, (const uint8_t *)(uintptr_t)sge->addr, sge->length);
        to += sge->length;
        room -= sge->length;
    }
    s->inline_len = qp->queue.max_inline - room;
    s->num_sge = 0;
    return 0;
}

static void build_remote(struct sqe *s, const struct ibv_send_wr *wr, unsigned traits)
{
    if (traits & OP_REMOTE) {
        s->remote_addr = wr->wr.rdma.remote_addr;
        s->rkey = wr->wr.rdma.rkey;
    } else if (traits & OP_ATOMIC) {
        s->remote_addr = wr->wr.atomic.remote_addr;
        s->rkey = wr->wr.atomic.rkey;
        s->atomic.compare_add = wr->wr.atomic.compare_add;
        s->atomic.swap = wr->wr.atomic.swap;
    } else if (traits & OP_BIND && !(wr->send_flags & IBV_SEND_INLINE)) { /* else it is refused */
        build_bind(s, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
    }
}

/*
 * The destination, for services whose queue pairs are not connected to one. Of other operations
 * `wr.ud` is no address: on UD they go as they are, for the worker to refuse. 0 or EINVAL.
 */
static int build_address(const struct shim_qp *qp, struct sqe *s, const struct ibv_send_wr *wr,
                         unsigned traits)
{
    if (qp->ex.qp_base.qp_type == IBV_QPT_UD && traits & OP_DATAGRAM) {
        if (unlikely(!wr->wr.ud.ah))
            return EINVAL;
        s->ud.ah = to_ah(wr->wr.ud.ah)->number;
        s->ud.remote_qpn = wr->wr.ud.remote_qpn;
        s->ud.remote_qkey = wr->wr.ud.remote_qkey;
    } else if (qp->ex.qp_base.qp_type == IBV_QPT_XRC_SEND) {
        s->remote_srqn = wr->qp_type.xrc.remote_srqn;
    }
    return 0;
}

unsigned raw_send_flags(const struct shim_qp *qp, unsigned flags)
{
    if (qp->ex.qp_base.qp_type != IBV_QPT_RAW_PACKET ||
        (flags & ~(unsigned)SEND_FLAGS) != IBV_SEND_IP_CSUM)
        return UINT_MAX;
    return (flags & SEND_FLAGS) | SQE_IP_CSUM;
}

/* Writes one WQE. 0 or EINVAL. */
static int build_send(const struct shim_qp *qp, struct sqe *s, const struct ibv_send_wr *wr)
{
    unsigned traits = (unsigned)wr->opcode < ARRAY_SIZE(op_traits) ? op_traits[wr->opcode] : 0;
    unsigned flags = wr->send_flags;
    int err;

    if (unlikely(flags & ~(unsigned)SEND_FLAGS))
        flags = raw_send_flags(qp, flags);
    if (unlikely(!traits || flags == UINT_MAX || (unsigned)wr->num_sge > qp->queue.sq.max_sge))
        return EINVAL;
    s->wr_id = wr->wr_id;
    s->opcode = (uint8_t)wr->opcode;
    s->flags = (uint8_t)flags;
    s->reserved = 0;
    s->imm = traits & OP_IMM ? wr->imm_data : traits & OP_INVALIDATE ? wr->invalidate_rkey : 0;
    build_remote(s, wr, traits);
    err = build_address(qp, s, wr, traits);
    if (unlikely(err))
        return err;
    if (wr->send_flags & IBV_SEND_INLINE)
        return traits & OP_INLINE ? build_inline(qp, s, wr) : EINVAL;
    s->num_sge = (uint8_t)wr->num_sge;
    s->inline_len = 0;
    if (likely(wr->num_sge == 1 && has_room_for_sge(qp, s)))
        put_sge_in_header(s, wr->sg_list);
    else
        copy_sges(s + 1, wr->sg_list, (unsigned)wr->num_sge);
    return 0;
}

/* watched: a constant, so that a call that is not watched keeps nothing for it. */
ALWAYS_INLINE int post_sends(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
                             bool watched)
{
    struct shim_qp *qp = to_qp(base);
    struct client_ring *sq = &qp->queue.sq;
    uint32_t prod;
    int err = 0;

    if (unlikely(!send_allowed(base->state))) {
        *bad = wr;
        return failed(EINVAL);
    }
    spin_lock(&sq->lock);
    prod = sq->prod;
    for (; wr; wr = wr->next) {
        if (unlikely(!ring_has_room(sq, prod)))
            err = -ring_full_error(sq);
        else
            err = build_send(qp, ring_slot(sq, prod), wr);
        if (unlikely(failed(err))) {
            *bad = wr;
            break;
        }
        prod++;
    }
    if (watched)
        watch_sends(qp, sq->prod, prod);
    if (likely(prod != sq->prod)) {
        ring_publish(sq, prod);
        client_qp_doorbell(&qp->queue);
    }
    spin_unlock(&sq->lock);
    if (unlikely(err == EIO) && client_inherit(qp->queue.client))
        return shim_post_send(base, *bad, bad);
    return err;
}

static __attribute__((cold, noinline)) int post_watched(struct ibv_qp *base, struct ibv_send_wr *wr,
                                                        struct ibv_send_wr **bad)
{
    int err = watch_judge(base->context, CTL_JUDGE_POST_SEND);

    if (!err)
        return post_sends(base, wr, bad, true);
    *bad = wr;
    return err;
}

int shim_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return WATCHED(post_send) ? post_watched(base, wr, bad) : post_sends(base, wr, bad, false);
}

int build_recv(const struct client_ring *rq, struct rqe *r, const struct ibv_recv_wr *wr)
{
    if (unlikely((unsigned)wr->num_sge > rq->max_sge))
        return EINVAL;
    r->wr_id = wr->wr_id;
    r->num_sge = (uint32_t)wr->num_sge;
    r->reserved = 0;
    copy_sges(r + 1, wr->sg_list, (unsigned)wr->num_sge);
    return 0;
}

int post_receives(struct client_ring *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    uint32_t prod = rq->prod;
    int err = 0;

    for (; wr; wr = wr->next) {
        if (unlikely(!ring_has_room(rq, prod)))
            err = -ring_full_error(rq);
        else
            err = build_recv(rq, ring_slot(rq, prod), wr);
        if (unlikely(failed(err))) {
            *bad = wr;
            break;
        }
        prod++;
    }
    if (likely(prod != rq->prod))
        ring_publish(rq, prod);
    return err;
}

ALWAYS_INLINE int receive(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
                          bool watched)
{
    struct shim_qp *qp = to_qp(base);
    struct client_ring *rq = &qp->queue.rq;
    uint32_t prod_before;
    int err;

    if (unlikely(base->state == IBV_QPS_RESET)) {
        *bad = wr;
        return failed(EINVAL);
    }
    spin_lock(&rq->lock);
    prod_before = rq->prod;
    err = post_receives(rq, wr, bad);
    if (watched)
        watch_receives(base->context, base->qp_num, rq, prod_before, rq->prod);
    if (likely(rq->prod != prod_before))
        client_qp_recv_doorbell(&qp->queue);
    spin_unlock(&rq->lock);
    if (unlikely(err == EIO) && client_inherit(qp->queue.client))
        return shim_post_recv(base, *bad, bad);
    return err;
}

static __attribute__((cold, noinline)) int
receive_watched(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int err = watch_judge(base->context, CTL_JUDGE_POST_RECV);

    if (!err)
        return receive(base, wr, bad, true);
    *bad = wr;
    return err;
}

int shim_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return WATCHED(post_recv) ? receive_watched(base, wr, bad) : receive(base, wr, bad, false);
}
