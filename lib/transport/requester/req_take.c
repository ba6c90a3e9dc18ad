/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester's order of work: takes WQEs from the send queue into slots, and decides whether the
 * one at the sending position may go on.
 */
#include "qp_memory.h"
#include "req_credit.h"
#include "requester.h"
#include "sg.h"
#include "wqe.h"

/* 10.8.3: behind a fence READs and atomics before it are complete. */
static bool fence_holds(const struct qp *qp, unsigned sqe_flags)
{
    return sqe_flags & SQE_FENCE && qp->req.rd_outstanding;
}

/* What waits for READs and atomics stays in the queue: a batch takes it later, together with those
 * behind it. */
static bool must_wait(const struct qp *qp)
{
    struct sqe_head next;

    if (!qp->req.rd_outstanding)
        return false;
    next = send_wqe_peek(&qp->req.sq);
    return fence_holds(qp, next.flags) ||
           (op_is_read_or_atomic(next.opcode) && !req_reads_allowed(qp));
}

/* The host may want a WQE that is good to fail all the same. */
static __attribute__((noinline, cold)) void judge(struct engine *e, struct qp *qp,
                                                  struct send_slot *s)
{
    if (e->judge.status)
        s->status = e->judge.status(e->judge.ctx, qp, s->wqe.h.opcode);
    s->judged = s->status != WC_SUCCESS;
}

/* Takes the next WQE of the send queue into a slot. False when there is none or no room. */
static bool take_slot(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct send_slot *s;
    int pending;

    if (req->head - req->tail == req->slot_count && !req_grow_slots(qp))
        return false;
    pending = work_queue_pending(&req->sq);
    if (pending < 0) { /* the application's index is out of range: no WQE can be trusted */
        if (qp->fault) /* suspended in this turn: the index is looked at again */
            return false;
        note(e, qp, TRACE_FAULT, FAULT_QUEUE_INDEX, 0);
        why_set_cause(qp, CAUSE_queue_index);
        qp->fault = FAULT_QUEUE_INDEX;
        engine_touch(e, qp);
        return false;
    }
    if (!pending || must_wait(qp))
        return false;
    s = req_open_slot(req);
    s->index = req->sq.cons;
    s->started = s->judged = false;
    s->done = 0;
    s->status = send_queue_take(&req->sq, &s->wqe) ? WC_LOC_QP_OP_ERR : req_check(e, qp, s);
    if (unlikely(!req->sq.in_batches) && s->status == WC_SUCCESS)
        judge(e, qp, s);
    if (unlikely(s->wqe.h.flags & SQE_TIMED) && s->status == WC_SUCCESS)
        wr_time_taken(e, qp, req->head - 1);
    if (s->status != WC_SUCCESS)
        engine_touch(e, qp);
    return true;
}

/* 9.7.2, 9.7.7.1: fence, outstanding READs and atomics. What was sent before none was allowed any
 * more is sent again, one at a time. */
static bool may_start(const struct qp *qp, const struct send_slot *s)
{
    if (fence_holds(qp, s->wqe.h.flags))
        return false;
    return !op_is_read_or_atomic(s->wqe.h.opcode) || req_reads_allowed(qp) ||
           (s->started && !qp->req.rd_outstanding);
}

/* Whether the slot at the sending position may go on; takes a WQE into it first if need be. */
static bool slot_ready(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct send_slot *s;

    if (req->send == req->head && (!req_takes_new(qp) || !take_slot(e, qp)))
        return false;
    s = slot_at(req, req->send);
    if (s->status != WC_SUCCESS || (!req_takes_new(qp) && !s->started))
        return false;
    if (unlikely(req_is_beyond_credit(req)) && !req_credit_allows(req, s))
        return false;
    return req->pkt > 0 || may_start(qp, s);
}

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
        if (!s->started) {
            sg_flush_in(e); /* packets built under the old binding read their payload first */
            if (qp->fault)  /* suspended: when they have */
                return false;
            s->status = local_op(e, qp, &s->wqe.h);
        }
        if (s->status != WC_SUCCESS)
            return false;
        req_start_slot(req, s);
        req_commit_local(req);
    }
}
