/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a work request of the send queue failed. The path that finds a fault records a status alone:
 * here, where the completion is made, the same questions are asked again. What does not answer them
 * is what is left: memory that could not be reached.
 */
#include "completion.h"
#include "id_tables.h"
#include "mr_about.h"
#include "requester.h"

static struct why protection(struct engine *e, const struct qp *qp, const struct send_slot *s)
{
    const struct send_wqe *w = &s->wqe;
    const struct req_op *op = &req_ops[w->h.opcode & 15];
    unsigned n = w->h.flags & SQE_INLINE ? 0 : w->h.num_sge;
    bool writes = op->traits & REQ_RETURNS_DATA;
    struct why why;

    if (why_local_access(e, qp, qp->pd, w->sge, n, writes ? MEM_LOCAL_WRITE : MEM_LOCAL_READ, &why))
        return why;
    return why_memory_gone(writes ? WHY_SEND_TARGET : WHY_SEND_SOURCE, n ? w->sge[0].addr : 0,
                           n ? w->sge[0].length : 0, n ? w->sge[0].lkey : 0);
}

static struct why invalidate(const struct engine *e, const struct qp *qp, uint32_t key)
{
    struct why why = why_of(CAUSE_local_invalidate, 0, 0, 0, 0);

    why_invalidate(e, qp, key, &why);
    return why;
}

static struct why operation(const struct qp *qp, const struct send_slot *s)
{
    const struct sqe *w = &s->wqe.h;
    const struct req_op *op = &req_ops[w->opcode & 15];

    if (w->opcode > 15 || !op->services)
        return why_of(CAUSE_request_malformed, w->opcode, w->num_sge, 0, 0);
    if (!req_is_offered(qp, op))
        return why_of(CAUSE_request_of_other_service, op->wc, qp->type, 0, 0);
    if ((op->traits & REQ_RETURNS_DATA) && (w->flags & SQE_INLINE))
        return why_of(CAUSE_request_inline_result, op->wc, 0, 0, 0);
    if ((op->traits & REQ_HAS_RESPONSE) && !qp->attr.max_rd_atomic)
        return why_of(CAUSE_request_reads_not_allowed, qp->attr.max_rd_atomic, 0, 0, 0);
    if (qp->service == PKT_UD && s->packets) /* it was good when it was taken */
        return why_of(CAUSE_request_address_handle, w->ud.ah, 0, 0, 0);
    return why_of(CAUSE_request_malformed, op->wc, w->num_sge, 0, 0);
}

static struct why length(const struct qp *qp, const struct send_slot *s)
{
    const struct req_op *op = &req_ops[s->wqe.h.opcode & 15];
    uint64_t len = req_message_len(&s->wqe);

    if ((op->traits & REQ_EIGHT_BYTES) && len != sizeof(uint64_t))
        return why_of(CAUSE_atomic_length, len, 0, 0, 0);
    if (qp->service == SERVICE_RAW)
        return why_of(CAUSE_raw_frame_length, len, 0, 0, 0);
    if (qp->service == PKT_UD)
        return why_of(CAUSE_datagram_too_long, len, qp->mtu, 0, 0);
    return why_of(CAUSE_request_too_long, len, MESSAGE_MAX, 0, 0);
}

static struct why window(const struct engine *e, const struct qp *qp, const struct send_slot *s)
{
    const struct sqe *w = &s->wqe.h;
    struct why why =
        why_of(CAUSE_window_bind, w->rkey, w->bind.region_key, w->remote_addr, w->bind.length);
    struct window_bind b = local_bind(qp, w);
    struct mr_about about;

    mr_about(e->cfg.mrs, w->bind.region_key, qp->pd, qp->qpn, &about);
    why.detail[4] = window_bind_why(e->cfg.mrs, &b);
    why.detail[5] = w->bind.access | WHY_RIGHTS;
    if (about.is != MR_KEY_REGION)
        return why;
    why.detail[6] = about.access | WHY_RIGHTS;
    why.detail[7] = about.va;
    why.detail[8] = about.len;
    return why;
}

static struct why refused(enum cause cause, const struct send_slot *s)
{
    const struct sqe *w = &s->wqe.h;
    const struct req_op *op = &req_ops[w->opcode & 15];
    bool remote = op->traits & (REQ_HAS_REMOTE | REQ_HAS_RESPONSE);

    return why_of(cause, op->wc, remote ? w->remote_addr : 0, remote ? w->rkey : 0, s->len);
}

static struct why judge(struct engine *e, struct qp *qp, const struct send_slot *s)
{
    if (s->judged && !s->started)
        return why_of(CAUSE_status_on_purpose, 0, 0, 0, 0);
    switch (s->status) {
    case WC_LOC_PROT_ERR:
        return protection(e, qp, s);
    case WC_LOC_QP_OP_ERR:
        return operation(qp, s);
    case WC_LOC_LEN_ERR:
        return length(qp, s);
    case WC_MW_BIND_ERR:
        return s->wqe.h.opcode == SQE_LOCAL_INV ? invalidate(e, qp, s->wqe.h.imm)
                                                : window(e, qp, s);
    case WC_BAD_RESP_ERR:
        return why_of(CAUSE_response_malformed, req_ops[s->wqe.h.opcode & 15].wc, s->len, 0, 0);
    case WC_REM_INV_REQ_ERR:
        return refused(CAUSE_refused_request, s);
    case WC_REM_ACCESS_ERR:
        return refused(CAUSE_refused_access, s);
    case WC_REM_OP_ERR:
        return refused(CAUSE_refused_operation, s);
    case WC_RNR_RETRY_EXC_ERR:
        return why_of(CAUSE_receiver_not_ready, counter_get(&qp->counters.rnr_nak_rcvd),
                      qp->attr.rnr_retry, 0, 0);
    default:
        return why_no_answer(e, qp);
    }
}

void why_send_failed(struct engine *e, struct qp *qp, const struct send_slot *s)
{
    struct incident i = {.kind = INCIDENT_SEND,
                         .has_wr = true,
                         .wr_id = s->wqe.h.wr_id,
                         .status = s->status,
                         .opcode = req_ops[s->wqe.h.opcode & 15].wc};
    struct why why = judge(e, qp, s);

    why_set(qp, &why);
    why_put(e, qp, &qp->why.is, &i);
}

void why_faulted(struct engine *e, struct qp *qp, enum fault fault)
{
    const struct responder *resp = &qp->resp;
    struct incident i = {
        .kind = INCIDENT_REQUEST, .status = fault_rules[fault].recv_status, .opcode = WC_RECV};

    why_set_fault(e, qp, fault); /* unless resp_fault has */
    if (resp->recv_busy) {
        i.has_wr = true;
        i.wr_id = resp->recv->h.wr_id;
    }
    why_put(e, qp, &qp->why.is, &i);
}
