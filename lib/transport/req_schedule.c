/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester's order of work: takes work requests from the send queue, decides whether the next
 * packet may go, and goes back when packets were lost.
 */
#include "transport.h"

void req_reset(struct qp *qp, psn_t first)
{
    struct requester *req = &qp->req;

    req->tail = req->send = req->head = 0;
    req->pkt = 0;
    req->next_psn = req->max_psn = req->una = first;
    req->ack_req = psn_prev(first);
    req->rd_outstanding = 0;
    req->retry_left = qp->attr.retry_cnt;
    req->rnr_left = qp->attr.rnr_retry;
    req->stalls = 0;
    req->rnr_wait = req->implied_nak = req->drained_told = false;
}

/* A READ stays in the queue while there are as many as there may be: req_read.c takes it with those
 * behind it then. */
static bool must_stay(const struct qp *qp)
{
    const struct work_queue *sq = &qp->req.sq;
    const volatile struct sqe *next =
        (const struct sqe *)(sq->ring + (size_t)(sq->cons & (sq->size - 1)) * sq->stride);

    return qp->req.rd_outstanding && qp->req.rd_outstanding >= qp->attr.max_rd_atomic &&
           next->opcode == SQE_READ;
}

/* Takes the next entry of the send queue into a slot. False when there is none or no room. */
static bool take_slot(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct send_slot *s;
    int pending;

    if (req->head - req->tail == req->slot_count && !req_more_slots(qp))
        return false;
    pending = work_queue_pending(&req->sq);
    if (pending <
        0) { /* the application's index is out of range: nothing in the ring can be trusted */
        note(e, qp, TRACE_FAULT, FAULT_QUEUE_INDEX, 0);
        qp->fault = FAULT_QUEUE_INDEX;
        engine_touch(e, qp);
        return false;
    }
    if (!pending || must_stay(qp))
        return false;
    s = slot_at(req, req->head++);
    s->index = req->sq.cons;
    s->started = false;
    s->done = 0;
    s->status = send_queue_take(&req->sq, &s->wqe) ? WC_LOC_QP_OP_ERR : req_check(e, qp, s);
    if (s->status != WC_SUCCESS)
        engine_touch(e, qp);
    return true;
}

/* 9.7.2, 9.7.7.1: fence, outstanding READs and atomics, packets in flight. */
static bool may_start(const struct qp *qp, const struct send_slot *s)
{
    const struct requester *req = &qp->req;

    if ((s->wqe.h.flags & SQE_FENCE) && req->rd_outstanding)
        return false;
    return !op_is_read_or_atomic(s->wqe.h.opcode) || req->rd_outstanding < qp->attr.max_rd_atomic;
}

/* Whether the slot at the sending position may go on; takes it first if need be. */
static bool slot_ready(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct send_slot *s;

    if ((qp->state != QPS_RTS && qp->state != QPS_SQD) || req->rnr_wait || qp->fault)
        return false;
    if ((uint32_t)psn_diff(req->next_psn, req->una) >= req->window)
        return false;
    if (req->send == req->head && (qp->state == QPS_SQD || !take_slot(e, qp)))
        return false;
    s = slot_at(req, req->send);
    if (s->status != WC_SUCCESS || (qp->state == QPS_SQD && !s->started))
        return false;
    return req->pkt > 0 || may_start(qp, s);
}

/* On the way to the next packet the local operations at the sending position are done, in their
 * place. */
bool req_ready(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    for (;;) {
        struct send_slot *s;

        if (!slot_ready(e, qp))
            return false;
        s = slot_at(req, req->send);
        if (!op_is_local(s->wqe.h.opcode))
            return true;
        engine_touch(e, qp);
        if (!s->started)
            s->status = local_op(e, qp, &s->wqe.h);
        if (s->status != WC_SUCCESS)
            return false;
        req_start_slot(req, s);
        req->send++;
    }
}

void req_seek(struct qp *qp, psn_t p)
{
    struct requester *req = &qp->req;
    uint32_t i;

    req->rd_outstanding = 0;
    req->pkt = 0;
    for (i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);

        if (!s->started)
            break;
        if (psn_within(p, s->first, slot_last(s))) {
            req->pkt = (uint32_t)psn_diff(p, s->first);
            break;
        }
        if (op_is_read_or_atomic(s->wqe.h.opcode) && s->done < s->packets)
            req->rd_outstanding++;
    }
    req->send = i;
    req->next_psn = p;
    req->ack_req = psn_prev(req->una);
}

void req_arm_timer(struct engine *e, struct qp *qp)
{
    if (qp->ack_timeout)
        timer_arm(&e->wheel, &qp->timer, e->now + qp->ack_timeout, e->now);
}

/* The oldest work request fails when its turn comes, which is now. */
static void give_up(struct engine *e, struct qp *qp, uint8_t status)
{
    slot_at(&qp->req, qp->req.tail)->status = status;
    engine_touch(e, qp);
}

void req_timer(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    if (qp->state != QPS_RTS && qp->state != QPS_SQD)
        return;
    if (req->rnr_wait) {
        req->rnr_wait = false;
        if (!psn_eq(req->una, req->next_psn))
            req_arm_timer(e, qp);
        engine_tx_ready(e, qp);
        return;
    }
    if (psn_eq(req->una, req->max_psn))
        return;
    counter_inc(&qp->counters.timeouts);
    note(e, qp, TRACE_TIMEOUT, req->una.v, req->retry_left);
    if (!req->retry_left) {
        counter_inc(&qp->counters.retry_exceeded);
        give_up(e, qp, WC_RETRY_EXC_ERR);
        return;
    }
    req->retry_left--;
    req->implied_nak = false;
    path_timed_out(e, qp);
    req_seek(qp, req->una);
    req_arm_timer(e, qp);
    engine_tx_ready(e, qp);
}
