/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder: what a checked request does. */
#include "transport.h"

void resp_reset(struct qp *qp, psn_t first)
{
    struct responder *resp = &qp->resp;

    resp->epsn = first;
    resp->msn = 0;
    resp->op = RESP_IDLE;
    resp->nak_sent = resp->ack_pending = resp->recv_busy = resp->recv_failed = false;
    resp->msg_len = resp->write_left = 0;
    resp->res_head = resp->res_pending = 0;
    resp->rounds = 0;
    resp->round_first = resp->repeated = resp->repeated_epsn = first;
}

void resp_fault(struct engine *e, struct qp *qp, enum fault fault, psn_t at)
{
    const struct fault_rule *rule = &fault_rules[fault];
    struct responder *resp = &qp->resp;

    if (qp->fault) /* the first one decides */
        return;
    note(e, qp, TRACE_FAULT, fault, at.v);
    if (!qp_is_reliable(qp) && !rule->own) { /* the message is lost, and nobody is told */
        counter_inc(&qp->counters.rx_discards);
        return;
    }
    counter_inc((counter_t *)((char *)&qp->counters + rule->counter));
    if (rule->syndrome != FAULT_SILENT && qp_is_reliable(qp)) {
        resp->nak_sent = resp->ack_pending = true;
        resp->syndrome = rule->syndrome;
        resp->ack_psn = at;
        if (fault == FAULT_RNR)
            resp->syndrome |= qp->attr.min_rnr_timer & AETH_VALUE_MASK;
        engine_tx_ready(e, qp);
    }
    if (rule->fatal) {
        qp->fault = fault;
        engine_touch(e, qp);
    }
}

void resp_memory_fault(struct engine *e, struct qp *qp, unsigned job)
{
    struct responder *resp = &qp->resp;

    if (qp->fault == FAULT_MEMORY && resp->failed_job <= job)
        return;
    qp->fault = FAULT_NONE;
    resp->failed_job = job;
    resp_fault(e, qp, FAULT_MEMORY, e->rx_job[job].pkt.psn);
}

/* The message is complete: its receive entry completes once the burst's bytes are written. */
struct rx_completion *resp_complete_recv(struct engine *e, struct qp *qp, unsigned job)
{
    struct responder *resp = &qp->resp;
    const struct pkt *p = &e->rx_job[job].pkt;
    struct rx_completion *c = &e->completion[e->completions++];
    uint16_t flags = pkt_info(p)->flags;

    resp->recv_busy = false;
    *c = (struct rx_completion){
        .qp = qp,
        .cq = resp->recv_cq,
        .job = job,
        .solicited = p->solicited,
        .cqe = {.wr_id = resp->recv->h.wr_id,
                .timestamp = e->now,
                .qpn = qp->qpn,
                .src_qpn = qp->dest_qpn,
                .byte_len = resp->msg_len,
                .imm = flags & PF_IMM    ? __builtin_bswap32(p->imm)
                       : flags & PF_IETH ? p->ieth_rkey
                                         : 0,
                .uidx = qp_completion_uidx(qp),
                .wqe = resp->recv_index,
                .status = WC_SUCCESS,
                .opcode = pkt_info(p)->kind == KIND_SEND ? WC_RECV : WC_RECV_RDMA_WITH_IMM,
                .wc_flags = flags & PF_IMM    ? WC_WITH_IMM
                            : flags & PF_IETH ? WC_WITH_INV
                                              : 0,
                .sl = qp->av.sl,
                .vlan = VLAN_NONE},
    };
    return c;
}

/* The domain that a peer's keys are checked in: with XRC the SRQ's (A14.4.4). */
static uint32_t job_pd(const struct engine *e, const struct qp *qp, unsigned job)
{
    const struct srq *srq = e->rx_job[job].srq;

    return srq ? srq->init.pd : qp->pd;
}

/* By a peer's SEND: what it wrote before arrives before. */
static bool invalidate(struct engine *e, struct qp *qp, uint32_t rkey)
{
    rx_flush(e);
    return window_invalidate(e->cfg.mrs, rkey, qp->pd, qp->qpn) == MR_OK;
}

static enum fault execute_send(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p)
{
    struct responder *resp = &qp->resp;
    uint16_t flags = pkt_info(p)->flags;

    if (flags & PF_START)
        resp->msg_len = 0;
    if (p->payload_len && sg_scatter(e, resp->recv_pd, resp->recv->sge, resp->recv->h.num_sge,
                                     resp->msg_len, p->payload, p->payload_len, job) != MR_OK)
        return FAULT_RECV_PROTECTION;
    resp->msg_len += p->payload_len;
    resp->op = flags & PF_END ? RESP_IDLE : RESP_SEND;
    if ((flags & PF_IETH) && !invalidate(e, qp, p->ieth_rkey))
        return FAULT_INVALIDATE;
    if (flags & PF_END) {
        resp->msn++;
        resp_complete_recv(e, qp, job);
    }
    return FAULT_NONE;
}

static enum fault execute_write(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p)
{
    struct responder *resp = &qp->resp;
    uint16_t flags = pkt_info(p)->flags;
    struct mr_span span;

    if (flags & PF_START) {
        resp->msg_len = 0;
        resp->write_va = p->reth.va;
        resp->write_rkey = p->reth.rkey;
        resp->write_left = p->reth.len;
    }
    if (p->payload_len) { /* checked as a whole at the start, but the key may be gone since */
        if (mem_batch_full(&e->batch))
            rx_flush(e);
        if (mr_check_remote(&e->mrs, resp->write_rkey, job_pd(e, qp, job), qp->qpn, resp->write_va,
                            p->payload_len, MEM_REMOTE_WRITE, &span) != MR_OK)
            return FAULT_REMOTE_ACCESS;
        mem_batch_out_span(&e->batch, &span, p->payload, p->payload_len, job);
    }
    resp->write_va += p->payload_len;
    resp->write_left -= p->payload_len;
    resp->msg_len += p->payload_len;
    resp->op = flags & PF_END ? RESP_IDLE : RESP_WRITE;
    if (flags & PF_END) {
        resp->msn++;
        if (flags & PF_IMM)
            resp_complete_recv(e, qp, job);
    }
    return FAULT_NONE;
}

static struct resp_resource *new_resource(struct qp *qp, const struct pkt *p)
{
    struct responder *resp = &qp->resp;
    struct resp_resource *r = &resp->res[resp->res_head % resp->res_max];

    resp_resources_taken(resp, 1);
    if (!r->pending)
        resp->res_pending++;
    resp->msn++;
    *r = (struct resp_resource){.kind = pkt_info(p)->kind,
                                .pending = true,
                                .first = p->psn,
                                .packets = 1,
                                .msn = resp->msn};
    resp->ack_pending = false; /* the response acknowledges what came before */
    return r;
}

static void execute_read(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct resp_resource *r = new_resource(qp, p);

    r->va = p->reth.va;
    r->rkey = p->reth.rkey;
    r->pd = job_pd(e, qp, job);
    r->len = p->reth.len;
    r->packets = packets_for(r->len, qp->mtu);
}

static enum fault execute_atomic(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    enum mem_atomic_op op = pkt_info(p)->kind == KIND_CMP_SWP ? MEM_CMP_SWP : MEM_FETCH_ADD;
    struct mr_span span;
    uint64_t original;
    int err;

    rx_flush(e); /* earlier WRITEs of this burst come first */
    if (qp->fault)
        return FAULT_NONE;
    if (mr_check_remote(&e->mrs, p->atomic.rkey, job_pd(e, qp, job), qp->qpn, p->atomic.va, 8,
                        MEM_REMOTE_ATOMIC, &span) != MR_OK)
        return FAULT_REMOTE_ACCESS;
    err = mem_atomic(span.mr, span.addr, op, p->atomic.swap_add, p->atomic.compare, &original);
    mr_span_end(&span);
    if (err)
        return FAULT_MEMORY;
    new_resource(qp, p)->original = original;
    return FAULT_NONE;
}

/* A19.4.3: eight bytes at once, after all earlier requests and before all later ones. */
static enum fault execute_atomic_write(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct mr_span span;
    int err;

    rx_flush(e);
    if (qp->fault)
        return FAULT_NONE;
    if (mr_check_remote(&e->mrs, p->reth.rkey, job_pd(e, qp, job), qp->qpn, p->reth.va, 8,
                        MEM_REMOTE_WRITE, &span) != MR_OK)
        return FAULT_REMOTE_ACCESS;
    err = mem_store8(span.mr, span.addr, p->payload);
    mr_span_end(&span);
    if (err)
        return FAULT_MEMORY;
    new_resource(qp, p);
    return FAULT_NONE;
}

enum fault resp_execute(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;

    switch (pkt_info(p)->kind) {
    case KIND_SEND:
        return execute_send(e, qp, job, p);
    case KIND_WRITE:
        return execute_write(e, qp, job, p);
    case KIND_READ_REQUEST:
        execute_read(e, qp, job);
        return FAULT_NONE;
    case KIND_ATOMIC_WRITE:
        return execute_atomic_write(e, qp, job);
    case KIND_FLUSH: /* what was written before is visible once it left the batch (A19.4.2) */
        rx_flush(e);
        if (!qp->fault)
            new_resource(qp, p);
        return FAULT_NONE;
    default:
        return execute_atomic(e, qp, job);
    }
}

/* An expected request that takes so many PSNs was executed: an ACK for it, if it wants one. */
void resp_accepted(struct engine *e, struct qp *qp, const struct pkt *p, uint32_t packets)
{
    struct responder *resp = &qp->resp;

    if (resp->syndrome != AETH_ACK_PLAIN && !qp->fault) /* a NAK that was not sent yet is void */
        resp->ack_pending = false;
    resp->epsn = psn_add(p->psn, packets);
    if (p->ack_req && !kind_has_response(pkt_info(p)->kind)) {
        resp->ack_pending = true;
        resp->syndrome = AETH_ACK_PLAIN;
        resp->ack_psn = p->psn;
        engine_tx_ready(e, qp);
    }
}

/* The expected request: checked, executed, acknowledged. */
static void resp_expected(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p)
{
    struct responder *resp = &qp->resp;
    bool read = pkt_info(p)->kind == KIND_READ_REQUEST;
    bool has_response = kind_has_response(pkt_info(p)->kind);
    enum fault fault = resp_check(e, qp, job);

    resp->nak_sent = false;
    if (fault == FAULT_NONE)
        fault = resp_execute(e, qp, job);
    if (fault != FAULT_NONE) {
        resp_fault(e, qp, fault, p->psn);
        return;
    }
    resp_accepted(e, qp, p, read ? packets_for(p->reth.len, qp->mtu) : 1);
    if (has_response)
        engine_tx_ready(e, qp);
}

void resp_rx(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    int32_t ahead = psn_diff(p->psn, qp->resp.epsn);

    if (qp->fault) /* on its way to the error state */
        return;
    if (likely(resp_only(e, qp, job)))
        return;
    if (ahead == 0) {
        resp_expected(e, qp, job, p);
    } else if (ahead < 0) {
        resp_duplicate(e, qp, p);
    } else {
        counter_inc(&qp->counters.out_of_sequence);
        if (!qp->resp.nak_sent)
            resp_fault(e, qp, FAULT_PSN_SEQUENCE, qp->resp.epsn);
    }
}
