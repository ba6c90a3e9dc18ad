/* SPDX-License-Identifier: BSD-3-Clause */
/* The completer's door: an answer is sorted by its kind. */
#include "completer.h"
#include "req_credit.h"
#include "rx_batch.h"

static void comp_aeth(struct engine *e, struct qp *qp, const struct pkt *p)
{
    uint8_t class = p->aeth.syndrome & AETH_CLASS_MASK;
    uint8_t value = p->aeth.syndrome & AETH_VALUE_MASK;
    bool acked, refused = class == AETH_NAK && value != NAK_PSN_SEQUENCE;

    if (class == AETH_ACK) {
        comp_ack_before(e, qp, psn_add(p->psn, 1));
        if (unlikely(p->payload_len))
            comp_report(e, qp, p);
        if (unlikely(value != AETH_CREDIT_NONE || qp->req.has_credits))
            req_take_credit(&qp->req, value);
        return;
    }
    if (unlikely(p->payload_len)) {
        comp_map(e, qp, p);
        return;
    }
    /* Both kinds of NAK acknowledge what came before them. */
    qp->req.recovery.nak_follows = true;
    acked = comp_ack_before(e, qp, p->psn);
    qp->req.recovery.nak_follows = false;
    /* A response that is lost is asked for again, and a NAK that tells what is missing, or that the
     * peer is not ready, comes again with it. One that ends the connection comes once. */
    if (!acked && !refused)
        return;
    note(e, qp, TRACE_NAK, p->aeth.syndrome, p->psn.v);
    if (class == AETH_RNR && !qp->req.rnr_wait)
        comp_rnr_nak(e, qp, p->psn, value);
    else if (class == AETH_NAK)
        comp_nak(e, qp, p->psn, value);
}

void comp_rx(struct engine *e, struct qp *qp, unsigned job, uint16_t sport)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct requester *req = &qp->req;

    if (!qp_can_request(qp))
        return;
    /* Only what is in flight can be answered; anything else is a stale duplicate (9.7.5.1.4).
     */
    if (psn_before(p->psn, req->una) || !psn_before(p->psn, req->max_psn)) {
        if (unlikely(p->payload_len) && pkt_info(p)->kind == KIND_ACK && sport == req->peer_sport)
            comp_report(e, qp, p); /* which is about what is in flight */
        return;
    }
    if (unlikely(sport != req->peer_sport) && !comp_source_moved(qp, p, sport))
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

/* recognise_ack of rx_batch.c has recognised it. */
unsigned comp_place_ack(struct rx_batch *b, unsigned n)
{
    struct pkt *p = &b->e->rx_job[b->job].pkt;
    const uint8_t *bth = b->span[0].bth, *aeth = bth + BTH_LEN;

    p->opcode = bth_opcode(bth);
    p->psn = bth_psn(bth);
    p->aeth.syndrome = aeth_syndrome(aeth);
    p->aeth.msn = aeth_msn(aeth);
    p->payload_len = 0;
    comp_rx(b->e, b->qp, b->job, hdr_template_sport(bth));
    return n;
}
