/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes READ requests that have been judged, one or a batch: each gets its resource, and is
 * answered later (resp_reply.c, resp_batch_reply.c). A batch is of mapped memory.
 */
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"

void resp_read(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct resp_resource *r =
        resp_open_resource(qp, KIND_READ_REQUEST, p->psn, packets_for(p->reth.len, qp->mtu));

    r->va = p->reth.va;
    r->rkey = p->reth.rkey;
    r->pd = resp_domain(e, qp, job);
    r->len = r->all_len = p->reth.len;
}

/* ---- a batch ---- */

unsigned resp_admit_reads(struct rx_batch *b, unsigned n)
{
    const struct responder *resp = &b->qp->resp;

    if (!resp_right_ok(b->qp, MEM_REMOTE_READ) || !resp_order_ok(resp, PF_START, RESP_IDLE))
        return 0;
    return min_of(n, resp->res_max);
}

/* Whether all that is asked for may be read (9.7.4.1.7). */
static bool may_read(struct rx_batch *b, struct mr_grant *g, const uint8_t *reth)
{
    return resp_read_len_ok(reth_len(reth)) &&
           (rx_batch_lookup(b, g, &b->qp->resp.read_hint, reth_rkey(reth), MEM_REMOTE_READ,
                            reth_va(reth), reth_len(reth)) ||
            mr_grant_covers(g, reth_va(reth), reth_len(reth)));
}

unsigned resp_place_reads(struct rx_batch *b, unsigned n)
{
    struct qp *qp = b->qp;
    struct responder *resp = &qp->resp;
    struct mr_grant g = {.direct = NULL};
    uint32_t at = resp_next_resource(resp);
    psn_t next = resp->epsn;
    unsigned i;

    for (i = 0; i < n; i++) {
        const uint8_t *reth = rx_batch_eth(b, &b->span[i]);
        struct resp_resource *r = &resp->res[at];
        uint32_t packets, len = reth_len(reth);

        /* Stricter than resp_resource_ok: resp_commit_reads counts each resource as newly pending,
         * so the general path replaces one whose reply is being repeated. */
        if (r->pending || !may_read(b, &g, reth))
            break;
        packets = packets_for(len, qp->mtu);
        *r = (struct resp_resource){
            .kind = KIND_READ_REQUEST,
            .pending = true,
            .first = next,
            .packets = packets,
            .all = packets,
            .va = reth_va(reth),
            .rkey = reth_rkey(reth),
            .pd = rx_batch_pd(b),
            .len = len,
            .all_len = len,
            .msn = resp->msn + i + 1,
        };
        next = psn_add(next, packets);
        at = at + 1 < resp->res_max ? at + 1 : 0;
    }
    b->next = next;
    return i;
}

void resp_commit_read_batch(struct rx_batch *b, unsigned n)
{
    resp_commit_reads(b->e, b->qp, n, b->next);
}
