/* SPDX-License-Identifier: BSD-3-Clause */
/* Controlled queue pairs: see rate.h. */
#include "rate.h"

#include "req_recovery.h"

#include <errno.h>

/* A controller lets through as many in a local ACK timeout, at least. */
#define PACKETS_IN_TIMEOUT 4

/* Packets that were sent behind the last one that asks for an answer. */
static uint32_t unasked(const struct requester *req)
{
    psn_t p = psn_add(req->ack_asked_psn, 1);

    if (psn_before(p, req->una))
        p = req->una;
    return psn_before(p, req->next_psn) ? (uint32_t)psn_diff(req->next_psn, p) : 0;
}

/* A packet that asks for an answer is timed, so each window has some. A window that shrinks has
 * room for one behind those that were sent without: else it would wait for ever. */
static void set_window(struct requester *req, uint32_t packets)
{
    packets = min_of(max_of(packets, unasked(req) + 1), req->window_full);
    if (packets == req->window_max)
        return;
    if (req->window > packets || (!req->recovery.probes && !req->sack))
        req->window = packets; /* else probes and maps decide, until there is progress */
    req->window_max = packets;
    req->ask_every = req->recovery.has_maps ? max_of(packets / ASKS_WHEN_LOST, 1u) : packets / ASKS;
}

/* One that began with a CNP is at the rate of the line again: the next CNP begins anew. */
static void end_controller(struct qp *qp)
{
    if (qp->cc.ops && !qp->cc.ops->by_delay && !cc_is_controlled(&qp->cc))
        cc_stop(&qp->cc);
}

static void end_pacing(struct engine *e, struct qp *qp)
{
    timer_remove(&e->wheel, &qp->pace);
    qp->req.paced = false;
    end_controller(qp);
}

/* What the controller says now. */
static void follow(struct engine *e, struct qp *qp)
{
    const struct cc *cc = &qp->cc;

    set_window(&qp->req,
               cc->window ? (uint32_t)min_of(cc->window / max_of(qp->mtu, 1u), (uint64_t)WINDOW_MAX)
                          : UINT32_MAX);
    if (cc_is_limited(cc)) {
        qp->req.paced = true;
    } else if (qp->req.paced) { /* it may wait for its time */
        end_pacing(e, qp);
        engine_tx_ready(e, qp);
    }
}

/* At a rate at which a packet takes as long as the local ACK timeout, packets would be sent again
 * though none was lost, until the retries are over. */
static uint64_t least_rate(const struct qp *qp)
{
    return qp->ack_timeout ? cc_rate_of(PACKETS_IN_TIMEOUT * (uint64_t)qp->mtu, qp->ack_timeout)
                           : 0;
}

static void start(struct engine *e, struct qp *qp)
{
    const struct congestion_config *c = &e->cfg.congestion;

    cc_start(&qp->cc, c->control, c->own_params ? c->params : NULL, c->line, qp->mtu);
    qp->cc.least = least_rate(qp);
}

void rate_timeout_changed(struct qp *qp)
{
    qp->cc.least = least_rate(qp);
}

void rate_begin(struct engine *e, struct qp *qp)
{
    const struct congestion_config *c = &e->cfg.congestion;

    if (!c->control || !c->control->by_delay || !qp_is_reliable(qp) || qp->type == QPT_XRC_RECV)
        return;
    if (!qp->cc.ops)
        start(e, qp);
    follow(e, qp);
}

void rate_on_cnp(struct engine *e, struct qp *qp)
{
    if (!qp->cc.ops)
        start(e, qp);
    counter_inc(&qp->counters.rp_cnp_handled);
    cc_on_cnp(&qp->cc, e->now);
    follow(e, qp);
}

void rate_on_marks(struct engine *e, struct qp *qp)
{
    cc_on_ce(&qp->cc, e->now);
    follow(e, qp);
}

void rate_on_ack(struct engine *e, struct qp *qp, ns_t delay)
{
    const struct requester *req = &qp->req;
    uint32_t packets = (uint32_t)psn_diff(req->una, req->recovery.timed_una);

    cc_on_ack(&qp->cc, (uint64_t)packets * qp->mtu, delay, e->now);
    follow(e, qp);
}

void rate_on_timeout(struct engine *e, struct qp *qp)
{
    if (!qp->cc.ops)
        return;
    cc_on_timeout(&qp->cc, e->now);
    follow(e, qp);
}

/* A controller that works by delay knows those of requests alone: the peer that reads has one, too,
 * and bounds what it asks for. */
static bool holds_responses(const struct qp *qp)
{
    return qp->cc.limit || !qp->cc.ops->by_delay;
}

unsigned rate_admit(struct engine *e, struct qp *qp, struct tx_allowance *allow, unsigned n)
{
    uint64_t bytes = cc_allowance(&qp->cc, e->now);

    end_controller(qp);
    if (!cc_is_limited(&qp->cc)) {
        end_pacing(e, qp);
        return n;
    }
    if (bytes)
        return (unsigned)min_of((uint64_t)n,
                                1 + (bytes - 1) / max_of(qp->mtu, (uint32_t)PKT_MTU_MIN));
    allow->requests = 0;
    if (holds_responses(qp) && qp->resp.res_pending && !qp->fault && qp->state != QPS_ERR)
        allow->responses = qp->cnp_due;
    timer_arm(&e->wheel, &qp->pace, TIMER_PACE, qp->cc.next, e->now);
    return n;
}

void rate_charge(struct engine *e, struct qp *qp, const struct frame *frames, unsigned taken,
                 bool responses)
{
    uint32_t bytes = 0;

    if (responses && !holds_responses(qp))
        return;
    for (unsigned i = 0; i < taken; i++)
        bytes += tx_job_bytes(e, &frames[i], e->jobs + i);
    cc_on_sent(&qp->cc, bytes, e->now);
}

void rate_timer(struct engine *e, struct qp *qp)
{
    engine_tx_ready(e, qp);
}

void rate_forget(struct engine *e, struct qp *qp)
{
    end_pacing(e, qp);
    cc_stop(&qp->cc);
    cc_set_limit(&qp->cc, 0, e->now);
}

int rate_check_limit(const struct qp *qp, const struct qp_attr *attr)
{
    uint64_t rate = attr->rate_limit * UINT64_C(1000);

    if (qp->type == QPT_XRC_RECV)
        return -EINVAL;
    return attr->rate_burst && attr->rate_burst < cc_burst(rate) + qp->mtu ? -EINVAL : 0;
}

void rate_set_limit(struct engine *e, struct qp *qp, uint64_t limit)
{
    bool waits = qp->pace.tick && qp->pace.deadline != NS_NEVER;

    cc_set_limit(&qp->cc, limit, e->now);
    if (!cc_is_limited(&qp->cc)) {
        end_pacing(e, qp);
        if (waits) /* it may not have to any more, or for an address handle's rate alone */
            engine_tx_ready(e, qp);
    } else {
        qp->req.paced = true;
        engine_tx_ready(e, qp);
    }
}
