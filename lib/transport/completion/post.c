/* SPDX-License-Identifier: BSD-3-Clause */
/* CQEs, and the events of the queues that they are posted to: see completion.h. */
#include "completion.h"
#include "count.h"
#include "requester.h"

static void raise_events(struct engine *e, struct comp_queue *cq)
{
    struct cq_moderation *m = atomic_load_explicit(&cq->moderation, memory_order_acquire);

    if (likely(!m) ? cq_take_event(cq, e->cfg.lane) : cq_take_moderated(e, cq, m))
        e->cfg.host.cq_event(e->cfg.host.ctx, cq);
    if (e->cfg.host.cq_posted)
        e->cfg.host.cq_posted(e->cfg.host.ctx, cq);
}

/* Its events are raised before this call into the engine returns. */
static void note_cq(struct engine *e, struct comp_queue *cq)
{
    if (e->cqs == ARRAY_SIZE(e->cq)) { /* more than a burst can name */
        raise_events(e, e->cq[0]);
        e->cq[0] = e->cq[--e->cqs];
    }
    e->cq[e->cqs++] = cq;
}

void engine_raise_cq_events(struct engine *e)
{
    for (unsigned i = 0; i < e->cqs; i++)
        raise_events(e, e->cq[i]);
    e->cqs = 0;
}

bool engine_post(struct engine *e, struct comp_queue *cq, const struct cqe *c, bool solicited)
{
    struct comp_lane *lane = &cq->lane[e->cfg.lane];
    bool was_overrun = lane->overrun, was_touched = lane->touched;

    if (cq_post(cq, e->cfg.lane, c, solicited) == 0) {
        if (!was_touched) /* a touched queue is noted */
            note_cq(e, cq);
        return true;
    }
    if (cq->ignores_overrun)
        return true;
    if (!was_overrun) {
        trace_put(&e->trace, e->now, TRACE_CQ_OVERRUN, c->qpn, cq->handle, 0);
        e->cfg.host.async_event(e->cfg.host.ctx, NULL, cq, QP_EVENT_CQ_ERR);
    }
    return false;
}

void engine_post_batch(struct engine *e, struct comp_queue *cq, struct cq_batch batch,
                       bool solicited)
{
    bool was_touched = cq->lane[e->cfg.lane].touched;

    cq_batch_end(cq, e->cfg.lane, &batch, solicited);
    if (!was_touched && cq->lane[e->cfg.lane].touched)
        note_cq(e, cq);
}

void qp_post(struct engine *e, struct qp *qp, struct comp_queue *cq, const struct cqe *c,
             bool solicited)
{
    if (!engine_post(e, cq, c, solicited) && !qp->fault && qp->state != QPS_ERR) {
        const struct why why = {
            CAUSE_cq_overrun,
            {cq->handle, cq->size, (cq == qp->send_cq) | (cq == qp->recv_cq) << 1}};

        note(e, qp, TRACE_FAULT, FAULT_CQ_OVERRUN, 0);
        why_set(qp, &why);
        qp->fault = FAULT_CQ_OVERRUN;
        engine_touch(e, qp);
    }
}

void qp_post_send(struct engine *e, struct qp *qp, const struct sqe *w, uint32_t index,
                  uint32_t len, uint8_t status)
{
    struct cqe c = {
        .wr_id = w->wr_id,
        .timestamp = e->now,
        .qpn = qp->qpn,
        .src_qpn = qp->dest_qpn,
        .byte_len = len,
        .uidx = qp->uidx,
        .vendor_err = status == WC_SUCCESS ? 0 : qp->why.is.cause,
        .wqe = index,
        .status = status,
        .opcode = req_ops[w->opcode & 15].wc,
        .vlan = VLAN_NONE,
    };

    if (status != WC_SUCCESS && qp->counts_sends) /* the others: retire_done */
        count_send_failed(e, qp, w);
    if (status == WC_SUCCESS && !qp->sq_sig_all && !(w->flags & SQE_SIGNALED))
        return;
    qp_post(e, qp, qp->send_cq, &c, status != WC_SUCCESS);
}
