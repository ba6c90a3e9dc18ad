/* SPDX-License-Identifier: BSD-3-Clause */
/* What was recorded for a queue pair becomes CQEs and states: see completion.h. */
#include "completion.h"
#include "count.h"
#include "raw_private.h"
#include "requester.h"
#include "wqe.h"

/* The next CQE of a batch, in place: qp_post_send without the choice of a status. */
static inline void post_done(struct cq_batch *cqes, const struct cqe *common,
                             const struct send_slot *s)
{
    struct cqe *c = cq_batch_entry(cqes);

    memcpy(c, common, offsetof(struct cqe, seq));
    c->wr_id = s->wqe.h.wr_id;
    c->byte_len = s->len;
    c->wqe = s->index;
    cq_batch_give(cqes, c);
}

static void note_sends(struct engine *e, struct qp *qp, uint32_t tail, uint32_t end)
{
    if (qp->counts_sends)
        count_sends(e, qp, tail, end);
    if (qp->times_send)
        wr_time_done(e, qp, tail, end);
}

static inline bool is_done(const struct send_slot *s, psn_t una)
{
    return s->status == WC_SUCCESS && s->started && slot_is_before(s, una);
}

/* A program that reads a CQE finds it counted: a CQE of a batch is there as soon as it is given. */
static __attribute__((noinline, cold)) void note_done(struct engine *e, struct qp *qp)
{
    const struct requester *req = &qp->req;
    uint32_t end = req->tail;

    while (end != req->head && is_done(slot_at(req, end), req->una))
        end++;
    note_sends(e, qp, req->tail, end);
}

/* Posts the CQEs of the WQEs all of whose packets are acknowledged, mostly as one batch. */
static void retire_done(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    const uint32_t head = req->head;
    const psn_t una = req->una;
    struct comp_queue *cq = qp->send_cq;
    struct cq_batch cqes = cq_batch_begin(cq, e->cfg.lane);
    struct ring_cursor slot = slots_from(req, req->tail);
    const uint8_t silent =
        qp->sq_sig_all ? 0 : SQE_SIGNALED; /* a WQE without this flag is silent */
    struct cqe common = {.timestamp = e->now,
                         .qpn = qp->qpn,
                         .src_qpn = qp->dest_qpn,
                         .uidx = qp->uidx,
                         .status = WC_SUCCESS,
                         .vlan = VLAN_NONE};
    uint32_t tail, op = UINT32_MAX;

    if (unlikely(qp->notes_sends))
        note_done(e, qp);
    for (tail = req->tail; tail != head; tail++, ring_cursor_next(&slot)) {
        const struct send_slot *s = (const struct send_slot *)slot.at;
        const struct sqe *w = &s->wqe.h;

        if (!is_done(s, una))
            break;
        if (~w->flags & silent)
            continue;
        if (op != w->opcode) {
            op = w->opcode;
            common.opcode = req_ops[w->opcode & 15].wc;
        }
        if (likely(cqes.prod != cqes.end)) {
            post_done(&cqes, &common, s);
        } else { /* there may be room after all: posting finds out */
            engine_post_batch(e, cq, cqes, false);
            qp_post_send(e, qp, w, s->index, s->len, WC_SUCCESS);
            cqes = cq_batch_begin(cq, e->cfg.lane);
        }
    }
    if (tail == req->tail)
        return;
    engine_post_batch(e, cq, cqes, false);
    req_retire(req, tail);
    engine_tx_ready(e, qp); /* there is room for other WQEs */
}

static __attribute__((noinline, cold)) void retire_failed(struct engine *e, struct qp *qp,
                                                          const struct send_slot *s)
{
    why_send_failed(e, qp, s);
    req_retire(&qp->req, qp->req.tail + 1);
    qp_post_send(e, qp, &s->wqe.h, s->index, s->len, s->status);
    if (qp_is_reliable(qp))
        qp_enter_error(e, qp, WC_WR_FLUSH_ERR);
    else
        qp_enter_sqe(e, qp);
}

/* WQEs that are acknowledged complete; one that failed completes with its status. */
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
    retire_failed(e, qp, s);
}

/* C10-45: SQD is reached when everything that was started has completed. */
static void raise_drained(struct engine *e, struct qp *qp)
{
    if (qp->state != QPS_SQD || qp->req.drained || qp->req.tail != qp->req.send || qp->req.pkt ||
        !psn_eq(qp->req.una, qp->req.max_psn)) /* what was started is to be sent again */
        return;
    qp->req.drained = true;
    if (qp->attr.en_sqd_async_notify)
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_SQ_DRAINED);
}

static void complete_fault(struct engine *e, struct qp *qp)
{
    const struct fault_rule *rule = &fault_rules[qp->fault];

    if (rule->event >= 0)
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, (enum qp_event)rule->event);
    why_faulted(e, qp, qp->fault);
    qp->fault = FAULT_NONE;
    if (qp->state != QPS_ERR)
        qp_enter_error(e, qp, qp->resp.recv_failed ? WC_WR_FLUSH_ERR : rule->recv_status);
    engine_tx_ready(e, qp); /* the NAK is still to go out */
}

static void qp_complete(struct engine *e, struct qp *qp)
{
    if (unlikely(qp->fault == FAULT_SUSPENDED)) /* engine_call_ended touches it again */
        return;
    if (qp_can_request(qp)) {
        retire(e, qp);
        raise_drained(e, qp);
    }
    if (qp->fault)
        complete_fault(e, qp);
}

void engine_complete_touched(struct engine *e)
{
    struct qp *qp;
    struct wq *wq;

    while ((qp = STAILQ_FIRST(&e->touched))) {
        STAILQ_REMOVE_HEAD(&e->touched, touched_link);
        qp->in_touched = false;
        qp_complete(e, qp);
    }
    while ((wq = STAILQ_FIRST(&e->touched_wqs))) {
        STAILQ_REMOVE_HEAD(&e->touched_wqs, touched_link);
        wq->in_touched = false;
        wq_complete(e, wq);
    }
    engine_raise_cq_events(e);
}
