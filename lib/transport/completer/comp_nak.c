/* SPDX-License-Identifier: BSD-3-Clause */
/* Refusals: NAKs and RNR NAKs (9.7.5.2). */
#include "completer.h"
#include "req_commit.h"
#include "req_recovery.h"
#include "req_sack.h"

/*
 * A responder sends one NAK for each gap (9.7.5.2): a second one for the same PSN is a copy that
 * the network made, or a forgery. What it asks for waits to be sent (as it does after an RNR NAK),
 * or has been; if that is lost, the timer tells. Without a timer a NAK is believed again once the
 * packet has been sent again. So it is where switches trim: the responder tells of each copy that
 * was, and a copy takes half a round trip at least.
 */
static bool tells_of_copies(const struct engine *e, const struct qp *qp)
{
    const struct req_recovery *r = &qp->req.recovery;

    return !qp->ack_timeout || (e->cfg.trim_dscp && e->now - r->told_at >= r->rtt_min / 2);
}

static bool is_copy(const struct engine *e, const struct qp *qp, psn_t p)
{
    const struct requester *req = &qp->req;

    return psn_eq(req->next_psn, p) || (req->nak_taken && !tells_of_copies(e, qp));
}

static void go_back(struct engine *e, struct qp *qp, psn_t p)
{
    if (is_copy(e, qp, p) || !comp_may_retry(e, qp, p))
        return;
    qp->req.recovery.told_at = e->now;
    qp->req.nak_taken = qp->req.recovering = true;
    if (e->cfg.trim_dscp)
        req_start_slowly(qp);
    req_end_probes(e, qp);
    req_send_missing(e, qp, p);
}

void comp_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t code)
{
    static const uint8_t status[] = {
        [NAK_INVALID_REQUEST] = WC_REM_INV_REQ_ERR,
        [NAK_REMOTE_ACCESS] = WC_REM_ACCESS_ERR,
        [NAK_REMOTE_OPERATIONAL] = WC_REM_OP_ERR,
    };

    if (code == NAK_PSN_SEQUENCE) {
        if (!sack_is_agreed(qp))
            go_back(e, qp, p);
        else if (!is_copy(e, qp, p))
            req_await_map(e, qp);
    } else if (code < ARRAY_SIZE(status)) {
        comp_refused(e, qp, p, status[code]);
    }
}

/* The peer has no room: as any other peer, it is sent all again. */
static void keeps_nothing(struct engine *e, struct qp *qp, psn_t p)
{
    if (!comp_ack_before(e, qp, p))
        return;
    req_sack_abandon(qp);
    go_back(e, qp, p);
}

static void take_map(struct engine *e, struct qp *qp, const struct kept_map *m)
{
    struct requester *req = &qp->req;
    bool was_lost = sack_is_lost(qp, req->una), news;

    req_sack_duplicates(e, qp, m->duplicates);
    req_sack_requests(qp, m->first);
    news = req_sack_take_map(qp, m);
    comp_absorb(e, qp);
    if (!req->sack)
        return;
    req_lose(e, qp, news);
    if (!was_lost && sack_is_lost(qp, req->una))
        comp_may_retry(e, qp, req->una);
}

void comp_map(struct engine *e, struct qp *qp, const struct pkt *p)
{
    struct requester *req = &qp->req;
    struct kept_map m;

    kept_map_parse(&m, p->payload, p->payload_len);
    if ((p->aeth.syndrome & AETH_CLASS_MASK) != AETH_NAK || !sack_is_agreed(qp) ||
        !psn_eq(m.first, p->psn) || req->rnr_wait)
        return;
    if ((p->aeth.syndrome & AETH_VALUE_MASK) == NAK_LOSSES)
        comp_losses(e, qp, &m);
    if ((p->aeth.syndrome & AETH_VALUE_MASK) != NAK_PSN_SEQUENCE)
        return;
    req->recovery.has_maps = true;
    req->recovery.awaits_map = false;
    req->ask_every = max_of(req->window_max / ASKS_WHEN_LOST, 1u);
    if (kept_map_is_empty(&m) || !req_sack_open(e, qp))
        keeps_nothing(e, qp, p->psn);
    else
        take_map(e, qp, &m);
}

void comp_report(struct engine *e, struct qp *qp, const struct pkt *p)
{
    struct requester *req = &qp->req;
    struct kept_map m;

    if ((p->aeth.syndrome & AETH_CLASS_MASK) != AETH_ACK)
        return;
    req->recovery.has_maps = true;
    kept_map_parse(&m, p->payload, p->payload_len);
    if (!sack_is_agreed(qp) || !req->rd_outstanding || req->rnr_wait ||
        !psn_before(req->una, m.first) || psn_before(req->max_psn, m.first) ||
        !req_sack_open(e, qp))
        return;
    req_sack_requests(qp, m.first);
    comp_absorb(e, qp);
    if (req->sack)
        req_lose(e, qp, true);
}

/* Table 45 of 9.7.5.2.8: code -> time, in units of 10 us. */
static ns_t rnr_delay(uint8_t code)
{
    static const uint32_t units[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

    return (ns_t)units[code] * 10 * NS_PER_US;
}

void comp_rnr_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t code)
{
    struct requester *req = &qp->req;

    counter_inc(&qp->counters.rnr_nak_rcvd);
    if (qp->attr.rnr_retry != 7) { /* 7: for ever */
        if (req->rnr_retries >= qp->attr.rnr_retry) {
            counter_inc(&qp->counters.rnr_retry_exceeded);
            comp_refused(e, qp, p, WC_RNR_RETRY_EXC_ERR);
            return;
        }
        req->rnr_retries++;
    }
    req_sack_abandon(qp);
    req_rewind(qp, p);
    req->rnr_wait = req->recovering = true;
    req_end_probes(e, qp);
    timer_arm(&e->wheel, &qp->timer, TIMER_RNR, e->now + rnr_delay(code), e->now);
}
