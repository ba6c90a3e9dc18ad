/* SPDX-License-Identifier: BSD-3-Clause */
/* Refusals: NAKs and RNR NAKs (9.7.5.2). */
#include "completer.h"
#include "req_commit.h"
#include "req_recovery.h"

/* The peer refused the work request at p: it completes with the reason, when its turn comes. */
static void refused(struct engine *e, struct qp *qp, psn_t p, uint8_t status)
{
    uint32_t count;
    struct send_slot *s = comp_slot(qp, p, &count);

    if (s)
        s->status = status;
    engine_touch(e, qp);
}

/*
 * A responder sends one NAK for each gap (9.7.5.2): a second one for the same PSN is a copy that
 * the network made, or a forgery. What it asks for waits to be sent (as it does after an RNR NAK),
 * or has been; if that is lost, the timer tells. Without a timer a NAK is believed again once the
 * packet has been sent again.
 */
static bool is_copy(const struct qp *qp, psn_t p)
{
    const struct requester *req = &qp->req;

    return psn_eq(req->next_psn, p) || (req->nak_taken && qp->ack_timeout);
}

void comp_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t code)
{
    static const uint8_t status[] = {
        [NAK_INVALID_REQUEST] = WC_REM_INV_REQ_ERR,
        [NAK_REMOTE_ACCESS] = WC_REM_ACCESS_ERR,
        [NAK_REMOTE_OPERATIONAL] = WC_REM_OP_ERR,
    };
    struct requester *req = &qp->req;

    if (code == NAK_PSN_SEQUENCE) {
        if (is_copy(qp, p))
            return;
        counter_inc(&qp->counters.seq_nak_rcvd);
        if (!req->retry_left) {
            counter_inc(&qp->counters.retry_exceeded);
            refused(e, qp, p, WC_RETRY_EXC_ERR);
            return;
        }
        req->retry_left--;
        req->nak_taken = req->recovering = true;
        req_end_probes(qp);
        req_send_missing(e, qp, p);
    } else if (code < ARRAY_SIZE(status)) {
        refused(e, qp, p, status[code]);
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

void comp_rnr_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t code)
{
    struct requester *req = &qp->req;

    counter_inc(&qp->counters.rnr_nak_rcvd);
    if (qp->attr.rnr_retry != 7) { /* 7: for ever */
        if (!req->rnr_retry_left) {
            counter_inc(&qp->counters.rnr_retry_exceeded);
            refused(e, qp, p, WC_RNR_RETRY_EXC_ERR);
            return;
        }
        req->rnr_retry_left--;
    }
    req_rewind(qp, p);
    req->rnr_wait = req->recovering = true;
    req_end_probes(qp);
    timer_arm(&e->wheel, &qp->timer, TIMER_RNR, e->now + rnr_delay(code), e->now);
}
