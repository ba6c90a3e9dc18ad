/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder's checks of a request with the expected PSN, in the order of figure 88 of 9.7.4.1:
 * sequence of opcodes, rights of the queue pair, length, resources, R_Key. Checks only: the one
 * side effect is that a receive entry is taken, when all that comes before it is in order.
 */
#include "transport.h"

static enum resp_op op_of(const struct opcode_info *info)
{
    return info->kind == KIND_SEND ? RESP_SEND : info->kind == KIND_WRITE ? RESP_WRITE : RESP_IDLE;
}

/* C9-... of 9.7.4.1.2: FIRST and ONLY start a message, MIDDLE and LAST go on with the same kind. */
static enum fault check_sequence(const struct responder *resp, const struct opcode_info *info)
{
    if (info->flags & PF_START)
        return resp->op == RESP_IDLE ? FAULT_NONE : FAULT_OPCODE_SEQUENCE;
    return resp->op != RESP_IDLE && resp->op == op_of(info) ? FAULT_NONE : FAULT_OPCODE_SEQUENCE;
}

static enum fault check_rights(const struct qp *qp, const struct opcode_info *info)
{
    switch (info->kind) {
    case KIND_SEND:
        return info->flags & PF_IETH ? FAULT_UNSUPPORTED : FAULT_NONE;
    case KIND_WRITE:
        return qp->access & MEM_REMOTE_WRITE ? FAULT_NONE : FAULT_QP_ACCESS;
    case KIND_READ_REQUEST:
        return qp->access & MEM_REMOTE_READ ? FAULT_NONE : FAULT_QP_ACCESS;
    case KIND_CMP_SWP:
    case KIND_FETCH_ADD:
        return qp->access & MEM_REMOTE_ATOMIC ? FAULT_NONE : FAULT_QP_ACCESS;
    default:
        return FAULT_UNSUPPORTED;
    }
}

/* 9.7.4.1.6: FIRST and MIDDLE are full, LAST is not empty, and a WRITE is as long as its RETH said.
 */
static enum fault check_length(const struct qp *qp, const struct pkt *p,
                               const struct opcode_info *info)
{
    bool start = info->flags & PF_START, end = info->flags & PF_END;
    uint32_t left = qp->resp.write_left;

    if (info->kind != KIND_SEND && info->kind != KIND_WRITE)
        return info->kind != KIND_READ_REQUEST || p->reth.len <= MESSAGE_MAX ? FAULT_NONE
                                                                             : FAULT_LENGTH;
    if (!end && p->payload_len != qp->mtu)
        return FAULT_LENGTH;
    if (end && (p->payload_len > qp->mtu || (!start && !p->payload_len)))
        return FAULT_LENGTH;
    if (info->kind == KIND_SEND)
        return start || qp->resp.msg_len < MESSAGE_MAX ? FAULT_NONE : FAULT_LENGTH;
    if (start)
        left = p->reth.len;
    if (left > MESSAGE_MAX || (end ? left != p->payload_len : left <= p->payload_len))
        return FAULT_LENGTH;
    return FAULT_NONE;
}

/* Takes the next receive entry into resp->recv. */
static enum fault take_recv(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    int pending = work_queue_pending(&resp->rq);

    if (pending < 0)
        return FAULT_QUEUE_INDEX;
    if (!pending)
        return FAULT_RNR;
    resp->recv_index = resp->rq.cons;
    resp->recv_busy = true;
    resp->recv_room = 0;
    if (recv_queue_take(&resp->rq, resp->recv))
        return FAULT_RECV_MALFORMED;
    for (unsigned i = 0; i < resp->recv->h.num_sge; i++)
        resp->recv_room += resp->recv->sge[i].length;
    return FAULT_NONE;
}

static enum fault check_recv(struct qp *qp, const struct pkt *p, const struct opcode_info *info)
{
    struct responder *resp = &qp->resp;
    bool needs = info->kind == KIND_SEND ? info->flags & PF_START : info->flags & PF_IMM;

    if (needs) {
        enum fault f = take_recv(qp);

        if (f != FAULT_NONE)
            return f;
    }
    if (info->kind == KIND_SEND) {
        uint32_t have = info->flags & PF_START ? 0 : resp->msg_len;

        if (resp->recv_room - have < p->payload_len)
            return FAULT_RECV_TOO_SMALL;
    }
    return FAULT_NONE;
}

/* 9.7.4.1.7: R_Key, for the whole of what the message asks for. Zero length is exempt (C9-88). */
static enum fault check_remote(struct engine *e, const struct qp *qp, const struct pkt *p,
                               const struct opcode_info *info)
{
    struct mem_region *mr;
    uint32_t need;

    if (info->flags & PF_ATOMICETH) {
        if (p->atomic.va & 7)
            return FAULT_MISALIGNED;
        return mr_check(e->cfg.mrs, p->atomic.rkey, qp->pd, p->atomic.va, 8, MEM_REMOTE_ATOMIC,
                        &mr) == MR_OK
                   ? FAULT_NONE
                   : FAULT_REMOTE_ACCESS;
    }
    if (!(info->flags & PF_RETH) || !p->reth.len)
        return FAULT_NONE;
    need = info->kind == KIND_WRITE ? MEM_REMOTE_WRITE : MEM_REMOTE_READ;
    return mr_check(e->cfg.mrs, p->reth.rkey, qp->pd, p->reth.va, p->reth.len, need, &mr) == MR_OK
               ? FAULT_NONE
               : FAULT_REMOTE_ACCESS;
}

/*
 * 9.7.4.1.5, C9-151: no more READs and atomics at a time than were agreed. A reply that is only
 * being repeated does not count: that the requester goes on says that it has the first.
 */
static enum fault check_resources(const struct qp *qp, const struct opcode_info *info)
{
    const struct responder *resp = &qp->resp;
    uint32_t max = qp->attr.max_dest_rd_atomic;
    const struct resp_resource *oldest;

    if (info->kind != KIND_READ_REQUEST && !(info->flags & PF_ATOMICETH))
        return FAULT_NONE;
    if (!max)
        return FAULT_TOO_MANY_READS;
    oldest = &resp->res[resp->res_head % max];
    return oldest->pending && !oldest->answered ? FAULT_TOO_MANY_READS : FAULT_NONE;
}

enum fault resp_check(struct engine *e, struct qp *qp, const struct pkt *p)
{
    const struct opcode_info *info = pkt_info(p);
    enum fault f;

    if ((f = check_sequence(&qp->resp, info)) || (f = check_rights(qp, info)) ||
        (f = check_length(qp, p, info)) || (f = check_resources(qp, info)) ||
        (f = check_remote(e, qp, p, info)))
        return f;
    return check_recv(qp, p, info);
}
