/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that were executed before (9.7.5.1.5): acknowledged again, READs read again, atomics
 * answered from the saved result. Nothing is written twice.
 */
#include "resp_map.h"
#include "resp_repeat.h"
#include "responder.h"
#include "sport.h"

/* The saved READ or atomic whose PSNs include p, or NULL. */
static struct resp_resource *find_resource(struct qp *qp, psn_t p)
{
    struct responder *resp = &qp->resp;
    uint32_t max = resp->res_max;

    for (uint32_t i = 1; i <= max && i <= resp->res_head; i++) {
        struct resp_resource *r = &resp->res[(resp->res_head - i) % max];

        if (psn_within(p, r->first, psn_add(r->first, r->all - 1)))
            return r;
    }
    return NULL;
}

/*
 * A READ may be repeated for any part of it that begins with a packet of the reply; what it asks
 * for is what is checked again, packet by packet. A first reply that has not ended goes on to its
 * end.
 */
static void duplicate_read(struct qp *qp, const struct pkt *p, struct resp_resource *r)
{
    uint32_t packet = (uint32_t)psn_diff(p->psn, r->first), len = p->reth.len;
    uint64_t off = (uint64_t)packet * qp->mtu;

    if (r->kind != KIND_READ_REQUEST || p->reth.va != r->va + off || p->reth.rkey != r->rkey ||
        len > r->all_len - off || (!len && r->all_len))
        return;
    r->len = r->answered ? (uint32_t)off + len : r->all_len;
    r->packets = packets_for(r->len, qp->mtu);
    resp_repeat_reply(&qp->resp, r, packet);
}

/* The last PSN that may be acknowledged in answer to p without claiming that a later READ's
 * response was sent. */
static psn_t ack_psn_for(const struct qp *qp, psn_t p)
{
    const struct responder *resp = &qp->resp;
    uint32_t max = resp->res_max;

    for (uint32_t i = 1; i <= max && i <= resp->res_head; i++)
        if (psn_before(p, resp->res[(resp->res_head - i) % max].first))
            return p;
    return psn_prev(resp->epsn);
}

void resp_ack_again(struct engine *e, struct qp *qp, const struct pkt *p)
{
    if (p->ack_req)
        resp_commit_duplicate_ack(qp, ack_psn_for(qp, p->psn));
    resp_owe_map(e, qp);
    engine_tx_ready(e, qp);
}

void resp_duplicate(struct engine *e, struct qp *qp, const struct pkt *p)
{
    const struct opcode_info *info = pkt_info(p);
    bool is_read = info->kind == KIND_READ_REQUEST;

    counter_inc(&qp->counters.duplicate_request);
    sport_request_repeated(e, qp, p->psn);
    if (kind_has_response(info->kind)) {
        struct resp_resource *r = find_resource(qp, p->psn);

        if (is_read && qp->selective && qp->service == PKT_RC && resp_repeat_add(e, qp, p, r))
            resp_show_map(qp);
        else if (r && is_read)
            duplicate_read(qp, p, r);
        else if (r && r->kind == info->kind && psn_eq(r->first, p->psn))
            resp_repeat_reply(&qp->resp, r, 0);
    } else {
        qp->resp.in_vain++;
        resp_ack_again(e, qp, p);
        return;
    }
    engine_tx_ready(e, qp);
}
