/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder's checks of a request with the expected PSN, in the order of figure 88 of 9.7.4.1:
 * sequence of opcodes, rights of the queue pair, length, resources, R_Key. Checks only: the one
 * side effect is that a receive entry is taken, when all that comes before it is in order.
 */
#include "resp_rules.h"
#include "responder.h"
#include "srq.h"

static enum resp_op op_of(const struct opcode_info *info)
{
    return info->kind == KIND_SEND ? RESP_SEND : info->kind == KIND_WRITE ? RESP_WRITE : RESP_IDLE;
}

static enum fault check_sequence(const struct responder *resp, const struct opcode_info *info)
{
    return resp_order_ok(resp, info->flags, op_of(info)) ? FAULT_NONE : FAULT_OPCODE_SEQUENCE;
}

/* A14.4: all packets of a SEND name one SRQ. It must still be the one whose entry is in use: that
 * entry's completion queue may have gone with it. */
static enum fault check_srq(const struct responder *resp, const struct rx_job *job,
                            const struct opcode_info *info)
{
    if (!job->srq || info->kind != KIND_SEND || (info->flags & PF_START))
        return FAULT_NONE;
    return job->srq->serial == resp->recv_serial ? FAULT_NONE : FAULT_OPCODE_SEQUENCE;
}

/* 9.7.4.1.3: what the queue pair must allow for an operation. */
static enum fault check_rights(const struct qp *qp, const struct pkt *p,
                               const struct opcode_info *info)
{
    uint32_t need;

    switch (info->kind) {
    case KIND_SEND:
        return FAULT_NONE;
    case KIND_WRITE:
    case KIND_ATOMIC_WRITE:
        need = MEM_REMOTE_WRITE;
        break;
    case KIND_READ_REQUEST:
        need = MEM_REMOTE_READ;
        break;
    case KIND_CMP_SWP:
    case KIND_FETCH_ADD:
        need = MEM_REMOTE_ATOMIC;
        break;
    case KIND_FLUSH:
        if (p->feth.placement != FETH_GLOBAL || p->feth.selectivity > FETH_REGION)
            return FAULT_UNSUPPORTED; /* memory here is not persistent */
        need = MEM_FLUSH_GLOBAL;
        break;
    default:
        return FAULT_UNSUPPORTED;
    }
    return resp_right_ok(qp, need) ? FAULT_NONE : FAULT_QP_ACCESS;
}

static enum fault check_length(const struct qp *qp, const struct pkt *p,
                               const struct opcode_info *info)
{
    uint16_t flags = info->flags;
    bool ok = true;

    switch (info->kind) {
    case KIND_SEND:
        ok = resp_payload_ok(flags, p->payload_len, qp->mtu) &&
             ((flags & PF_START) || qp->resp.msg_len < MESSAGE_MAX);
        break;
    case KIND_WRITE:
        ok = resp_payload_ok(flags, p->payload_len, qp->mtu) &&
             resp_write_len_ok(flags, flags & PF_START ? p->reth.len : qp->resp.write_left,
                               p->payload_len);
        break;
    case KIND_READ_REQUEST:
        ok = resp_read_len_ok(p->reth.len);
        break;
    }
    return ok ? FAULT_NONE : FAULT_LENGTH;
}

static enum fault check_recv(struct engine *e, struct qp *qp, const struct rx_job *job,
                             const struct opcode_info *info)
{
    const struct pkt *p = &job->pkt;
    struct responder *resp = &qp->resp;
    bool needs = info->kind == KIND_SEND ? info->flags & PF_START : info->flags & PF_IMM;

    if (needs) {
        enum fault f = resp_take_recv(e, qp, job->srq);

        if (f != FAULT_NONE)
            return f;
    }
    if (info->kind == KIND_SEND) {
        uint32_t have = info->flags & PF_START ? 0 : resp->msg_len;

        if (!resp_room_ok(resp->recv_room, have, p->payload_len))
            return FAULT_RECV_TOO_SMALL;
    }
    return FAULT_NONE;
}

static enum fault rkey_check(struct engine *e, const struct qp *qp, uint32_t pd, uint32_t key,
                             uint64_t va, uint64_t len, uint32_t need)
{
    struct mr_span span;

    if (mr_check_remote(&e->mrs, key, pd, qp->qpn, va, len, need, &span) != MR_OK)
        return FAULT_REMOTE_ACCESS;
    mr_span_end(&span); /* what is done with it checks it again */
    return FAULT_NONE;
}

/* 9.7.4.1.7: R_Key, for the whole of what the message asks for. Zero length is exempt (C9-88). */
static enum fault check_remote(struct engine *e, const struct qp *qp, const struct rx_job *job,
                               const struct opcode_info *info)
{
    const struct pkt *p = &job->pkt;
    uint32_t pd = job->srq ? job->srq->init.pd : qp->pd;
    uint32_t need;

    if (info->flags & PF_ATOMICETH)
        return p->atomic.va & 7
                   ? FAULT_MISALIGNED
                   : rkey_check(e, qp, pd, p->atomic.rkey, p->atomic.va, 8, MEM_REMOTE_ATOMIC);
    if (info->kind == KIND_ATOMIC_WRITE && (p->reth.len != 8 || (p->reth.va & 7)))
        return p->reth.len != 8 ? FAULT_LENGTH : FAULT_MISALIGNED;
    if (!(info->flags & PF_RETH) || !p->reth.len)
        return FAULT_NONE;
    need = info->kind == KIND_READ_REQUEST ? MEM_REMOTE_READ
           : info->kind == KIND_FLUSH      ? MEM_FLUSH_GLOBAL
                                           : MEM_REMOTE_WRITE;
    return rkey_check(
        e, qp, pd, p->reth.rkey, p->reth.va,
        info->kind == KIND_FLUSH && p->feth.selectivity == FETH_REGION ? 0 : p->reth.len, need);
}

static enum fault check_resources(const struct qp *qp, const struct opcode_info *info)
{
    const struct responder *resp = &qp->resp;

    if (!kind_has_response(info->kind))
        return FAULT_NONE;
    if (!resp->res_max || !resp_resource_ok(&resp->res[resp_next_resource(resp)]))
        return FAULT_TOO_MANY_READS;
    return FAULT_NONE;
}

enum fault resp_check(struct engine *e, struct qp *qp, unsigned job)
{
    const struct rx_job *rx = &e->rx_job[job];
    const struct opcode_info *info = pkt_info(&rx->pkt);
    enum fault f;

    if ((f = check_sequence(&qp->resp, info)) || (f = check_srq(&qp->resp, rx, info)) ||
        (f = check_rights(qp, &rx->pkt, info)) || (f = check_length(qp, &rx->pkt, info)) ||
        (f = check_resources(qp, info)) || (f = check_remote(e, qp, rx, info)))
        return f;
    return check_recv(e, qp, rx, info);
}
