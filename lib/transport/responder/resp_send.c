/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes SENDs that have been judged, one packet or a batch. A batch is of SEND ONLY without
 * immediate data, into receive WQEs of one SGE. If that is mapped, its CQEs are written in place.
 */
#include "completion.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"
#include "rx_flush.h"
#include "wqe.h"

/* The fields that the CQEs of all messages received now have in common. */
static inline struct cqe recv_cqe(const struct engine *e, const struct qp *qp)
{
    return (struct cqe){
        .timestamp = e->now,
        .qpn = qp->qpn,
        .src_qpn = qp->dest_qpn,
        .uidx = qp_completion_uidx(qp),
        .status = WC_SUCCESS,
        .opcode = WC_RECV,
        .sl = qp->av.sl,
        .vlan = VLAN_NONE,
    };
}

/* ---- one packet ---- */

struct rx_completion *resp_complete_recv(struct engine *e, struct qp *qp, unsigned job)
{
    struct responder *resp = &qp->resp;
    const struct pkt *p = &e->rx_job[job].pkt;
    struct rx_completion *c = &e->completion[e->completions++];
    uint16_t flags = pkt_info(p)->flags;

    resp->recv_busy = false;
    *c = (struct rx_completion){.qp = qp,
                                .cq = resp->recv_cq,
                                .job = job,
                                .solicited = p->solicited,
                                .cqe = recv_cqe(e, qp)};
    c->cqe.wr_id = resp->recv->h.wr_id;
    c->cqe.byte_len = resp->msg_len;
    c->cqe.wqe = resp->recv_index;
    if (pkt_info(p)->kind != KIND_SEND)
        c->cqe.opcode = WC_RECV_RDMA_WITH_IMM;
    if (flags & PF_IMM) {
        c->cqe.imm = __builtin_bswap32(p->imm);
        c->cqe.wc_flags = WC_WITH_IMM;
    } else if (flags & PF_IETH) {
        c->cqe.imm = p->ieth_rkey;
        c->cqe.wc_flags = WC_WITH_INV;
    }
    return c;
}

/* The peer's SEND invalidates a key; what the peer wrote before is written before. */
static enum fault invalidate(struct engine *e, struct qp *qp, uint32_t rkey)
{
    rx_flush(e);
    if (qp->fault)
        return qp->fault;
    if (window_invalidate(e->cfg.mrs, rkey, qp->pd, qp->qpn) == MR_OK)
        return FAULT_NONE;
    return why_fault_found(qp, FAULT_INVALIDATE, CAUSE_invalidate_refused, rkey, 0, 0, 0);
}

enum fault resp_send(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct responder *resp = &qp->resp;
    uint16_t flags = pkt_info(p)->flags;
    enum fault fault = FAULT_NONE;

    if (flags & PF_START)
        resp->msg_len = 0;
    if (p->payload_len)
        fault = resp_scatter(e, qp, job, resp->msg_len, p->payload, p->payload_len);
    if (fault == FAULT_NONE && (flags & PF_IETH))
        fault = invalidate(e, qp, p->ieth_rkey);
    if (fault != FAULT_NONE)
        return fault;
    resp->msg_len += p->payload_len;
    resp->op = flags & PF_END ? RESP_IDLE : RESP_SEND;
    if (flags & PF_END)
        resp_complete_recv(e, qp, job);
    return FAULT_NONE;
}

/* ---- a batch ---- */

/* As many as have a receive WQE, and room for its CQE, besides those that wait for queued copies.
 */
unsigned resp_admit_sends(struct rx_batch *b, unsigned n)
{
    const struct responder *resp = &b->qp->resp;
    unsigned waiting = b->e->completions;
    int pending;

    if (b->qp->srq || resp->recv_busy || !resp->rq.max_sge ||
        !resp_order_ok(resp, PF_START | PF_END, RESP_SEND))
        return 0;
    pending = work_queue_pending(&resp->rq);
    n = pending > 0 ? min_of(n, (unsigned)pending) : 0;
    n = n ? cq_room(b->qp->recv_cq, b->e->cfg.lane, n + waiting) : 0;
    return n > waiting ? n - waiting : 0;
}

/* The CQE of packet i waits for the copy of its bytes, and of those before it. */
static void complete_later(struct rx_batch *b, unsigned i, const struct cqe *common,
                           const struct recv_buffer *buffer)
{
    struct engine *e = b->e;
    struct rx_completion *c = &e->completion[e->completions++];

    *c = (struct rx_completion){.qp = b->qp,
                                .cq = b->qp->recv_cq,
                                .job = b->job + i,
                                .solicited = bth_is_solicited(b->span[i].bth),
                                .cqe = *common};
    c->cqe.wr_id = buffer->wr_id;
    c->cqe.byte_len = b->span[i].payload;
    c->cqe.wqe = b->qp->resp.rq.cons + i;
    rx_batch_job(b, i);
}

/* Into memory that is not mapped, or behind messages that wait for such. */
static __attribute__((noinline)) unsigned place_queued(struct rx_batch *b, unsigned n)
{
    struct engine *e = b->e;
    struct qp *qp = b->qp;
    const struct cqe common = recv_cqe(e, qp);
    struct mr_grant g = {.direct = NULL};
    unsigned i;

    n = min_of(n, (unsigned)ARRAY_SIZE(e->completion) - e->completions);
    for (i = 0; i < n; i++) {
        const uint8_t *payload = b->span[i].bth + BTH_LEN;
        uint32_t len = b->span[i].payload;
        struct recv_buffer buffer;
        uint8_t *to;

        if (!recv_wqe_peek(&qp->resp.rq, qp->resp.rq.cons + i, &buffer) ||
            !resp_room_ok(buffer.length, 0, len))
            break;
        to = mr_grant_lookup(e, qp, &g, &qp->resp.recv_hint, buffer.lkey, MEM_LOCAL_WRITE,
                             buffer.addr, len);
        if (to)
            mr_grant_copy(to, payload, len);
        else if (!rx_batch_queue(b, &g, i, buffer.addr, payload, len))
            break;
        complete_later(b, i, &common, &buffer);
    }
    qp->resp.rq.cons += i;
    b->messages = i;
    return i;
}

static unsigned place_mapped(struct rx_batch *b, unsigned n)
{
    struct engine *e = b->e;
    struct qp *qp = b->qp;
    struct comp_queue *cq = qp->recv_cq;
    const struct work_queue rq = qp->resp.rq;
    const struct cqe common = recv_cqe(e, qp);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(cq, e->cfg.lane);
    const struct icrc_span *s = b->span;
    bool solicited = false;
    uint32_t i;

    for (i = 0; i < n; i++, s++) {
        const uint8_t *bth = s->bth;
        uint32_t len = s->payload;
        struct cqe *c = cq_batch_entry(&cqes);
        struct recv_buffer buffer;
        uint8_t *to;

        if (unlikely(!recv_wqe_peek(&rq, rq.cons + i, &buffer) ||
                     !resp_room_ok(buffer.length, 0, len)))
            break;
        to = mr_grant_lookup(e, qp, &g, &qp->resp.recv_hint, buffer.lkey, MEM_LOCAL_WRITE,
                             buffer.addr, len);
        if (unlikely(!to))
            break;
        mr_grant_copy(to, bth + BTH_LEN, len);
        memcpy(c, &common, offsetof(struct cqe, seq));
        c->wr_id = buffer.wr_id;
        c->byte_len = len;
        c->wqe = rq.cons + i;
        solicited |= bth_is_solicited(bth);
        cq_batch_give(&cqes, c);
    }
    qp->resp.rq.cons += i;
    b->messages = i;
    engine_post_batch(e, cq, cqes, solicited);
    return i;
}

unsigned resp_place_sends(struct rx_batch *b, unsigned n)
{
    unsigned i = 0;

    if (likely(!b->e->completions && !b->e->batch.n))
        i = place_mapped(b, n);
    return likely(i) ? i : place_queued(b, n);
}
