/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transmit path, pulled by the host: queue pairs take turns; each builds headers into a lent
 * frame and queues its payload; then all payloads are fetched, and what arrived whole is sealed.
 */
#include "raw_internal.h"
#include "transport.h"

/* The queue pair's next packet into the next job. */
static bool qp_tx(struct engine *e, struct qp *qp, struct frame *frame)
{
    struct tx_job *job = &e->tx_job[e->jobs];
    bool reply = resp_has_reply(qp), request = req_ready(e, qp);

    job->qp = qp;
    job->frame = frame;
    job->encap = &qp->encap;
    job->failed = job->is_reply = false;
    job->source = NULL;
    qp->resp_turn = !qp->resp_turn;
    if (reply && (qp->resp_turn || !request) && resp_reply(e, qp, job))
        return true;
    if (!request)
        return false;
    if (qp->service == SERVICE_RAW)
        return raw_segment(e, qp, job);
    return qp->service == PKT_UD ? req_segment_ud(e, qp, job) : req_segment(e, qp, job);
}

static uint32_t seal_encap(const struct tx_job *job)
{
    uint8_t *frame = job->frame->data;

    if (job->source)
        return (uint32_t)(job->frame->icrc_omitted ? encap_copy : encap_seal_copy)(
            frame, job->encap, job->bth_len, job->source, job->source_len);
    return (uint32_t)(job->frame->icrc_omitted ? job->encap->len + job->bth_len
                                         : encap_seal(frame, job->encap, job->bth_len));
}

static void seal(struct engine *e, struct tx_job *job)
{
    struct frame *f = job->frame;
    uint8_t priority;

    f->icrc_omitted &= job->encap != NULL; /* a program's own bytes are believed no more than others' */
    if (job->encap) {
        f->len = seal_encap(job);
        priority = job->encap->priority;
    } else {
        f->len = job->bth_len;
        priority = raw_priority(f->data, f->len);
    }
    tx_count(e, job->qp, priority, 1, f->len);
}

static unsigned take_requests(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    return qp->req.pkt ? req_middle(e, qp, frames, n) : req_only(e, qp, frames, n);
}

/* Whether there may be a request to send. */
static bool may_request(const struct qp *qp)
{
    const struct requester *req = &qp->req;

    return req->send != req->head || (req->slot_count && work_queue_pending(&req->sq));
}

/* Responses to READs wait: these and requests take turns, of a packet, or some of one packet each
 * where both are such: else who sends the long ones would be kept back by as much. Where there are
 * no requests, or none that may go, there are as many responses as may. */
static unsigned take_turns(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    unsigned few = min_of(n, TURN_SHORT), taken;

    if (!qp->resp_turn) {
        taken = may_request(qp) ? resp_read(e, qp, frames, qp->req.pkt ? 1 : few, true)
                                : resp_read(e, qp, frames, n, false);
        qp->resp_turn = (uint8_t)taken;
        return taken;
    }
    taken = take_requests(e, qp, frames, qp->req.pkt || qp->resp_turn == 1 ? 1 : few);
    if (taken)
        qp->resp_turn = 0;
    else if (!req_ready(e, qp)) /* if it is, its turn is in qp_tx */
        taken = resp_read(e, qp, frames, n, false);
    return taken;
}

/* Up to n packets of the queue pair; returns how many. What needs no more than the batch's turn to
 * come is sealed now, while its bytes are at hand. */
static unsigned take_packets(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    unsigned taken = 0;

    if (likely(!resp_may_reply(qp)))
        taken = take_requests(e, qp, frames, n);
    else if (qp->resp.res_pending && qp->service == PKT_RC)
        taken = take_turns(e, qp, frames, n);
    if (likely(taken))
        return taken;
    if (!qp_tx(e, qp, frames))
        return 0;
    if (e->sealed == e->jobs && !e->batch.n) {
        seal(e, &e->tx_job[e->jobs]);
        e->sealed++;
    }
    return 1;
}

static void next_turn(struct engine *e, struct qp *qp)
{
    qp->tx_burst = 0;
    TAILQ_REMOVE(&e->tx_list, qp, tx_link);
    TAILQ_INSERT_TAIL(&e->tx_list, qp, tx_link);
}

static void fill_jobs(struct engine *e, struct frame *frames, unsigned n)
{
    struct qp *qp;

    e->jobs = e->sealed = 0;
    while (e->jobs < n && (qp = TAILQ_FIRST(&e->tx_list))) {
        bool alone = !TAILQ_NEXT(qp, tx_link);
        unsigned turn = alone ? n : (unsigned)(TX_QUANTUM - qp->tx_burst);
        unsigned taken = take_packets(e, qp, &frames[e->jobs], min_of(n - e->jobs, turn));

        if (!taken) {
            TAILQ_REMOVE(&e->tx_list, qp, tx_link);
            qp->in_tx_list = false;
            continue;
        }
        e->jobs += taken;
        qp->tx_burst = (uint8_t)(qp->tx_burst + taken);
        if (qp->tx_burst >= TX_QUANTUM)
            next_turn(e, qp);
    }
}

/* The payload could not be read: the message ends here, and so does what was built behind it. */
static void tx_failed(struct engine *e, struct tx_job *job)
{
    struct qp *qp = job->qp;

    if (job->is_reply)
        resp_fault(e, qp, FAULT_MEMORY, job->psn);
    else
        slot_at(&qp->req, job->slot)->status = WC_LOC_PROT_ERR;
    engine_touch(e, qp);
}

/* A packet behind one of the same queue pair that failed. */
static bool behind_failed(const struct engine *e, unsigned i)
{
    for (unsigned k = e->sealed; k < i; k++)
        if (e->tx_job[k].failed && e->tx_job[k].qp == e->tx_job[i].qp)
            return true;
    return false;
}

/* Gets the payloads that the others wait for. Returns how many frames are to be sent. */
static unsigned seal_rest(struct engine *e, struct frame *frames)
{
    unsigned out = e->sealed;
    bool any_failed = false;

    tx_flush(e);
    for (unsigned i = e->sealed; i < e->jobs; i++) {
        struct tx_job *job = &e->tx_job[i];

        if (job->failed) {
            any_failed = true;
            tx_failed(e, job);
        }
        if (job->failed || (any_failed && behind_failed(e, i)))
            continue;
        seal(e, job);
        if (out != i) {
            struct frame lent = frames[out];

            frames[out] = frames[i];
            frames[i] = lent;
        }
        out++;
    }
    return out;
}

unsigned engine_tx(struct engine *e, struct frame *frames, unsigned n, ns_t now)
{
    unsigned out;

    e->now = now;
    fill_jobs(e, frames, min_of(n, (unsigned)FRAME_BURST));
    out = e->sealed == e->jobs ? e->jobs : seal_rest(e, frames);
    engine_settle(e);
    return out;
}
