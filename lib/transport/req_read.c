/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * READs into one SGE, as many in one go as may be outstanding. Each is taken as take_slot and
 * req_check take it, and its request is built as req_segment builds it; a retransmission goes their
 * way.
 */
#include "req_run.h"
#include "tx_head.h"

#define READ_MASK (UINT64_C(0xFFFFFF) & ~((uint64_t)SQE_SIGNALED << 8))
#define REQUEST   OPCODE(PKT_RC, OP_READ_REQUEST)
#define RETH_LEN  16

/* Copies an entry without taking it, if it is such a READ. Of its words each is loaded once. */
static bool copy_read(const void *entry, struct send_wqe *w)
{
    const volatile pair *from = entry;
    const volatile uint64_t *sge = entry;
    pair *to = (pair *)&w->h, a = from[0], b = from[1];
    uint64_t addr, len;

    if ((a[1] & READ_MASK) != (ONE_SGE | SQE_READ))
        return false;
    addr = sge[sizeof(struct sqe) / 8];
    len = sge[sizeof(struct sqe) / 8 + 1];
    to[0] = a;
    to[1] = b & (pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    memcpy(w->sge, &addr, sizeof(addr));
    memcpy(&w->sge->length, &len, sizeof(len));
    return w->sge->length <= MESSAGE_MAX;
}

static void put_reth(uint8_t *next, const struct send_wqe *w)
{
    put_be64(next, w->h.remote_addr);
    put_be32(next + 8, w->h.rkey);
    put_be32(next + 12, w->sge->length);
}

/* n were taken; `next` is the PSN behind their responses. */
static void move_on(struct engine *e, struct qp *qp, unsigned n, psn_t next)
{
    struct requester *req = &qp->req;

    req->sq.cons += n;
    req->head += n;
    req->send += n;
    req->rd_outstanding += n;
    req->ack_req = slot_at(req, req->head - 1)->first;
    req->next_psn = req->max_psn = next;
    req_arm_timer(e, qp);
}

/* How many may be outstanding beside those that are. */
static unsigned may_start(const struct qp *qp, unsigned n)
{
    uint32_t max = qp->attr.max_rd_atomic, now = qp->req.rd_outstanding;

    return now < max ? min_of(n, max - now) : 0;
}

unsigned req_reads(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    const struct requester *req = &qp->req;
    struct place entry = place_in(req->sq.ring, req->sq.size, req->sq.stride, req->sq.cons);
    struct place slot = place_in(req->slots, req->slot_count, req->slot_stride, req->head);
    struct tx_head head = {.first = 0};
    struct source into = {0};
    psn_t p = req->next_psn;
    unsigned i;

    n = may_start(qp, n);
    for (i = 0; i < n && (uint32_t)psn_diff(p, req->una) < req->window; i++) {
        struct send_slot *s = (struct send_slot *)slot.at;
        uint32_t packets;

        if (!copy_read(entry.at, &s->wqe) ||
            !find_source(e, qp, s->wqe.sge, MEM_LOCAL_WRITE, &into))
            break;
        packets = packets_for(s->wqe.sge->length, qp->mtu);
        start_slot(s, req->sq.cons + i, s->wqe.sge->length, packets, p);
        if (!i)
            tx_head_make(e, qp, &head, (uint32_t)REQUEST << 24 | PKEY_DEFAULT,
                         BTH_LEN + RETH_LEN + ICRC_LEN);
        put_reth(tx_head_put(&head, qp, &frames[i], ASKS_FOR_ACK | p.v), &s->wqe);
        p = psn_add(p, packets);
        advance(&entry);
        advance(&slot);
    }
    if (!i)
        return 0;
    tx_head_seal(e, qp, &head, frames, i);
    e->sealed += i;
    move_on(e, qp, i, p);
    return i;
}
