/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request arrived without its payload: it is lost, and the peer is told at once.
 *
 * A switch forwards what it trims before what waits in its queues, so requests before this one may
 * yet arrive. A peer that has agreed on maps is told of this one alone, by a map of losses. To any
 * other a NAK names the expected request, and asks for all from there on: it is sent when the
 * expected request is the one that is lost. Until then a store (resp_store.h) remembers that, or,
 * where none is free, one of the engine's watches, which has room for the first loss of a queue
 * pair: all behind that will be sent again. Copies that are trimmed again are told of again.
 */
#include "resp_map.h"
#include "resp_store.h"
#include "responder.h"

static bool nak_waits(const struct responder *resp)
{
    return resp->ack_pending && resp->syndrome == (AETH_NAK | NAK_PSN_SEQUENCE);
}

/* The expected request is lost, and what follows is not kept, or the peer cannot be told of it. */
static void tell_all(struct engine *e, struct qp *qp)
{
    if (!nak_waits(&qp->resp))
        resp_fault(e, qp, FAULT_PSN_SEQUENCE, qp->resp.epsn);
    resp_owe_map(e, qp);
}

void resp_trimmed(struct engine *e, struct qp *qp, const struct pkt *p)
{
    struct responder *resp = &qp->resp;
    int32_t ahead = psn_diff(p->psn, resp->epsn);

    if (ahead < 0) { /* a copy of what was executed: that is what its sender does not know */
        resp_ack_again(e, qp, p);
        return;
    }
    /* After a refusal all comes again; what is kept need not come. */
    if (kept_is_refused(resp) || (!ahead && resp_has_next(qp)))
        return;
    if (!qp->selective && !ahead)
        tell_all(e, qp);
    else if (resp_note_loss(e, qp, p->psn, ahead))
        resp_owe_losses(e, qp);
    else if (!ahead)
        tell_all(e, qp);
    else if (ahead < RESP_STORE_PACKETS)
        resp_watch(e, qp, p->psn);
}

void resp_tell_loss(struct engine *e, struct qp *qp)
{
    struct resp_store *s = qp->resp.store;

    if (!s || qp->selective || qp->fault || !resp_take_loss(s, qp->resp.epsn) || qp->resp.nak_sent)
        return;
    resp_fault(e, qp, FAULT_PSN_SEQUENCE, qp->resp.epsn);
}

void resp_tell_losses(struct engine *e)
{
    for (unsigned i = e->watches; i-- > 0;) {
        struct qp *qp = e->watch[i].qp;
        bool here = psn_eq(qp->resp.epsn, e->watch[i].lost);

        if (psn_before(qp->resp.epsn, e->watch[i].lost))
            continue;
        resp_watch_no_more(qp);
        if (here && qp_can_receive(qp) && !qp->fault && !qp->resp.nak_sent && !resp_has_next(qp))
            tell_all(e, qp);
    }
}
