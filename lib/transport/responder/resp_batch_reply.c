/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responses to READs, results of atomics, and answers to ATOMIC WRITEs and FLUSHes, as many at a
 * time as may be sent: those that resp_reply.c would build one by one, READs from mapped memory, in
 * the same order. The region is
 * looked up once for many; headers are the same for responses of one opcode and length. Any other
 * reply ends the batch, untouched.
 */
#include "count.h"
#include "mem_memcpy.h"
#include "mr_grant.h"
#include "responder.h"
#include "tx_header.h"

#define NO_SHAPE 0 /* no response has this operation and length */

struct reply_batch {
    struct tx_header header;
    uint32_t shape; /* operation and length of the responses with this header */
    struct mr_grant grant;
    uint32_t pd;          /* that the grant is of */
    struct mr_hint *hint; /* of that domain */
    struct mr_hint own;   /* with XRC */
    uint32_t at, left;    /* the next resource, and how many there are from there on */
};

/* The next resource whose reply is pending; none of the older ones is. */
static struct resp_resource *next_pending(const struct responder *resp, struct reply_batch *b)
{
    while (b->left) {
        struct resp_resource *r = &resp->res[b->at];

        b->left--;
        b->at = b->at + 1 < resp->res_max ? b->at + 1 : 0;
        if (r->pending)
            return r;
    }
    return NULL;
}

static __attribute__((noinline)) void change_domain(struct reply_batch *b, uint32_t pd)
{
    b->grant = (struct mr_grant){.direct = NULL};
    b->own.mr = NULL;
    b->hint = &b->own;
    b->pd = pd;
}

/* The payload of the next response; NULL: none, or not that simple. */
static const uint8_t *reply_payload(struct engine *e, struct qp *qp, struct reply_batch *b,
                                    const struct resp_resource *r, uint32_t off, uint32_t len)
{
    if (!len)
        return NULL;
    if (unlikely(r->pd != b->pd))
        change_domain(b, r->pd);
    return mr_grant_lookup(e, b->pd, &b->grant, b->hint, r->rkey, MEM_REMOTE_READ, r->va + off,
                           len);
}

static void copy_payload(uint8_t *to, const uint8_t *from, uint32_t len)
{
    memset(to + len, 0, ICRC_LEN); /* the pad, and more */
    mem_memcpy(to, from, len);
}

/* The headers of responses of this shape, from frames[i] on; those before are sealed. */
static __attribute__((noinline)) void start_shape(struct engine *e, struct qp *qp,
                                                  struct reply_batch *b, uint32_t shape,
                                                  const struct frame *frames, unsigned i)
{
    uint8_t opcode = OPCODE(qp->service, (uint8_t)(shape >> 24));
    uint32_t len = shape & 0xFFFFFF;

    tx_header_seal(e, qp, &qp->encap, &b->header, frames, i);
    tx_header_make(e, &qp->encap, qp->dest_qpn, &b->header, bth_first_word(opcode, 0, pkt_pad(len)),
                   (uint32_t)pkt_len(opcode, len));
    b->header.first = i;
    b->shape = shape;
}

/* Builds the answer of an atomic, an ATOMIC WRITE or a FLUSH into frames[i]; the last two get an
 * empty READ response (A19.4). False: r is a READ. */
static __attribute__((noinline)) bool build_result(struct engine *e, struct qp *qp,
                                                   struct reply_batch *b, struct resp_resource *r,
                                                   struct frame *frames, unsigned i)
{
    bool has_result = r->kind == KIND_CMP_SWP || r->kind == KIND_FETCH_ADD;
    uint32_t shape = (uint32_t)(has_result ? OP_ATOMIC_ACK : OP_READ_RESP_ONLY) << 24;
    uint8_t *aeth;

    if (r->kind == KIND_READ_REQUEST)
        return false;
    if (unlikely(shape != b->shape))
        start_shape(e, qp, b, shape, frames, i);
    aeth = tx_header_put(&b->header, qp->encap.len, &frames[i], r->first.v);
    aeth_put(aeth, AETH_ACK_PLAIN, r->msn);
    if (has_result)
        atomic_ack_put(aeth + AETH_LEN, r->original);
    resp_finish_reply(&qp->resp, r);
    return true;
}

/* Builds the next response of r into frames[i]. */
static bool build_response(struct engine *e, struct qp *qp, struct reply_batch *b,
                           struct resp_resource *r, struct frame *frames, unsigned i)
{
    uint32_t off = r->next * qp->mtu, len = min_of(r->len - off, qp->mtu);
    uint8_t op = resp_read_op(r);
    uint32_t shape = (uint32_t)op << 24 | len;
    const uint8_t *from = reply_payload(e, qp, b, r, off, len);
    uint8_t *next;

    if (unlikely(!from))
        return build_result(e, qp, b, r, frames, i);
    if (unlikely(shape != b->shape))
        start_shape(e, qp, b, shape, frames, i);
    next = tx_header_put(&b->header, qp->encap.len, &frames[i], psn_add(r->first, r->next).v);
    if (op != OP_READ_RESP_MIDDLE) {
        aeth_put(next, AETH_ACK_PLAIN, r->msn);
        next += AETH_LEN;
    }
    if (len >= TX_COPY_LATE_MIN)
        tx_header_seal_copy(e, qp, &qp->encap, &b->header, &frames[i], from, len);
    else
        copy_payload(next, from, len);
    if (++r->next == r->packets)
        resp_finish_reply(&qp->resp, r);
    return true;
}

NO_STACK_PROTECTOR static __attribute__((noinline)) unsigned
batch_replies(struct engine *e, struct qp *qp, struct frame *frames, unsigned n, bool one_of_many)
{
    const struct responder *resp = &qp->resp;
    struct reply_batch b;
    struct resp_resource *r = NULL;
    unsigned i;

    if (e->sealed != e->jobs || !qp_is_reliable(qp) || !resp->res_pending || unlikely(resp->urgent))
        return 0;
    b.shape = NO_SHAPE;
    b.header.first = 0;
    b.grant = (struct mr_grant){.direct = NULL};
    b.pd = qp->pd;
    b.hint = &qp->resp.read_hint;
    b.left = resp_pending_span(resp);
    b.at = (resp->res_head - b.left) % resp->res_max;
    for (i = 0; i < n; i++) {
        if (!r || !r->pending)
            r = next_pending(resp, &b);
        if (!r || (one_of_many && i && r->packets > 1) || !build_response(e, qp, &b, r, frames, i))
            break;
    }
    tx_header_seal(e, qp, &qp->encap, &b.header, frames, i);
    e->sealed += i;
    return i;
}

/* READs that are answered in order: those before the first that is not. */
static __attribute__((noinline)) unsigned
counted_replies(struct engine *e, struct qp *qp, struct frame *frames, unsigned n, bool one_of_many)
{
    struct responder *resp = &qp->resp;
    uint32_t span = resp_pending_span(resp), first = resp->res_head - span;

    n = batch_replies(e, qp, frames, n, one_of_many);
    /* All that was built before a batch is sealed. Without one the bytes of some may not be there.
     */
    for (uint32_t i = 0; n && i < span; i++) {
        struct resp_resource *r = &resp->res[(first + i) % resp->res_max];

        if (r->pending)
            break;
        count_read(e, qp, r);
    }
    return n;
}

unsigned resp_batch_replies(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                            bool one_of_many)
{
    if (counts(qp, QP_COUNT_PEER_READ))
        return counted_replies(e, qp, frames, n, one_of_many);
    return batch_replies(e, qp, frames, n, one_of_many);
}
