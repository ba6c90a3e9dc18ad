/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder's checks of a request with the expected PSN, a function per operation, each in the
 * order of figure 88 of 9.7.4.1: sequence of opcodes, rights of the queue pair, length, resources,
 * R_Key, receive WQE. The rules themselves are in resp_rules.h. The one side effect is that a
 * receive WQE is taken, when all checks before it have passed.
 */
#include "resp_rules.h"
#include "responder.h"
#include "srq.h"

/* A14.4: all packets of a SEND name one SRQ, and so does a request that comes again because its
 * copy found no room (late.h). It must still be the one whose WQE is in use: the WQE's completion
 * queue may have been destroyed with another. */
static bool srq_ok(const struct responder *resp, const struct rx_job *job)
{
    return !job->srq || !resp->recv_busy || job->srq->serial == resp->recv_serial;
}

static enum fault rkey_check(struct engine *e, struct qp *qp, const struct rx_job *job,
                             uint32_t key, uint64_t va, uint64_t len, uint32_t need)
{
    uint32_t pd = job->srq ? job->srq->init.pd : qp->pd;
    struct mr_span span;
    enum mr_fault f = mr_check_remote(&e->mrs, key, pd, qp->qpn, va, len, need, &span);

    if (f != MR_OK)
        return why_access_fault(e, qp, FAULT_REMOTE_ACCESS, f, key, va, len, need);
    mr_span_end(&span); /* executing the request checks it again */
    return FAULT_NONE;
}

/* ---- faults, with what is wrong ---- */

static enum fault bad_order(struct qp *qp, const struct rx_job *job)
{
    return why_fault_found(qp, FAULT_OPCODE_SEQUENCE, CAUSE_opcode_sequence, job->pkt.opcode, 0, 0,
                           0);
}

static enum fault not_allowed(struct qp *qp, const struct rx_job *job, uint32_t right)
{
    return why_fault_found(qp, FAULT_QP_ACCESS, CAUSE_qp_no_right, job->pkt.opcode, right,
                           qp->access | WHY_RIGHTS, 0);
}

static enum fault bad_payload(struct qp *qp, const struct rx_job *job)
{
    uint32_t len = job->pkt.payload_len;

    return why_fault_found(qp, FAULT_LENGTH, CAUSE_packet_length, len, qp->mtu, job->pkt.opcode,
                           len < qp->mtu);
}

static enum fault bad_length(struct qp *qp, uint64_t len, uint64_t announced)
{
    return why_fault_found(qp, FAULT_LENGTH, CAUSE_message_length, len, announced, 0, 0);
}

static enum fault misaligned(struct qp *qp, uint64_t va)
{
    return why_fault_found(qp, FAULT_MISALIGNED, CAUSE_atomic_misaligned, va, 0, 0, 0);
}

/* len: with the packet that did not fit; flags: whether it is the message's last. */
static enum fault too_long(struct qp *qp, uint64_t len, uint16_t flags)
{
    enum fault fault = why_fault_found(qp, FAULT_RECV_TOO_SMALL, CAUSE_receive_too_small, len,
                                       qp->resp.recv_room, 0, 0);

    qp->why.found.detail[4] = !(flags & PF_END);
    return fault;
}

/* ---- */

static enum fault check_send(struct engine *e, struct qp *qp, const struct rx_job *job,
                             uint16_t flags)
{
    struct responder *resp = &qp->resp;
    uint32_t have = flags & PF_START ? 0 : resp->msg_len, len = job->pkt.payload_len;

    if (!resp_order_ok(resp, flags, RESP_SEND) || !srq_ok(resp, job))
        return bad_order(qp, job);
    if (!resp_payload_ok(flags, len, qp->mtu) || have >= MESSAGE_MAX)
        return bad_payload(qp, job);
    if (flags & PF_START) {
        enum fault fault = resp_take_recv(e, qp, job->srq);

        if (fault != FAULT_NONE)
            return fault;
    }
    return resp_room_ok(resp->recv_room, have, len) ? FAULT_NONE : too_long(qp, have + len, flags);
}

static enum fault check_write(struct engine *e, struct qp *qp, const struct rx_job *job,
                              uint16_t flags)
{
    const struct pkt *p = &job->pkt;
    const struct responder *resp = &qp->resp;
    uint32_t left = flags & PF_START ? p->reth.len : resp->write_left;
    enum fault fault = FAULT_NONE;

    if (!resp_order_ok(resp, flags, RESP_WRITE) || ((flags & PF_IMM) && !srq_ok(resp, job)))
        return bad_order(qp, job);
    if (!resp_right_ok(qp, MEM_REMOTE_WRITE))
        return not_allowed(qp, job, MEM_REMOTE_WRITE);
    if (!resp_payload_ok(flags, p->payload_len, qp->mtu))
        return bad_payload(qp, job);
    if (!resp_write_len_ok(flags, left, p->payload_len))
        return bad_length(qp, p->payload_len, left);
    if ((flags & PF_START) && left && !resp_rkey_is_judged_late(flags))
        fault = rkey_check(e, qp, job, p->reth.rkey, p->reth.va, left, MEM_REMOTE_WRITE);
    if (!(flags & PF_IMM))
        return fault;
    if (fault == FAULT_NONE)
        return resp_take_recv(e, qp, job->srq);
    (void)resp_take_recv(e, qp, job->srq); /* 11.6.2: if there is one, it says what happened */
    return fault;
}

/* 9.7.4.1.5, C9-151: see resp_resource_ok. */
static bool resource_ok(const struct responder *resp)
{
    return resp->res_max && resp_resource_ok(&resp->res[resp_next_resource(resp)]);
}

static enum fault check_read(struct engine *e, struct qp *qp, const struct rx_job *job)
{
    const struct pkt *p = &job->pkt;

    if (!resp_right_ok(qp, MEM_REMOTE_READ))
        return not_allowed(qp, job, MEM_REMOTE_READ);
    if (!resp_read_len_ok(p->reth.len))
        return bad_length(qp, p->reth.len, MESSAGE_MAX);
    if (!resource_ok(&qp->resp))
        return FAULT_TOO_MANY_READS;
    if (!p->reth.len) /* exempt from the R_Key check (C9-88) */
        return FAULT_NONE;
    return rkey_check(e, qp, job, p->reth.rkey, p->reth.va, p->reth.len, MEM_REMOTE_READ);
}

static enum fault check_atomic(struct engine *e, struct qp *qp, const struct rx_job *job)
{
    const struct pkt *p = &job->pkt;

    if (!resp_right_ok(qp, MEM_REMOTE_ATOMIC))
        return not_allowed(qp, job, MEM_REMOTE_ATOMIC);
    if (!resource_ok(&qp->resp))
        return FAULT_TOO_MANY_READS;
    if (!resp_aligned_ok(p->atomic.va))
        return misaligned(qp, p->atomic.va);
    return rkey_check(e, qp, job, p->atomic.rkey, p->atomic.va, 8, MEM_REMOTE_ATOMIC);
}

static enum fault check_atomic_write(struct engine *e, struct qp *qp, const struct rx_job *job)
{
    const struct pkt *p = &job->pkt;

    if (!resp_right_ok(qp, MEM_REMOTE_WRITE))
        return not_allowed(qp, job, MEM_REMOTE_WRITE);
    if (!resource_ok(&qp->resp))
        return FAULT_TOO_MANY_READS;
    if (p->reth.len != 8)
        return bad_length(qp, p->reth.len, 8);
    if (!resp_aligned_ok(p->reth.va))
        return misaligned(qp, p->reth.va);
    return rkey_check(e, qp, job, p->reth.rkey, p->reth.va, 8, MEM_REMOTE_WRITE);
}

/* 0: what is asked for has no meaning. */
static uint32_t flush_rights(uint8_t placement)
{
    uint32_t need = 0;

    if (placement & ~(FETH_GLOBAL | FETH_PERSISTENT))
        return 0;
    if (placement & FETH_GLOBAL)
        need |= MEM_FLUSH_GLOBAL;
    if (placement & FETH_PERSISTENT) /* which no region has, as memory here is not persistent */
        need |= MEM_FLUSH_PERSISTENT;
    return need;
}

/* A19.4.1.2: for a whole region the key alone counts. The range is judged last, so a key is good
 * whose range alone is wrong. */
static enum fault check_flush_region(struct engine *e, struct qp *qp, const struct rx_job *job,
                                     uint32_t need)
{
    uint32_t pd = job->srq ? job->srq->init.pd : qp->pd, key = job->pkt.reth.rkey;
    struct mr_span span;
    enum mr_fault f = mr_check_remote(&e->mrs, key, pd, qp->qpn, job->pkt.reth.va, 0, need, &span);

    if (f == MR_OK)
        mr_span_end(&span);
    if (f == MR_OK || f == MR_BAD_RANGE)
        return FAULT_NONE;
    return why_access_fault(e, qp, FAULT_REMOTE_ACCESS, f, key, job->pkt.reth.va, 0, need);
}

static enum fault check_flush(struct engine *e, struct qp *qp, const struct rx_job *job)
{
    const struct pkt *p = &job->pkt;
    uint32_t need = flush_rights(p->feth.placement);

    if (!need || p->feth.selectivity > FETH_REGION)
        return FAULT_UNSUPPORTED;
    if ((qp->access & need) != need)
        return not_allowed(qp, job, need);
    if (!resource_ok(&qp->resp))
        return FAULT_TOO_MANY_READS;
    if (p->feth.selectivity == FETH_REGION)
        return check_flush_region(e, qp, job, need);
    if (!p->reth.len && need == MEM_FLUSH_GLOBAL)
        return FAULT_NONE;
    return rkey_check(e, qp, job, p->reth.rkey, p->reth.va, p->reth.len, need);
}

enum fault resp_check(struct engine *e, struct qp *qp, unsigned job)
{
    const struct rx_job *rx = &e->rx_job[job];
    const struct opcode_info *info = pkt_info(&rx->pkt);

    if (info->kind == KIND_SEND)
        return check_send(e, qp, rx, info->flags);
    if (info->kind == KIND_WRITE)
        return check_write(e, qp, rx, info->flags);
    if (!resp_order_ok(&qp->resp, PF_START, RESP_IDLE)) /* all others are a message each */
        return bad_order(qp, rx);
    switch (info->kind) {
    case KIND_READ_REQUEST:
        return check_read(e, qp, rx);
    case KIND_CMP_SWP:
    case KIND_FETCH_ADD:
        return check_atomic(e, qp, rx);
    case KIND_ATOMIC_WRITE:
        return check_atomic_write(e, qp, rx);
    case KIND_FLUSH:
        return check_flush(e, qp, rx);
    default:
        return FAULT_UNSUPPORTED;
    }
}
