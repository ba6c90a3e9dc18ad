/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs in error, and the WQEs that they flush: see completion.h. */
#include "completion.h"
#include "count.h"
#include "id_tables.h"
#include "late.h"
#include "requester.h"
#include "service.h"
#include "srq.h"

static void post_recv_error(struct engine *e, struct qp *qp, uint64_t wr_id, uint32_t index,
                            uint8_t status)
{
    struct cqe c = {
        .wr_id = wr_id,
        .timestamp = e->now,
        .qpn = qp->qpn,
        .src_qpn = qp->dest_qpn,
        .uidx = qp_completion_uidx(qp),
        .vendor_err = qp->why.is.cause,
        .wqe = index,
        .status = status,
        .opcode = WC_RECV,
        .vlan = VLAN_NONE,
    };

    if (counts(qp, QP_COUNT_RECV))
        count_failed(e, qp, QP_COUNT_RECV);
    qp_post(e, qp, qp->resp.recv_cq ? qp->resp.recv_cq : qp->recv_cq, &c, true);
}

/* WQEs that are flushed in a row, before others have their turn. */
#define FLUSH_AT_ONCE 64

int qp_flush_turn(struct engine *e, struct qp *qp, const struct work_queue *q)
{
    int pending = work_queue_pending(q), now = min_of(pending, FLUSH_AT_ONCE);

    if (now > 0)
        counter_add(&qp->share->spent, (uint64_t)now * COST_FLUSH);
    if (now < pending)
        engine_tx_ready(e, qp);
    return now;
}

/* Takes and flushes n WQEs of the send queue; no slot is in use any more. */
static void flush_sq_ring(struct engine *e, struct qp *qp, int n)
{
    struct requester *req = &qp->req;
    struct send_wqe *w = &slot_at(req, 0)->wqe;

    for (; n > 0; n--) {
        uint32_t index = req->sq.cons;

        send_queue_take(&req->sq, w);
        qp_post_send(e, qp, &w->h, index, 0, WC_WR_FLUSH_ERR);
    }
}

void qp_flush_sq(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    if (!req->slots) /* XRC receive side */
        return;
    for (uint32_t i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);

        qp_post_send(e, qp, &s->wqe.h, s->index, 0, WC_WR_FLUSH_ERR);
    }
    req_drop_all(qp);
    flush_sq_ring(e, qp, qp_flush_turn(e, qp, &req->sq));
}

void qp_flush_sq_all(struct engine *e, struct qp *qp)
{
    int n = work_queue_pending(&qp->req.sq);

    if (n > 0)
        share_charge(qp->share, (uint64_t)n * COST_FLUSH);
    flush_sq_ring(e, qp, n);
}

/* An XRC SRQ, and its completion queue, may be destroyed while a message is half received. */
static bool recv_cq_is_alive(const struct engine *e, const struct qp *qp)
{
    const struct srq *srq;

    if (qp->type != QPT_XRC_RECV)
        return true;
    srq = srq_table_lookup(e->cfg.srqs, qp->resp.recv_srqn);
    return srq && srq->serial == qp->resp.recv_serial;
}

/* The receive WQE in use, then the queue's own; an SRQ stays as it is. */
void qp_flush_rq(struct engine *e, struct qp *qp, uint8_t status)
{
    struct work_queue *rq = &qp->resp.rq;

    if (qp->resp.recv_busy) {
        qp->resp.recv_busy = false;
        if (recv_cq_is_alive(e, qp))
            post_recv_error(e, qp, qp->resp.recv->h.wr_id, qp->resp.recv_index, status);
    }
    if (!qp->shared || qp->srq)
        return;
    atomic_store(&qp->shared->rq_notify, 1);
    atomic_thread_fence(memory_order_seq_cst);
    for (int n = qp_flush_turn(e, qp, rq); n > 0; n--) {
        uint32_t index = rq->cons;

        post_recv_error(e, qp, work_queue_take_id(rq), index, WC_WR_FLUSH_ERR);
    }
}

void qp_flush(struct engine *e, struct qp *qp, uint8_t recv_status)
{
    if (unlikely(qp->late)) { /* buffers are still read or written */
        late_flush(qp->late, recv_status);
        return;
    }
    qp_flush_sq(e, qp);
    qp->ops->flush_recv(e, qp, recv_status);
}

/* 10.3.1: it takes no more entries from the shared queue. */
void qp_raise_last_wqe(struct engine *e, struct qp *qp)
{
    if (qp->srq)
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_LAST_WQE_REACHED);
}

void qp_flush_more(struct engine *e, struct qp *qp)
{
    if (qp->state == QPS_ERR)
        qp_flush(e, qp, WC_WR_FLUSH_ERR);
    else if (qp->state == QPS_SQE)
        qp_flush_sq(e, qp);
}

void qp_enter_error(struct engine *e, struct qp *qp, uint8_t recv_status)
{
    bool again = qp->state == QPS_ERR; /* by a modification, which is legal */

    note(e, qp, TRACE_STATE, qp->state, QPS_ERR);
    if (!again)
        why_note_end(e, qp);
    __atomic_store_n(&qp->state, (uint8_t)QPS_ERR, __ATOMIC_RELAXED);
    timer_disarm(&qp->timer);
    qp->req.rnr_wait = false;
    qp_flush(e, qp, recv_status);
    if (!qp->late && !again)
        qp_raise_last_wqe(e, qp);
}

void qp_enter_sqe(struct engine *e, struct qp *qp)
{
    note(e, qp, TRACE_STATE, qp->state, QPS_SQE);
    __atomic_store_n(&qp->state, (uint8_t)QPS_SQE, __ATOMIC_RELAXED);
    qp_flush_sq(e, qp);
}
