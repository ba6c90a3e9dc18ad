/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's timers: what was not acknowledged is sent again (9.7.6.1.3, 9.7.5.2.8). */
#include "rate.h"
#include "req_recovery.h"
#include "req_sack.h"
#include "requester.h"
#include "sport.h"

/* The oldest WQE fails: it is the next to complete. */
static void fail_oldest(struct engine *e, struct qp *qp, uint8_t status)
{
    slot_at(&qp->req, qp->req.tail)->status = status;
    engine_touch(e, qp);
}

void req_rnr_timeout(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    if (!qp_can_request(qp) || !req->rnr_wait)
        return;
    req->rnr_wait = false;
    if (!psn_eq(req->una, req->next_psn))
        req_arm_timer(e, qp);
    engine_tx_ready(e, qp);
}

void req_send_again(struct engine *e, struct qp *qp)
{
    qp->req.implied_nak = qp->req.nak_taken = false;
    req_sack_abandon(qp);
    qp->req.recovery.timed = false;
    req_end_probes(e, qp);
    req_rewind(qp, qp->req.una);
    req_arm_timer(e, qp);
    engine_tx_ready(e, qp);
}

void req_ack_timeout(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    uint32_t retries_left;

    if (!qp_can_request(qp) || psn_eq(req->una, req->max_psn))
        return;
    /* The peer had no chance to answer; or the packet that will ask is still to come: the queue
     * pair is paced slowly. */
    if (qp->fault == FAULT_SUSPENDED || !req_answer_is_due(req)) {
        req_arm_timer(e, qp);
        return;
    }
    if (req_probe(e, qp))
        return;
    counter_inc(&qp->counters.timeouts);
    retries_left = req->retries < qp->attr.retry_cnt ? qp->attr.retry_cnt - req->retries : 0;
    note(e, qp, TRACE_TIMEOUT, req->una.v, retries_left);
    why_note_silence(e, qp);
    if (!retries_left) {
        counter_inc(&qp->counters.retry_exceeded);
        fail_oldest(e, qp, WC_RETRY_EXC_ERR);
        return;
    }
    req->retries++;
    req->recovery.slack = ANSWER_SLACK;
    rate_on_timeout(e, qp);
    sport_timed_out(e, qp);
    req_send_again(e, qp);
}
