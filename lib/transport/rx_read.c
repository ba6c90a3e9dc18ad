/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of READs and of their responses. Of the responses each is the next one of the oldest READ
 * that is not complete, as long as this one needs it, and goes to one place in mapped memory. The
 * steps of comp_rx and comp_read, but for those that find nothing in such a packet; what they mean
 * for the requester is written once for the run. Of the requests each is one that resp_check would
 * pass, for mapped memory; it gets its resource as by execute_read, and is answered later.
 */
#include "rx_run.h"

bool rx_read_waits(const struct qp *qp)
{
    return (qp->state == QPS_RTS || qp->state == QPS_SQD) && qp->req.rd_outstanding;
}

/* The count of the oldest slot that is not acknowledged as a whole. Those before `send` were sent.
 */
static uint32_t oldest(const struct requester *req)
{
    uint32_t i = req->tail;

    while (i != req->send && psn_before(slot_last(slot_at(req, i)), req->una))
        i++;
    return i;
}

/* Whether response p is the next one of s. */
static bool awaits(const struct send_slot *s, psn_t p)
{
    return s->started && s->status == WC_SUCCESS && s->wqe.h.opcode == SQE_READ &&
           psn_eq(psn_add(s->first, s->done), p);
}

/* Where the next response goes, if that is one piece of mapped memory. */
static uint8_t *place_for(const struct run *r, struct grant *g, const struct send_slot *s,
                          uint32_t len)
{
    const struct sge *sge = s->wqe.sge, *end = sge + s->wqe.h.num_sge;
    uint32_t off = s->done * r->qp->mtu;

    for (; sge != end && off >= sge->length; sge++)
        off -= sge->length;
    if (sge == end || sge->length - off < len)
        return NULL;
    if (unlikely(sge->lkey != g->key))
        *g = grant_find(r->e, r->qp, &r->qp->resp.recv_hint, sge->lkey, MEM_LOCAL_WRITE);
    return grant_place(g, sge->addr + off, len);
}

/* Its next response; false, and nothing was done: it is not as it should be, or not that simple. */
static bool take_response(const struct run *r, struct grant *g, struct send_slot *s,
                          const uint8_t *bth, uint32_t len)
{
    const struct opcode_info *info = &opcode_table[bth[0]];
    bool last = s->done + 1 == s->packets;
    uint8_t *to;

    if (last != !!(info->flags & PF_END) ||
        len != (last ? s->len - s->done * r->qp->mtu : r->qp->mtu))
        return false;
    to = place_for(r, g, s, len);
    if (!to)
        return false;
    put(to, bth + info->header_len, len);
    s->done++;
    return true;
}

unsigned rx_read_responses(struct run *r, unsigned n)
{
    struct requester *req = &r->qp->req;
    struct grant g = {.direct = NULL};
    uint32_t at = oldest(req);
    unsigned i;

    for (i = 0; i < n && at != req->send; i++) {
        struct send_slot *s = slot_at(req, at);

        if (!awaits(s, psn_add(req->una, i)) ||
            !take_response(r, &g, s, r->span[i].l3 + (BTH - ETH_LEN), r->span[i].size.own))
            break;
        if (s->done != s->packets)
            continue;
        at++;
        req->rd_outstanding -= req->rd_outstanding > 0;
    }
    if (!i)
        return 0;
    req->stalls = 0;
    comp_progress(r->e, r->qp, psn_add(req->una, i));
    return i;
}

/* ---- requests ---- */

unsigned rx_read_room(const struct qp *qp, unsigned n)
{
    const struct responder *resp = &qp->resp;

    if (!(qp->access & MEM_REMOTE_READ) || resp->op != RESP_IDLE)
        return 0;
    return min_of(n, resp->res_max);
}

/* Whether all that is asked for may be read, and is mapped. */
static bool may_read(const struct run *r, struct grant *g, const uint8_t *reth)
{
    uint32_t key = get_be32(reth + 8), len = get_be32(reth + 12);

    if (len > MESSAGE_MAX)
        return false;
    if (unlikely(key != g->key))
        *g = grant_find(r->e, r->qp, &r->qp->resp.read_hint, key, MEM_REMOTE_READ);
    return grant_place(g, get_be64(reth), len);
}

static struct resp_resource resource_for(const struct run *r, const uint8_t *bth)
{
    const uint8_t *reth = bth + BTH_LEN;

    return (struct resp_resource){
        .kind = KIND_READ_REQUEST,
        .pending = true,
        .first = psn(get_be24(bth + 9)),
        .packets = packets_for(get_be32(reth + 12), r->qp->mtu),
        .va = get_be64(reth),
        .rkey = get_be32(reth + 8),
        .pd = r->qp->pd,
        .len = get_be32(reth + 12),
        .msn = r->qp->resp.msn,
    };
}

unsigned rx_read_requests(struct run *r, unsigned n)
{
    struct responder *resp = &r->qp->resp;
    struct grant g = {.direct = NULL};
    uint32_t at = resp->res_head % resp->res_max;
    unsigned i;

    for (i = 0; i < n; i++) {
        const uint8_t *bth = r->span[i].l3 + (BTH - ETH_LEN);
        struct resp_resource *res = &resp->res[at];

        if (res->pending || !may_read(r, &g, bth + BTH_LEN))
            break;
        resp->msn++;
        *res = resource_for(r, bth);
        resp->epsn = psn_add(res->first, res->packets);
        at = at + 1 < resp->res_max ? at + 1 : 0;
    }
    if (!i)
        return 0;
    resp_resources_taken(resp, i);
    resp->res_pending += i;
    resp->nak_sent = resp->ack_pending = false; /* the responses acknowledge what came before */
    engine_tx_ready(r->e, r->qp);
    return i;
}
