/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ibv_wr_* calls. wr_start locks the send queue, each operation writes the header of the next
 * free WQE, and each setter writes what follows the header. wr_complete publishes all WQEs, or none
 * if a call failed. The first error is kept in wr.err and turns the following calls into no-ops.
 */
#include <limits.h>

#include "later.h"
#include "shim.h"
#include "watch.h"

/* The operations of each service (volume 1, table 38). */
#define RAW_OPS ((uint64_t)IBV_QP_EX_WITH_SEND)
#define UD_OPS  (RAW_OPS | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_OPS                                                                 \
    (UD_OPS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
     IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RC_OPS                                                                                     \
    (UC_OPS | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                       \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | LATER_QP_EX_WITH_FLUSH | \
     IBV_QP_EX_WITH_ATOMIC_WRITE)

/* Programs set IBV_SEND_INLINE too, which is ignored: the setter decides where the payload is. */
#define WR_FLAGS (SQE_FENCE | SQE_SIGNALED | SQE_SOLICITED)

static void fail_batch(struct shim_qp *qp, int err)
{
    if (!qp->wr.err)
        qp->wr.err = err;
    qp->wr.wqe = NULL;
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct shim_qp *qp = qp_of_ex(ex);
    int err = WATCHED(post_send) ? watch_judge(ex->qp_base.context, CTL_JUDGE_POST_SEND) : 0;

    spin_lock(&qp->queue.sq.lock);
    qp->wr = (struct wr_builder){.prod = qp->queue.sq.prod, .err = err};
    if (unlikely(!send_allowed(ex->qp_base.state)))
        qp->wr.err = EINVAL;
}

/* The windows that the batch binds keep their new keys, or have the old ones again. */
static __attribute__((cold, noinline)) void end_binds(struct shim_qp *qp, bool posted)
{
    struct shim_mw *mw;

    while ((mw = qp->wr.bound)) {
        qp->wr.bound = mw->next;
        mw->in_batch = false;
        if (!posted)
            mw->base.rkey = mw->key_before;
    }
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct shim_qp *qp = qp_of_ex(ex);
    int err = qp->wr.err;

    if (unlikely(!qp->queue.sq.size) && !err) /* a child, and its parent has begun the batch */
        err = -ring_full_error(&qp->queue.sq);
    if (likely(!err) && qp->wr.prod != qp->queue.sq.prod) {
        if (WATCHED(post_send))
            watch_sends(qp, qp->queue.sq.prod, qp->wr.prod);
        ring_publish(&qp->queue.sq, qp->wr.prod);
        client_qp_doorbell(&qp->queue);
    }
    if (unlikely(qp->wr.bound))
        end_binds(qp, !err);
    spin_unlock(&qp->queue.sq.lock);
    return failed(err);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    end_binds(qp_of_ex(ex), false);
    spin_unlock(&qp_of_ex(ex)->queue.sq.lock);
}

/* A child takes over its parent's context: then the batch has room, if it is empty. What the parent
 * has begun stays in its own memory. */
static bool goes_on(struct shim_qp *qp)
{
    if (qp->queue.sq.size || qp->wr.prod != qp->queue.sq.prod || !client_inherit(qp->queue.client))
        return false;
    qp->wr.prod = qp->queue.sq.prod;
    return ring_has_room(&qp->queue.sq, qp->wr.prod);
}

/* Writes the next WQE's header, with an empty payload; NULL: the batch has failed. */
static struct sqe *begin_wqe(struct ibv_qp_ex *ex, enum sqe_op op)
{
    struct shim_qp *qp = qp_of_ex(ex);
    unsigned flags = ex->wr_flags;
    struct sqe *s;

    if (unlikely(qp->wr.err))
        return NULL;
    if (unlikely(flags & ~(unsigned)(WR_FLAGS | SQE_INLINE)))
        flags = raw_send_flags(qp, flags);
    if (unlikely(flags == UINT_MAX)) {
        fail_batch(qp, EINVAL);
        return NULL;
    }
    if (unlikely(!ring_has_room(&qp->queue.sq, qp->wr.prod)) && !goes_on(qp)) {
        fail_batch(qp, -ring_full_error(&qp->queue.sq));
        return NULL;
    }
    s = ring_slot(&qp->queue.sq, qp->wr.prod++);
    s->wr_id = ex->wr_id;
    s->opcode = (uint8_t)op;
    s->flags = (uint8_t)(flags & ~(unsigned)SQE_INLINE);
    s->num_sge = 0;
    s->reserved = 0;
    s->imm = 0;
    s->inline_len = 0;
    qp->wr.wqe = s;
    return s;
}

static struct sqe *begin_remote_wqe(struct ibv_qp_ex *ex, enum sqe_op op, uint32_t rkey,
                                    uint64_t addr)
{
    struct sqe *s = begin_wqe(ex, op);

    if (likely(s != NULL)) {
        s->remote_addr = addr;
        s->rkey = rkey;
    }
    return s;
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin_wqe(ex, SQE_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    struct sqe *s = begin_wqe(ex, SQE_SEND_IMM);

    if (likely(s != NULL))
        s->imm = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    begin_remote_wqe(ex, SQE_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
    struct sqe *s = begin_remote_wqe(ex, SQE_WRITE_IMM, rkey, addr);

    if (likely(s != NULL))
        s->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    begin_remote_wqe(ex, SQE_READ, rkey, addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
                              uint64_t swap)
{
    struct sqe *s = begin_remote_wqe(ex, SQE_CMP_SWP, rkey, addr);

    if (likely(s != NULL)) {
        s->atomic.compare_add = compare;
        s->atomic.swap = swap;
    }
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
    struct sqe *s = begin_remote_wqe(ex, SQE_FETCH_ADD, rkey, addr);

    if (likely(s != NULL)) {
        s->atomic.compare_add = add;
        s->atomic.swap = 0;
    }
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct shim_qp *qp = qp_of_ex(ex);
    struct sqe *s = qp->wr.wqe;

    if (unlikely(!s))
        return;
    if (unlikely(!qp->queue.sq.max_sge)) {
        fail_batch(qp, EINVAL);
        return;
    }
    s->num_sge = 1;
    if (likely(has_room_for_sge(qp, s)))
        put_sge_in_header(s, &(struct ibv_sge){.addr = addr, .length = length, .lkey = lkey});
    else
        *(struct sge *)(s + 1) = (struct sge){.addr = addr, .length = length, .lkey = lkey};
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
    struct shim_qp *qp = qp_of_ex(ex);
    struct sqe *s = qp->wr.wqe;

    if (unlikely(!s))
        return;
    if (unlikely(n > qp->queue.sq.max_sge)) {
        fail_batch(qp, EINVAL);
        return;
    }
    s->flags &= (uint8_t)~SQE_SGE_IN_HEADER;
    copy_sges(s + 1, list, (unsigned)n);
    s->num_sge = (uint8_t)n;
}

static bool inline_allowed(const struct sqe *s)
{
    return s->opcode == SQE_SEND || s->opcode == SQE_SEND_IMM || s->opcode == SQE_WRITE ||
           s->opcode == SQE_WRITE_IMM || s->opcode == SQE_SEND_INV || s->opcode == SQE_ATOMIC_WRITE;
}

static void append_inline(struct shim_qp *qp, const void *data, size_t length)
{
    struct sqe *s = qp->wr.wqe;

    if (unlikely(!s))
        return;
    if (unlikely(!inline_allowed(s) || length > qp->queue.max_inline - s->inline_len)) {
        fail_batch(qp, EINVAL);
        return;
    }
    copy_inline((uint8_t *)(s + 1) + s->inline_len, data, (uint32_t)length);
    s->inline_len += (uint32_t)length;
    s->flags = (uint8_t)((s->flags | SQE_INLINE) & ~SQE_SGE_IN_HEADER);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *data, size_t length)
{
    append_inline(qp_of_ex(ex), data, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
    for (size_t i = 0; i < n; i++)
        append_inline(qp_of_ex(ex), list[i].addr, list[i].length);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *base, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct sqe *s = begin_wqe(ex, SQE_BIND_MW);
    struct shim_qp *qp = qp_of_ex(ex);
    struct shim_mw *mw = to_mw(base);

    if (unlikely(!s))
        return;
    if (!mw->in_batch) {
        mw->in_batch = true;
        mw->key_before = base->rkey;
        mw->next = qp->wr.bound;
        qp->wr.bound = mw;
    }
    build_bind(s, base, rkey, info);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    struct sqe *s = begin_wqe(ex, SQE_LOCAL_INV);

    if (likely(s != NULL))
        s->imm = rkey;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    struct sqe *s = begin_wqe(ex, SQE_SEND_INV);

    if (likely(s != NULL))
        s->imm = rkey;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
    struct shim_qp *qp = qp_of_ex(ex);

    if (begin_remote_wqe(ex, SQE_ATOMIC_WRITE, rkey, addr))
        append_inline(qp, value, sizeof(uint64_t));
}

/* Bits that have no meaning are refused here, as the packet has no room for all of them. */
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
                     uint8_t level)
{
    struct sqe *s = begin_remote_wqe(ex, SQE_FLUSH, rkey, addr);

    if (unlikely(!s))
        return;
    if (unlikely(!type || type & ~LATER_FLUSH_TYPES || level > LATER_FLUSH_LEVEL_MAX)) {
        fail_batch(qp_of_ex(ex), EINVAL);
        return;
    }
    s->flush.length = len;
    s->flush.placement = type;
    s->flush.selectivity = level;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct shim_qp *qp = qp_of_ex(ex);
    struct sqe *s = qp->wr.wqe;

    if (unlikely(!s))
        return;
    if (unlikely(ex->qp_base.qp_type != IBV_QPT_UD || !ah)) {
        fail_batch(qp, EINVAL);
        return;
    }
    s->ud.ah = to_ah(ah)->number;
    s->ud.remote_qpn = qpn;
    s->ud.remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    struct shim_qp *qp = qp_of_ex(ex);

    if (unlikely(ex->qp_base.qp_type != IBV_QPT_XRC_SEND))
        fail_batch(qp, EINVAL);
    else if (likely(qp->wr.wqe != NULL))
        qp->wr.wqe->remote_srqn = srqn;
}

/* Not supported: the batch fails at wr_complete. */
static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
    fail_batch(qp_of_ex(ex), EOPNOTSUPP);
}

static uint64_t ops_of(enum ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_RAW_PACKET:
        return RAW_OPS;
    case IBV_QPT_UD:
        return UD_OPS;
    case IBV_QPT_UC:
        return UC_OPS;
    default:
        return RC_OPS;
    }
}

int qp_ex_init(struct shim_qp *qp, enum ibv_qp_type type, uint64_t send_ops)
{
    struct ibv_qp_ex *ex = &qp->ex;

    if (send_ops & ~ops_of(type))
        return EOPNOTSUPP;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_send_tso = wr_send_tso;
    ex->wr_atomic_write = wr_atomic_write;
    qp->later.wr_flush = wr_flush;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
    qp->has_wr_api = true;
    return 0;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return to_qp(qp)->has_wr_api ? &to_qp(qp)->ex : NULL;
}
