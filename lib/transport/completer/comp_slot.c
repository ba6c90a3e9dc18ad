/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests by their PSNs, those that fail, and what a loss takes of their retries. */
#include "completer.h"

struct send_slot *comp_slot(struct qp *qp, psn_t p, uint32_t *count)
{
    struct requester *req = &qp->req;

    for (uint32_t i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);

        if (!s->started)
            return NULL;
        if (psn_within(p, s->first, slot_last(s))) {
            *count = i;
            return s;
        }
    }
    return NULL;
}

/* The peer refused the work request at p: it completes with the reason, when its turn comes. */
void comp_refused(struct engine *e, struct qp *qp, psn_t p, uint8_t status)
{
    uint32_t count;
    struct send_slot *s = comp_slot(qp, p, &count);

    if (s)
        s->status = status;
    engine_touch(e, qp);
}

/* Where switches trim, a packet may be lost many times within a round trip or two. That is
 * congestion; it takes a retry for each local ACK timeout, as silence does. */
static bool is_in_same_timeout(const struct engine *e, struct qp *qp)
{
    struct req_recovery *r = &qp->req.recovery;

    if (!e->cfg.trim_dscp)
        return false;
    if (r->retry_at && (!qp->ack_timeout || e->now - r->retry_at < qp->ack_timeout))
        return true;
    r->retry_at = e->now;
    return false;
}

bool comp_may_retry(struct engine *e, struct qp *qp, psn_t p)
{
    counter_inc(&qp->counters.seq_nak_rcvd);
    if (is_in_same_timeout(e, qp))
        return true;
    if (qp->req.retries < qp->attr.retry_cnt) {
        qp->req.retries++;
        return true;
    }
    counter_inc(&qp->counters.retry_exceeded);
    comp_refused(e, qp, p, WC_RETRY_EXC_ERR);
    return false;
}
