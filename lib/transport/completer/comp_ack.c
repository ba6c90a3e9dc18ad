/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledged PSNs, and what they say about responses that did not come (9.7.5.1, 9.7.6). */
#include "completer.h"
#include "req_commit.h"
#include "req_recovery.h"
#include "req_sack.h"

static void implied_nak(struct engine *e, struct qp *qp, psn_t at)
{
    struct requester *req = &qp->req;

    if (req->implied_nak)
        return;
    req->implied_nak = req->recovering = true;
    req->recovery.slack = ANSWER_SLACK;
    counter_inc(&qp->counters.implied_nak_seq_err);
    req_rewind(qp, at);
    engine_tx_ready(e, qp);
}

/* Of responses that are trimmed again and again: how often the wait for what was asked for doubles
 * at most. It is a burst, which fills the queue that trims it. */
#define ASKS_MAX 12

/* The oldest response that is missing is asked for again: whatever was asked for before, if that
 * was long enough ago to be what this is about. */
void comp_ask_again(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;

    if (psn_eq(req->next_psn, req->una) ||
        (req->implied_nak && e->now - r->told_at < r->rtt_min / 2 << r->asks) ||
        !comp_may_retry(e, qp, req->una))
        return;
    r->told_at = e->now;
    r->asks = (uint8_t)min_of(r->asks + 1, ASKS_MAX);
    req->implied_nak = false;
    if (e->cfg.trim_dscp)
        req_start_slowly(qp);
    implied_nak(e, qp, req->una);
    req_end_probes(e, qp);
    req_arm_timer(e, qp);
}

/* There is progress, and a response that came earlier was trimmed: it may be the one that is
 * missing now. */
static void trimmed_is_next(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;

    r->has_trimmed = psn_before(req->una, r->trimmed);
    req->recovering |= r->has_trimmed;
    if (psn_eq(req->una, r->trimmed) && psn_before(req->una, req->max_psn))
        comp_ask_again(e, qp);
}

/* A timer that is disarmed stays in the wheel until its time, as it may be armed again before.
 * Where queue pairs are many it is taken out, because it and its neighbours are in the cache now.
 */
static void end_timer(struct engine *e, struct qp *qp)
{
    if (unlikely(e->cold))
        timer_remove(&e->wheel, &qp->timer);
    else
        timer_disarm(&qp->timer);
}

void comp_progress(struct engine *e, struct qp *qp, psn_t una)
{
    struct requester *req = &qp->req;
    psn_t from = req->una;

    if (psn_eq(una, from))
        return;
    req_commit_ack(req, una);
    req->retries = 0;
    req->rnr_retries = 0;
    if (unlikely(req->recovering)) {
        una = req_recovered(e, qp, from);
        if (req->recovery.has_trimmed)
            trimmed_is_next(e, qp);
    }
    if (psn_before(req->next_psn, una)) /* packets that were about to be sent again */
        req_skip(qp);
    if (psn_eq(una, req->max_psn))
        end_timer(e, qp);
    else
        req_arm_timer(e, qp);
    engine_touch(e, qp);
    engine_tx_ready(e, qp);
}

void comp_absorb(struct engine *e, struct qp *qp)
{
    if (sack_is_done(qp, qp->req.una))
        comp_progress(e, qp, psn_add(qp->req.una, 1));
}

/*
 * All before p was executed, but the response at `una` is not here. What else was executed need not
 * be sent again. Returns whether all before p is acknowledged after all: responses that came early
 * were in the way alone. While the peer is not ready nothing is known about what follows: the timer
 * is that of the RNR delay.
 */
static bool response_missing(struct engine *e, struct qp *qp, psn_t una, psn_t p)
{
    struct requester *req = &qp->req;

    comp_progress(e, qp, una);
    if (!sack_is_agreed(qp) || req->rnr_wait || !req_sack_open(e, qp)) {
        implied_nak(e, qp, una);
        return false;
    }
    req_sack_executed(qp, p);
    comp_absorb(e, qp);
    if (!psn_before(req->una, p))
        return true;
    if (req_lose(e, qp, false) && !req->implied_nak) {
        req->implied_nak = true;
        counter_inc(&qp->counters.implied_nak_seq_err);
    }
    return false;
}

bool comp_ack_before(struct engine *e, struct qp *qp, psn_t p)
{
    struct requester *req = &qp->req;
    psn_t una = req->una;

    /* What was sent has neither READs nor atomics that wait for their response. */
    if (likely(!req->rd_outstanding && psn_eq(req->next_psn, req->max_psn))) {
        comp_progress(e, qp, psn_before(una, p) ? p : una);
        return true;
    }
    for (uint32_t i = req->tail; i != req->head && psn_before(una, p); i++) {
        struct send_slot *s = slot_at(req, i);

        if (!s->started)
            break;
        if (slot_is_before(s, una))
            continue;
        if (op_is_read_or_atomic(s->wqe.h.opcode))
            return response_missing(e, qp, una, p);
        una = psn_before(slot_last(s), p) ? psn_add(slot_last(s), 1) : p;
    }
    comp_progress(e, qp, una);
    return true;
}
