/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transmit path, pulled by the host: queue pairs take turns; each builds headers into a lent
 * frame and queues its payload; then all payloads are fetched, and what arrived whole is sealed.
 */
#include "raw_internal.h"
#include "transport.h"

/* The queue pair's next packet into job->frame. */
static bool qp_tx(struct engine *e, struct qp *qp, struct tx_job *job)
{
    bool reply = resp_has_reply(qp), request;

    job->qp = qp;
    job->encap = &qp->encap;
    job->failed = job->is_reply = false;
    if (likely(!reply && req_only(e, qp, job)))
        return true;
    request = req_ready(e, qp);
    qp->resp_turn = !qp->resp_turn;
    if (reply && (qp->resp_turn || !request) && resp_reply(e, qp, job))
        return true;
    if (!request)
        return false;
    if (qp->service == SERVICE_RAW)
        return raw_segment(e, qp, job);
    return qp->service == PKT_UD ? req_segment_ud(e, qp, job) : req_segment(e, qp, job);
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

    e->jobs = 0;
    while (e->jobs < n && (qp = TAILQ_FIRST(&e->tx_list))) {
        struct tx_job *job = &e->tx_job[e->jobs];

        job->frame = &frames[e->jobs];
        if (!qp_tx(e, qp, job)) {
            TAILQ_REMOVE(&e->tx_list, qp, tx_link);
            qp->in_tx_list = false;
            continue;
        }
        e->jobs++;
        if (++qp->tx_burst >= TX_QUANTUM)
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
    for (unsigned k = 0; k < i; k++)
        if (e->tx_job[k].failed && e->tx_job[k].qp == e->tx_job[i].qp)
            return true;
    return false;
}

static void seal(struct engine *e, struct tx_job *job)
{
    struct qp *qp = job->qp;
    struct frame *f = job->frame;
    uint8_t priority;

    f->inside &= job->encap != NULL; /* a program's own bytes are believed no more than others' */
    if (job->encap) {
        f->len = f->inside ? job->encap->len + job->bth_len
                           : (uint32_t)encap_seal(f->data, job->encap, job->bth_len);
        priority = job->encap->priority;
    } else {
        f->len = job->bth_len;
        priority = raw_priority(f->data, f->len);
    }
    counter_inc(&e->counters.tx_packets[priority]);
    counter_add(&e->counters.tx_bytes[priority], f->len);
    counter_inc(&qp->counters.tx_packets);
    counter_add(&qp->counters.tx_bytes, f->len);
}

unsigned engine_tx(struct engine *e, struct frame *frames, unsigned n, ns_t now)
{
    unsigned out = 0;
    bool any_failed = false;

    e->now = now;
    fill_jobs(e, frames, min_of(n, (unsigned)FRAME_BURST));
    tx_flush(e);
    for (unsigned i = 0; i < e->jobs; i++) {
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
    engine_settle(e);
    return out;
}
