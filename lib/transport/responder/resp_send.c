/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes SENDs that have been judged, and completes all messages that have taken a receive WQE.
 * The packets of a long SEND behind the first one come in batches, too: the message has its WQE, so
 * they only go on where the packet before has ended. SENDs of one packet: resp_batch_recv.c.
 */
#include "mem_window.h"
#include "mr_pieces.h"
#include "recv_cqe.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"
#include "rx_flush.h"

struct rx_completion *resp_complete_recv(struct engine *e, struct qp *qp, unsigned job)
{
    struct responder *resp = &qp->resp;
    const struct pkt *p = &e->rx_job[job].pkt;
    struct rx_completion *c = rx_completion_take(e);
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
    why_fault_found(qp, FAULT_INVALIDATE, CAUSE_invalidate_refused, rkey, 0, 0, 0);
    why_invalidate(e, qp, rkey, &qp->why.found);
    return FAULT_INVALIDATE;
}

/* The message in progress goes on by a packet of len bytes. */
ALWAYS_INLINE void send_advance(struct responder *resp, uint16_t flags, uint32_t len)
{
    resp->msg_len += len;
    resp->op = flags & PF_END ? RESP_IDLE : RESP_SEND;
}

/* ---- one packet ---- */

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
    send_advance(resp, flags, p->payload_len);
    if (flags & PF_END)
        resp_complete_recv(e, qp, job);
    return FAULT_NONE;
}

/* ---- a batch ---- */

unsigned resp_admit_send_segments(struct rx_batch *b, unsigned n)
{
    const struct responder *resp = &b->qp->resp;

    /* The members of a group may have taken all places of a burst. A batch ends one message. */
    if (b->e->completions == ARRAY_SIZE(b->e->completion))
        return 0;
    /* XRC: all packets name the SRQ that the WQE came from (A14.4). */
    if (b->xrc_srq && b->xrc_srq->serial != resp->recv_serial)
        return 0;
    return resp->recv_pd == rx_batch_pd(b) ? n : 0;
}

/* Into several SGEs, all of them mapped. False: it is not that simple. */
static __attribute__((noinline)) bool put_pieces(struct rx_batch *b, struct mr_grant *g,
                                                 const uint8_t *payload, uint32_t len)
{
    const struct responder *resp = &b->qp->resp;
    struct mr_piece piece[QUEUE_MAX_SGE];

    if (!mr_pieces_find(b, g, resp->recv->sge, resp->recv->h.num_sge, resp->msg_len, len, piece))
        return false;
    mr_pieces_put(piece, payload, len);
    return true;
}

/* Packet i's bytes, which the WQE has room for. False: the general path must judge them. */
static bool put_bytes(struct rx_batch *b, struct mr_grant *g, unsigned i)
{
    struct responder *resp = &b->qp->resp;
    const struct sge *sge = resp->recv->sge;
    const uint8_t *payload = bth_payload(b->span[i].bth);
    uint32_t len = b->span[i].payload;
    uint64_t va = sge->addr + resp->msg_len;
    uint8_t *to;

    if (unlikely(resp->recv->h.num_sge != 1))
        return put_pieces(b, g, payload, len);
    to = rx_batch_lookup(b, g, &resp->recv_hint, sge->lkey, MEM_LOCAL_WRITE, va, len);
    if (unlikely(!to))
        return rx_batch_queue(b, g, i, va, payload, len);
    memcpy(to, payload, len);
    return true;
}

static bool place_segment(struct rx_batch *b, struct mr_grant *g, unsigned i)
{
    const uint8_t *bth = b->span[i].bth;
    struct responder *resp = &b->qp->resp;
    uint16_t flags = opcode_table[bth_opcode(bth)].flags;
    uint32_t len = b->span[i].payload;

    if (!resp_order_ok(resp, flags, RESP_SEND) || !resp_payload_ok(flags, len, b->qp->mtu) ||
        resp->msg_len >= MESSAGE_MAX || !resp_room_ok(resp->recv_room, resp->msg_len, len) ||
        !put_bytes(b, g, i))
        return false;
    send_advance(resp, flags, len);
    if (!(flags & PF_END))
        return true;
    rx_batch_job(b, i)->pkt.solicited = bth_is_solicited(bth);
    resp_complete_recv(b->e, b->qp, b->job + i);
    b->messages++;
    return true;
}

unsigned resp_place_send_segments(struct rx_batch *b, unsigned n)
{
    struct mr_grant g = {.direct = NULL};
    unsigned i = 0;

    while (i < n && place_segment(b, &g, i))
        i++;
    return i;
}
