/* SPDX-License-Identifier: BSD-3-Clause */
/* The completer: acknowledges, and what they say about responses that did not come
 * (9.7.5.1, 9.7.6). */
#include "transport.h"

void comp_progress(struct engine *e, struct qp *qp, psn_t una)
{
    struct requester *req = &qp->req;

    if (psn_eq(una, req->una))
        return;
    req->una = una;
    req->retry_left = qp->attr.retry_cnt;
    req->rnr_left = qp->attr.rnr_retry;
    req->implied_nak = false;
    req->rnr_wait = false; /* what was refused got through after all: a duplicate, accepted later */
    if (psn_before(req->next_psn, una)) /* acknowledged what was about to be sent again */
        req_seek(qp, una);
    if (psn_eq(una, req->max_psn))
        timer_disarm(&qp->timer);
    else
        req_arm_timer(e, qp);
    engine_touch(e, qp);
    engine_tx_ready(e, qp);
}

void comp_implied_nak(struct engine *e, struct qp *qp, psn_t at)
{
    struct requester *req = &qp->req;

    if (req->implied_nak)
        return;
    req->implied_nak = true;
    counter_inc(&qp->counters.implied_nak_seq_err);
    req_seek(qp, at);
    engine_tx_ready(e, qp);
}

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
        if (psn_before(slot_last(s), una))
            continue;
        if (op_is_read_or_atomic(s->wqe.h.opcode)) {
            comp_progress(e, qp, una);
            comp_implied_nak(e, qp, una);
            return false;
        }
        una = psn_before(slot_last(s), p) ? psn_add(slot_last(s), 1) : p;
    }
    comp_progress(e, qp, una);
    return true;
}

/* The peer refused the work request at p: it completes with the reason, when its turn comes. */
static void comp_refused(struct engine *e, struct qp *qp, psn_t p, uint8_t status)
{
    uint32_t count;
    struct send_slot *s = comp_slot(qp, p, &count);

    if (s)
        s->status = status;
    engine_touch(e, qp);
}

static void comp_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t code)
{
    static const uint8_t status[] = {
        [NAK_INVALID_REQUEST] = WC_REM_INV_REQ_ERR,
        [NAK_REMOTE_ACCESS] = WC_REM_ACCESS_ERR,
        [NAK_REMOTE_OPERATIONAL] = WC_REM_OP_ERR,
    };
    struct requester *req = &qp->req;

    if (code == NAK_PSN_SEQUENCE) {
        if (req->rnr_wait)
            return;
        counter_inc(&qp->counters.seq_nak_rcvd);
        if (!req->retry_left) {
            counter_inc(&qp->counters.retry_exceeded);
            comp_refused(e, qp, p, WC_RETRY_EXC_ERR);
            return;
        }
        req->retry_left--;
        req_seek(qp, p);
        req_arm_timer(e, qp);
        engine_tx_ready(e, qp);
    } else if (code < ARRAY_SIZE(status)) {
        comp_refused(e, qp, p, status[code]);
    }
}

/* Table 45 of 9.7.5.2.8: code -> time, in units of 10 us. */
static ns_t rnr_delay(uint8_t code)
{
    static const uint16_t units[32] = {65536 - 1, 1,    2,    3,     4,     6,     8,     12,
                                       16,        24,   32,   48,    64,    96,    128,   192,
                                       256,       384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,      6144, 8192, 12288, 16384, 24576, 32768, 49152};

    return code ? units[code] * 10 * NS_PER_US : 655360 * NS_PER_US;
}

static void comp_rnr(struct engine *e, struct qp *qp, psn_t p, uint8_t code)
{
    struct requester *req = &qp->req;

    counter_inc(&qp->counters.rnr_nak_rcvd);
    if (qp->attr.rnr_retry != 7) { /* 7: for ever */
        if (!req->rnr_left) {
            counter_inc(&qp->counters.rnr_retry_exceeded);
            comp_refused(e, qp, p, WC_RNR_RETRY_EXC_ERR);
            return;
        }
        req->rnr_left--;
    }
    req_seek(qp, p);
    req->rnr_wait = true;
    timer_arm(&e->wheel, &qp->timer, e->now + rnr_delay(code), e->now);
}

static void comp_aeth(struct engine *e, struct qp *qp, const struct pkt *p)
{
    uint8_t class = p->aeth.syndrome & AETH_CLASS_MASK;
    uint8_t value = p->aeth.syndrome & AETH_VALUE_MASK;

    if (class == AETH_ACK) {
        comp_ack_before(e, qp, psn_add(p->psn, 1));
        return;
    }
    /* Both kinds of NAK acknowledge what came before them. */
    if (!comp_ack_before(e, qp, p->psn))
        return;
    note(e, qp, TRACE_NAK, p->aeth.syndrome, p->psn.v);
    if (class == AETH_RNR && !qp->req.rnr_wait)
        comp_rnr(e, qp, p->psn, value);
    else if (class == AETH_NAK)
        comp_nak(e, qp, p->psn, value);
}

void comp_rx(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct requester *req = &qp->req;

    if (qp->state != QPS_RTS && qp->state != QPS_SQD)
        return;
    /* Only what is in flight can be answered; all else is a ghost of an earlier answer (9.7.5.1.4).
     */
    if (psn_before(p->psn, req->una) || !psn_before(p->psn, req->max_psn))
        return;
    req->stalls = 0; /* whatever it says, it came: the paths are good */
    switch (pkt_info(p)->kind) {
    case KIND_ACK:
        comp_aeth(e, qp, p);
        break;
    case KIND_READ_RESPONSE:
        comp_read(e, qp, job);
        break;
    default:
        comp_atomic(e, qp, job);
        break;
    }
}
