/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that were trimmed on their way: requests, as the peer's maps of losses say, and responses
 * to READs, whose headers came here. Each is sent again, or asked for again, at once.
 *
 * The headers of a response have no ICRC: all that is believed is that this response is lost.
 * Responses before it may yet come: the headers overtook them.
 */
#include "completer.h"
#include "req_commit.h"
#include "req_recovery.h"
#include "req_sack.h"

/* ---- the peer has agreed on maps ---- */

static void take_losses(struct engine *e, struct qp *qp, const struct kept_map *m)
{
    bool any = false, first = false;

    for (uint32_t i = 0; i < KEPT_MAP_PACKETS; i++) {
        psn_t p = psn_add(m->first, i);

        if (!(m->bits[i / 64] >> i % 64 & 1) || !req_sack_lose(e, qp, p))
            continue;
        any = true;
        first |= psn_eq(p, qp->req.una);
    }
    if (any && (!first || comp_may_retry(e, qp, qp->req.una)))
        req_resend_lost(e, qp);
}

void comp_losses(struct engine *e, struct qp *qp, const struct kept_map *m)
{
    struct requester *req = &qp->req;

    if (kept_map_is_empty(m) || !req_sack_open(e, qp))
        return;
    req_sack_requests(qp, m->first);
    comp_absorb(e, qp);
    if (psn_before(req->una, req->max_psn) && req_sack_open(e, qp))
        take_losses(e, qp, m);
}

/* ---- responses ---- */

static void take_response_loss(struct engine *e, struct qp *qp, psn_t p)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;

    if (sack_is_agreed(qp) && req_sack_open(e, qp)) {
        if (req_sack_lose(e, qp, p) && (!psn_eq(p, req->una) || comp_may_retry(e, qp, req->una)))
            req_resend_lost(e, qp);
    } else if (psn_eq(p, req->una)) {
        comp_ask_again(e, qp);
    } else if (!r->has_trimmed || psn_before(p, r->trimmed)) {
        r->trimmed = p;
        r->has_trimmed = req->recovering = true;
    }
}

void comp_trimmed(struct engine *e, struct qp *qp, const struct pkt *p)
{
    struct requester *req = &qp->req;
    const struct send_slot *s;
    uint32_t count;

    if (pkt_info(p)->kind != KIND_READ_RESPONSE || !qp_can_request(qp) || req->rnr_wait ||
        psn_before(p->psn, req->una) || !psn_before(p->psn, req->max_psn))
        return;
    s = comp_slot(qp, p->psn, &count);
    if (s && s->status == WC_SUCCESS && s->wqe.h.opcode == SQE_READ)
        take_response_loss(e, qp, p->psn);
}
