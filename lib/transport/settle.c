/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settling: what happened to a queue pair during a call into the engine becomes completions, in
 * order, and a change of state if it must.
 */
#include "raw_internal.h"
#include "transport.h"

/* Its events are raised before this call into the engine returns. */
static void note_cq(struct engine *e, struct comp_queue *cq)
{
    if (e->cqs == ARRAY_SIZE(e->cq)) { /* more than a burst can name: raise what there is */
        struct comp_queue *first = e->cq[0];

        if (cq_take_event(first, e->cfg.lane))
            e->cfg.host.cq_event(e->cfg.host.ctx, first);
        if (e->cfg.host.cq_posted)
            e->cfg.host.cq_posted(e->cfg.host.ctx, first);
        e->cq[0] = e->cq[--e->cqs];
    }
    e->cq[e->cqs++] = cq;
}

bool engine_post(struct engine *e, struct comp_queue *cq, const struct cqe *c, bool solicited)
{
    struct comp_lane *lane = &cq->lane[e->cfg.lane];
    bool was_overrun = lane->overrun, was_touched = lane->touched;

    if (cq_post(cq, e->cfg.lane, c, solicited) == 0) {
        if (!was_touched) /* what is touched is noted */
            note_cq(e, cq);
        return true;
    }
    if (!was_overrun) {
        trace_put(&e->trace, e->now, TRACE_CQ_OVERRUN, c->qpn, cq->handle, 0);
        e->cfg.host.async_event(e->cfg.host.ctx, NULL, cq, QP_EVENT_CQ_ERR);
    }
    return false;
}

void engine_post_run(struct engine *e, struct comp_queue *cq, const struct cq_batch *run,
                     bool solicited)
{
    bool was_touched = cq->lane[e->cfg.lane].touched;

    cq_batch_end(cq, e->cfg.lane, run, solicited);
    if (!was_touched && cq->lane[e->cfg.lane].touched)
        note_cq(e, cq);
}

/* A completion that does not fit is lost and says so: the queue and its queue pair are in error
 * (C11-39). */
static void post(struct engine *e, struct qp *qp, struct comp_queue *cq, const struct cqe *c,
                 bool solicited)
{
    if (!engine_post(e, cq, c, solicited) && !qp->fault && qp->state != QPS_ERR) {
        note(e, qp, TRACE_FAULT, FAULT_CQ_OVERRUN, 0);
        qp->fault = FAULT_CQ_OVERRUN;
        engine_touch(e, qp);
    }
}

static void post_send(struct engine *e, struct qp *qp, const struct sqe *w, uint32_t index,
                      uint32_t len, uint8_t status)
{
    struct cqe c = {
        .wr_id = w->wr_id,
        .timestamp = e->now,
        .qpn = qp->qpn,
        .src_qpn = qp->dest_qpn,
        .byte_len = len,
        .uidx = qp->uidx,
        .wqe = index,
        .status = status,
        .opcode = req_wc_opcode(w->opcode),
        .vlan = VLAN_NONE,
    };

    if (status == WC_SUCCESS && !qp->sq_sig_all && !(w->flags & SQE_SIGNALED))
        return;
    post(e, qp, qp->send_cq, &c, status != WC_SUCCESS);
}

static void post_recv_error(struct engine *e, struct qp *qp, uint64_t wr_id, uint32_t index,
                            uint8_t status)
{
    struct cqe c = {
        .wr_id = wr_id,
        .timestamp = e->now,
        .qpn = qp->qpn,
        .src_qpn = qp->dest_qpn,
        .uidx = qp_completion_uidx(qp),
        .wqe = index,
        .status = status,
        .opcode = WC_RECV,
        .vlan = VLAN_NONE,
    };

    post(e, qp, qp->resp.recv_cq ? qp->resp.recv_cq : qp->recv_cq, &c, true);
}

static void settle_recv(struct engine *e, struct rx_completion *c)
{
    struct qp *qp = c->qp;

    /* Its bytes could not be written, or those of a message before it. */
    if (qp->fault == FAULT_MEMORY && c->job >= qp->resp.failed_job) {
        c->cqe.status = qp->resp.recv_failed ? WC_WR_FLUSH_ERR : WC_LOC_PROT_ERR;
        c->solicited = qp->resp.recv_failed = true;
    }
    post(e, qp, c->cq, &c->cqe, c->solicited);
}

void settle_recvs(struct engine *e)
{
    for (unsigned i = 0; i < e->completions; i++) {
        struct rx_completion *c = &e->completion[i];

        if (c->wq)
            wq_settle_completion(e, c);
        else
            settle_recv(e, c);
    }
    e->completions = 0;
}

void rx_completion_room(struct engine *e)
{
    if (unlikely(e->completions ==
                 ARRAY_SIZE(e->completion))) { /* multicast makes many of one packet */
        rx_flush(e);
        settle_recvs(e);
    }
}

/* Takes and flushes what waits in the send queue; no slot is in use any more. What is posted
 * meanwhile has a doorbell of its own: who posts for ever shall not keep us here. */
static void flush_sq_ring(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct send_wqe *w = &slot_at(req, 0)->wqe;

    for (int n = work_queue_pending(&req->sq); n > 0; n--) {
        uint32_t index = req->sq.cons;

        send_queue_take(&req->sq, w);
        post_send(e, qp, &w->h, index, 0, WC_WR_FLUSH_ERR);
    }
}

void qp_flush_sq(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    if (!req->slots) /* XRC receive side */
        return;
    for (; req->tail != req->head; req->tail++) {
        struct send_slot *s = slot_at(req, req->tail);

        post_send(e, qp, &s->wqe.h, s->index, 0, WC_WR_FLUSH_ERR);
    }
    req->send = req->head;
    req->pkt = 0;
    flush_sq_ring(e, qp);
}

/* An XRC SRQ, and its completion queue, may go while a message is half received. */
static bool recv_cq_is_alive(const struct engine *e, const struct qp *qp)
{
    const struct srq *srq;

    if (qp->type != QPT_XRC_RECV)
        return true;
    srq = srq_table_lookup(e->cfg.srqs, qp->resp.recv_srqn);
    return srq && srq->serial == qp->resp.recv_serial;
}

/* The receive entry in use, then the queue's own; a shared queue stays as it is. */
static void flush_rq(struct engine *e, struct qp *qp, uint8_t status)
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
    for (int n = work_queue_pending(rq); n > 0; n--) {
        uint32_t index = rq->cons;

        post_recv_error(e, qp, work_queue_take_id(rq), index, WC_WR_FLUSH_ERR);
    }
}

void qp_flush(struct engine *e, struct qp *qp, uint8_t recv_status)
{
    qp_flush_sq(e, qp);
    if (qp->raw_rq)
        wq_flush(e, qp->raw_rq, recv_status);
    else
        flush_rq(e, qp, recv_status);
}

void qp_enter_error(struct engine *e, struct qp *qp, uint8_t recv_status)
{
    note(e, qp, TRACE_STATE, qp->state, QPS_ERR);
    __atomic_store_n(&qp->state, (uint8_t)QPS_ERR, __ATOMIC_RELAXED);
    timer_disarm(&qp->timer);
    qp->req.rnr_wait = false;
    qp_flush(e, qp, recv_status);
    if (qp->srq) /* 10.3.1: it takes no more entries from the shared queue */
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_LAST_WQE_REACHED);
}

void qp_enter_sqe(struct engine *e, struct qp *qp)
{
    note(e, qp, TRACE_STATE, qp->state, QPS_SQE);
    __atomic_store_n(&qp->state, (uint8_t)QPS_SQE, __ATOMIC_RELAXED);
    qp_flush_sq(e, qp);
}

/* The next completion, in place: post_send without the choice of a status. */
static bool post_done(struct cq_batch *run, const struct cqe *same, const struct send_slot *s)
{
    struct cqe *c = cq_batch_next(run);

    if (unlikely(!c))
        return false;
    memcpy(c, same, offsetof(struct cqe, seq));
    c->wr_id = s->wqe.h.wr_id;
    c->byte_len = s->len;
    c->wqe = s->index;
    cq_batch_give(run, c);
    return true;
}

/* The completions of the work requests all of whose packets are acknowledged; most are posted in
 * one go. */
static void retire_done(struct engine *e, struct qp *qp)
{
    const struct requester req = qp->req; /* as it stays meanwhile */
    struct comp_queue *cq = qp->send_cq;
    struct cq_batch run = cq_batch_begin(cq, e->cfg.lane);
    const uint8_t silent = qp->sq_sig_all ? 0 : SQE_SIGNALED; /* without which none is asked for */
    struct cqe same = {.timestamp = e->now,
                       .qpn = qp->qpn,
                       .src_qpn = qp->dest_qpn,
                       .uidx = qp->uidx,
                       .status = WC_SUCCESS,
                       .vlan = VLAN_NONE};
    uint32_t tail, op = UINT32_MAX;

    for (tail = req.tail; tail != req.head; tail++) {
        const struct send_slot *s = slot_at(&req, tail);
        const struct sqe *w = &s->wqe.h;

        if (s->status != WC_SUCCESS || !s->started || !psn_before(slot_last(s), req.una))
            break;
        if (~w->flags & silent)
            continue;
        if (op != w->opcode) {
            op = w->opcode;
            same.opcode = req_wc_opcode(w->opcode);
        }
        if (unlikely(!post_done(&run, &same, s))) {
            engine_post_run(e, cq, &run, false);
            post_send(e, qp, w, s->index, s->len, WC_SUCCESS);
            run = cq_batch_begin(cq, e->cfg.lane);
        }
    }
    if (tail == req.tail)
        return;
    engine_post_run(e, cq, &run, false);
    qp->req.tail = tail;
    if ((int32_t)(req.send - tail) < 0)
        qp->req.send = tail;
    engine_tx_ready(e, qp); /* there is room for other work requests */
}

/* Work requests that are acknowledged complete; one that failed completes with its reason. */
static void retire(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    const struct send_slot *s;

    if (req->tail == req->head) /* an XRC receive side has not even a completion queue */
        return;
    retire_done(e, qp);
    if (req->tail == req->head)
        return;
    s = slot_at(req, req->tail);
    if (s->status == WC_SUCCESS)
        return;
    req->tail++;
    if ((int32_t)(req->send - req->tail) < 0)
        req->send = req->tail;
    post_send(e, qp, &s->wqe.h, s->index, s->len, s->status);
    if (qp_is_reliable(qp))
        qp_enter_error(e, qp, WC_WR_FLUSH_ERR);
    else
        qp_enter_sqe(e, qp);
}

/* C10-45: SQD is reached when everything that was started has completed. */
static void tell_drained(struct engine *e, struct qp *qp)
{
    if (qp->state != QPS_SQD || qp->req.drained_told || qp->req.tail != qp->req.send || qp->req.pkt)
        return;
    qp->req.drained_told = true;
    if (qp->attr.en_sqd_async_notify)
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_SQ_DRAINED);
}

static void settle_fault(struct engine *e, struct qp *qp)
{
    const struct fault_rule *rule = &fault_rules[qp->fault];

    if (rule->event >= 0)
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, (enum qp_event)rule->event);
    qp->fault = FAULT_NONE;
    if (qp->state != QPS_ERR)
        qp_enter_error(e, qp, qp->resp.recv_failed ? WC_WR_FLUSH_ERR : rule->recv_status);
    engine_tx_ready(e, qp); /* the NAK is still to go out */
}

void qp_settle(struct engine *e, struct qp *qp)
{
    if (qp->state == QPS_RTS || qp->state == QPS_SQD) {
        retire(e, qp);
        tell_drained(e, qp);
    }
    if (qp->fault)
        settle_fault(e, qp);
}
