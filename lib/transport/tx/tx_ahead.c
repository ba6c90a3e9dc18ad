/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What queue pairs need that will send soon is fetched into the cache while others build their
 * packets. With thousands of busy ones it has left the cache since their last turn, and each wait
 * for memory takes as long as a message. A queue pair's turn finds the state of the third one
 * behind it, what the state of the second points to, and the payloads that the first one's WQEs
 * point to: each had the time of a turn to come.
 */
#include "lines.h"
#include "qp.h"
#include "tx.h"
#include "wqe.h"

#define PAYLOADS_AHEAD 2
#define RINGS_AHEAD    4
#define STATE_AHEAD    6

static void fetch_state(const struct qp *qp)
{
    line_fetch(qp);
    line_fetch(&qp->send_cq);
    line_fetch(&qp->timer);
    line_fetch(&qp->req);
    line_fetch(&qp->req.send);
    line_fetch(&qp->req.sack);
    line_fetch(&qp->req.recovery.rtt);
    line_fetch(&qp->req.recovery.rtt_min);
    line_fetch(&qp->resp);
    line_fetch(&qp->encap);
    line_fetch(&qp->counters);
}

static void fetch_rings(const struct requester *req)
{
    line_fetch(req->sq.prod);
    for (uint32_t i = 0; i < FETCH_MESSAGES; i++) {
        const uint8_t *slot = (const uint8_t *)slot_at(req, req->head + i);

        line_fetch(send_wqe_at(&req->sq, req->sq.cons + i));
        line_fetch_to_write(slot);
        line_fetch_to_write(slot + CACHE_LINE);
    }
}

static void fetch_payloads(const struct engine *e, const struct requester *req)
{
    int n = min_of(work_queue_pending(&req->sq), (int)FETCH_MESSAGES);

    for (int i = 0; i < n; i++) {
        struct sge sge = send_wqe_peek_sge(&req->sq, req->sq.cons + (uint32_t)i);

        mr_fetch(&e->mrs, sge.lkey, sge.addr);
    }
}

/* The one that is `turns` behind qp in the line; NULL: there is none. */
static const struct qp *behind(const struct qp *qp, unsigned turns)
{
    while (qp && turns--)
        qp = TAILQ_NEXT(qp, tx_link);
    return qp;
}

void tx_fetch_ahead(const struct engine *e, const struct qp *qp)
{
    const struct qp *next = behind(qp, PAYLOADS_AHEAD);

    if (next && next->req.slot_count)
        fetch_payloads(e, &next->req);
    next = behind(next, RINGS_AHEAD - PAYLOADS_AHEAD);
    if (next && next->req.slot_count)
        fetch_rings(&next->req);
    next = behind(next, STATE_AHEAD - RINGS_AHEAD);
    if (next)
        fetch_state(next);
}
