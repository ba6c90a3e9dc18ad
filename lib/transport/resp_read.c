/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responses to READs, as many in one go as may be sent: those that read_reply of resp_reply.c would
 * build one by one from memory that is mapped, in the same order. The region is looked up once for
 * a run; headers are the same for responses of one kind and size. Whatever else a reply may be ends
 * the run, with nothing done about it.
 */
#include "grant.h"
#include "mem_memcpy.h"
#include "tx_head.h"

#define NO_SHAPE 0 /* no response has this opcode and length */

struct replies {
    struct tx_head head;
    uint32_t shape; /* opcode and length of those with this head */
    struct grant grant;
    uint32_t at, left; /* where the next resource is, and how many there are from there on */
};

static bool may_reply(const struct engine *e, const struct qp *qp)
{
    return e->sealed == e->jobs && qp->service == PKT_RC && qp_can_receive(qp) && !qp->fault &&
           qp->resp.res_pending;
}

/* The next resource whose reply waits; the older ones' do not. */
static struct resp_resource *next_waiting(const struct responder *resp, struct replies *t)
{
    while (t->left) {
        struct resp_resource *r = &resp->res[t->at];

        t->left--;
        t->at = t->at + 1 < resp->res_max ? t->at + 1 : 0;
        if (r->pending)
            return r;
    }
    return NULL;
}

/* Where the payload of the next response is; NULL: none, or it is not that simple. */
static const uint8_t *source(struct engine *e, struct qp *qp, struct replies *t,
                             const struct resp_resource *r, uint32_t off, uint32_t len)
{
    if (!len || r->kind != KIND_READ_REQUEST || r->pd != qp->pd)
        return NULL;
    if (unlikely(r->rkey != t->grant.key))
        t->grant = grant_find(e, qp, &qp->resp.read_hint, r->rkey, MEM_REMOTE_READ);
    return grant_place(&t->grant, r->va + off, len);
}

static void put_payload(uint8_t *to, const uint8_t *from, uint32_t len)
{
    memset(to + len, 0, ICRC_LEN); /* the pad, and more */
    mem_memcpy(to, from, len);
}

/* The next response of r into frames[i]. */
static bool respond(struct engine *e, struct qp *qp, struct replies *t, struct resp_resource *r,
                    struct frame *frames, unsigned i)
{
    uint32_t off = r->next * qp->mtu, len = min_of(r->len - off, qp->mtu);
    uint32_t opcode = OPCODE(PKT_RC, resp_read_op(r)), shape = opcode << 24 | len;
    const uint8_t *from = source(e, qp, t, r, off, len);
    uint8_t *next;

    if (!from)
        return false;
    if (unlikely(shape != t->shape)) {
        tx_head_seal(e, qp, &t->head, frames, i);
        tx_head_make(e, qp, &t->head, opcode << 24 | pkt_pad(len) << 20 | PKEY_DEFAULT,
                     (uint32_t)pkt_len((uint8_t)opcode, len));
        t->head.first = i;
        t->shape = shape;
    }
    next = tx_head_put(&t->head, qp, &frames[i], psn_add(r->first, r->next).v);
    if (opcode != OPCODE(PKT_RC, OP_READ_RESP_MIDDLE)) {
        put_be32(next, AETH_ACK_PLAIN << 24 | (r->msn & PSN_MASK));
        next += 4;
    }
    if (len >= SOURCE_MIN)
        tx_head_seal_copy(e, qp, &t->head, &frames[i], from, len);
    else
        put_payload(next, from, len);
    if (++r->next == r->packets)
        resp_finish_reply(&qp->resp, r);
    return true;
}

unsigned resp_read(struct engine *e, struct qp *qp, struct frame *frames, unsigned n, bool turn)
{
    const struct responder *resp = &qp->resp;
    struct replies t = {.shape = NO_SHAPE};
    struct resp_resource *r = NULL;
    unsigned i;

    if (!may_reply(e, qp))
        return 0;
    t.left = min_of(resp->res_max, resp->res_head);
    t.at = (resp->res_head - t.left) % resp->res_max;
    for (i = 0; i < n; i++) {
        if (!r || !r->pending)
            r = next_waiting(resp, &t);
        if (!r || (turn && i && r->packets > 1) || !respond(e, qp, &t, r, frames, i))
            break;
    }
    tx_head_seal(e, qp, &t.head, frames, i);
    e->sealed += i;
    return i;
}
