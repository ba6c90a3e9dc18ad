/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes SENDs that have been judged, one packet at a time, and completes all messages that have
 * taken a receive WQE. */
#include "recv_cqe.h"
#include "responder.h"
#include "rx_flush.h"

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
    why_fault_found(qp, FAULT_INVALIDATE, CAUSE_invalidate_refused, rkey, 0, 0, 0);
    why_invalidate(e, qp, rkey, &qp->why.found);
    return FAULT_INVALIDATE;
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
