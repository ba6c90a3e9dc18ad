/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The next packets of a queue pair: a batch where packets are alike, else a single one. Each call
 * asks the queue pair's allowance once. Responses and requests alternate from call to call.
 */
#include "cnp.h"
#include "rate.h"
#include "req_credit.h"
#include "requester.h"
#include "responder.h"
#include "service.h"
#include "tx.h"
#include "tx_allowance.h"

/* Packets of responses before those of requests, and the reverse, if both are short messages. */
#define ALTERNATE_SHORT 8

/* ---- batches ---- */

ALWAYS_INLINE unsigned take_requests(struct engine *e, struct qp *qp, struct frame *frames,
                                     unsigned n, unsigned psns)
{
    if (!psns)
        return 0;
    return qp->req.pkt ? req_batch_segments(e, qp, frames, min_of(n, psns))
                       : req_batch_messages(e, qp, frames, n, psns);
}

/* Whether there may be a request to send. */
static bool may_have_request(const struct qp *qp)
{
    const struct requester *req = &qp->req;

    return req->send != req->head || (req->slot_count && work_queue_pending(&req->sq));
}

/*
 * Responses to READs are pending. Responses and requests alternate: packet by packet, or some at a
 * time where both are of one packet each, because otherwise the side with the long messages would
 * hold back the other. If there is no request, or none that may be sent, responses take all
 * frames.
 */
ALWAYS_INLINE unsigned alternate(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                                 const struct tx_allowance *allow)
{
    unsigned most = min_of(n, allow->responses), few = min_of(most, ALTERNATE_SHORT), taken;

    if (!qp->resp_last) {
        taken = may_have_request(qp)
                    ? resp_batch_replies(e, qp, frames, qp->req.pkt ? 1 : few, true)
                    : resp_batch_replies(e, qp, frames, most, false);
        qp->resp_last = (uint8_t)taken;
        return taken;
    }
    taken =
        take_requests(e, qp, frames, qp->req.pkt || qp->resp_last == 1 ? 1 : few, allow->requests);
    if (taken)
        qp->resp_last = 0;
    else if (!allow->requests || !req_ready(e, qp)) /* else take_one sends the request */
        taken = resp_batch_replies(e, qp, frames, most, false);
    return taken;
}

/* ---- the general path ---- */

ALWAYS_INLINE struct tx_job *next_job(struct engine *e, struct qp *qp, struct frame *frame)
{
    struct tx_job *job = &e->tx_job[e->jobs];

    job->qp = qp;
    job->frame = frame;
    job->encap = &qp->encap;
    job->failed = JOB_GOOD;
    job->is_reply = false;
    job->source = NULL;
    return job;
}

/* The queue pair's next packet into the next job. */
ALWAYS_INLINE bool take_one(struct engine *e, struct qp *qp, struct frame *frame,
                            const struct tx_allowance *allow)
{
    struct tx_job *job = next_job(e, qp, frame);
    bool request = allow->requests && req_ready(e, qp);

    qp->resp_last = !qp->resp_last;
    if (allow->responses && (qp->resp_last || !request) && resp_reply(e, qp, job))
        return true;
    return request && qp->ops->tx_request(e, qp, job);
}

/* The job is built: one packet. It is sealed while its bytes are in the cache, unless it, or one
 * before it, waits for a payload. */
ALWAYS_INLINE unsigned seal_one(struct engine *e)
{
    if (e->sealed == e->jobs && !e->batch.n) {
        tx_seal(e, &e->tx_job[e->jobs]);
        e->sealed++;
    }
    return 1;
}

/* The CNP that is due: of marked packets alone, so it is not in the way of others' instructions. */
__attribute__((noinline, cold)) static unsigned take_cnp(struct engine *e, struct qp *qp,
                                                         struct frame *frame)
{
    return cnp_build(e, qp, next_job(e, qp, frame)) ? seal_one(e) : 0;
}

static unsigned take_held(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);

/* A queue pair that is paced, or whose peer gives credits, is allowed no requests, and leaves to
 * its own turn when it has no other packet or would send responses: the others need no test. held:
 * whether it may be one. */
ALWAYS_INLINE unsigned take_turn(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                                 const struct tx_allowance *allow, bool held)
{
    unsigned taken = 0;

    if (likely(!allow->responses))
        taken = take_requests(e, qp, frames, n, allow->requests);
    else if (unlikely(qp->cnp_due))
        taken = take_cnp(e, qp, frames);
    else if (qp->resp.res_pending) {
        if (unlikely(held && qp->req.held))
            return take_held(e, qp, frames, n);
        if (qp_is_reliable(qp) && allow->responses > 1)
            taken = alternate(e, qp, frames, n, allow);
    }
    if (likely(taken))
        return taken;
    if (take_one(e, qp, frames, allow))
        return seal_one(e);
    return unlikely(held && qp->req.held) ? take_held(e, qp, frames, n) : 0;
}

/* One packet, by the general path: what a batch would not look at may forbid it. */
static unsigned take_single(struct engine *e, struct qp *qp, struct frame *frames,
                            const struct tx_allowance *allow)
{
    unsigned taken = allow->responses && qp->cnp_due ? take_cnp(e, qp, frames) : 0;

    if (!taken && take_one(e, qp, frames, allow))
        taken = seal_one(e);
    return taken;
}

/* What a controller and credits let through: not in the way of others' instructions. */
__attribute__((noinline, cold)) static unsigned take_held(struct engine *e, struct qp *qp,
                                                          struct frame *frames, unsigned n)
{
    const bool paced = qp->req.paced;
    const psn_t next = qp->req.next_psn;
    struct tx_allowance allow;
    unsigned taken;

    qp->req.held = 0;
    allow = qp_tx_allowance(qp);
    if (paced)
        n = rate_admit(e, qp, &allow, n);
    if (qp->req.has_credits)
        n = min_of(n, req_credit_room(&qp->req));
    taken = n ? take_turn(e, qp, frames, n, &allow, false) : take_single(e, qp, frames, &allow);
    if (paced && cc_is_limited(&qp->cc)) {
        rate_charge(e, qp, frames, taken, psn_eq(next, qp->req.next_psn));
        qp->req.paced = true;
    }
    qp->req.credited = qp->req.has_credits;
    return taken;
}

unsigned tx_take_answer(struct engine *e, struct qp *qp, struct frame *frame)
{
    return tx_allowed_responses(qp) && resp_reply_short(e, qp, next_job(e, qp, frame)) ? seal_one(e)
                                                                                       : 0;
}

unsigned tx_take_answers(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    unsigned taken = 0;

    if (qp->resp.res_pending && !qp->req.held && tx_allowed_responses(qp) > 1)
        taken = resp_batch_replies(e, qp, frames, n, false);
    return taken ? taken : tx_take_answer(e, qp, frames);
}

unsigned tx_take_turn(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    const struct tx_allowance allow = qp_tx_allowance(qp);

    return take_turn(e, qp, frames, n, &allow, true);
}
