/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a work request of the send queue failed. The path that finds a fault records a status alone:
 * here, where the completion is made, the same questions are asked again. What does not answer them
 * is what is left: memory that could not be reached.
 */
#include "completion.h"
#include "id_tables.h"
#include "requester.h"

static struct why protection(struct engine *e, const struct qp *qp, const struct send_slot *s)
{
    const struct send_wqe *w = &s->wqe;
    const struct req_op *op = &req_ops[w->h.opcode & 15];
    unsigned n = w->h.flags & SQE_INLINE ? 0 : w->h.num_sge;
    uint32_t need = op->traits & REQ_RETURNS_DATA ? MEM_LOCAL_WRITE : MEM_LOCAL_READ;
    struct why why;

    if (why_local_access(e, qp->pd, w->sge, n, need, &why))
        return why;
    return why_of(CAUSE_local_memory_gone, n ? w->sge[0].addr : 0, n ? w->sge[0].length : 0, 0, 0);
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
    if (w->opcode == SQE_LOCAL_INV)
        return why_of(CAUSE_local_invalidate, w->imm, 0, 0, 0);
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

static struct why window(const struct send_slot *s)
{
    const struct sqe *w = &s->wqe.h;

    return why_of(CAUSE_window_bind, w->rkey, w->bind.region_key, w->remote_addr, w->bind.length);
}

static struct why refused(enum cause cause, const struct send_slot *s)
{
    const struct sqe *w = &s->wqe.h;
    const struct req_op *op = &req_ops[w->opcode & 15];
    bool remote = op->traits & (REQ_HAS_REMOTE | REQ_HAS_RESPONSE);

    return why_of(cause, op->wc, remote ? w->remote_addr : 0, remote ? w->rkey : 0, s->len);
}

/* ---- no answer ---- */

/* The peer, if its address is one of this port; true: it is, and *peer may be NULL. */
static bool local_peer(const struct engine *e, const struct qp *qp, const struct qp **peer)
{
    const struct gid_table *gids = e->cfg.port->gids; /* NULL: a replayed port has any address */

    if (!gids || gid_table_find(gids, &qp->av.dgid, qp->av.gid_type, qp->av.vlan) < 0)
        return false;
    *peer = qp_table_lookup(e->cfg.qps, qp->attr.dest_qpn);
    return true;
}

static struct why dropped(enum drop reason, uint32_t packets, uint32_t at_peer)
{
    switch (reason) {
    case DROP_bad_icrc:
        return why_of(CAUSE_packets_damaged, packets, 0, 0, 0);
    case DROP_source_mismatch:
    case DROP_sender_mismatch:
    case DROP_wrong_destination:
        return why_of(CAUSE_packets_from_elsewhere, packets, 0, 0, 0);
    case DROP_fault_rule:
        return why_of(CAUSE_packets_dropped_on_purpose, packets, 0, 0, 0);
    default:
        return at_peer ? why_of(CAUSE_requests_dropped, at_peer, reason, packets, 0)
                       : why_of(CAUSE_answers_dropped, reason, packets, 0, 0);
    }
}

/* Whether packets of the connection were dropped, at either end, since retries began. */
static bool find_drops(const struct engine *e, const struct qp *qp, const struct qp *peer,
                       struct why *out)
{
    const struct engine *at = peer ? qp_owner_engine(peer) : NULL;
    uint64_t began = qp->why.rx_seen_at ? qp->why.rx_seen_at : e->now;
    uint64_t before = 2 * qp->ack_timeout + NS_PER_MS;
    uint64_t since = began - min_of(began, before);
    enum drop reason;
    uint32_t n = at ? why_drops(at, qp->attr.dest_qpn, since, &reason) : 0;

    if (n) {
        *out = dropped(reason, n, qp->attr.dest_qpn);
        return true;
    }
    n = why_drops(e, qp->qpn, since, &reason);
    if (n)
        *out = dropped(reason, n, 0);
    return n;
}

/* What is wrong with a peer on the same port, as far as its queue pair shows; its attributes are
 * its own worker's. */
static bool judge_peer(const struct engine *e, const struct qp *qp, const struct qp *peer,
                       bool answered, struct why *out)
{
    uint32_t number = qp->attr.dest_qpn, to;
    uint8_t state;

    if (!peer) {
        *out = why_of(answered ? CAUSE_peer_qp_gone : CAUSE_peer_qp_unknown, number, 0, 0, 0);
        return true;
    }
    state = __atomic_load_n(&peer->state, __ATOMIC_RELAXED);
    if (state < QPS_RTR || state > QPS_SQE)
        *out = why_of(CAUSE_peer_qp_state, number, state, 0, 0);
    if (out->cause)
        return true;
    to = qp_owner_engine(peer) == e ? peer->attr.dest_qpn : QPN_NONE;  /* not known */
    if (qp->dest_qpn != QPN_NONE && (to == qp->qpn || to == QPN_NONE)) /* not held, either */
        return false;
    *out = why_of(CAUSE_peer_qp_elsewhere, number, to, 0, 0);
    return true;
}

static struct why no_answer(struct engine *e, struct qp *qp)
{
    uint64_t rx = counter_get(&qp->counters.rx_packets) - qp->why.rx_base;
    uint64_t timeouts = counter_get(&qp->counters.timeouts);
    uint64_t tx = counter_get(&qp->counters.tx_packets);
    bool silent = qp->why.rx_seen_at && qp->why.rx_seen - qp->why.rx_base == rx;
    uint64_t us = silent ? (e->now - qp->why.rx_seen_at) / NS_PER_US : 0;
    const struct qp *peer = NULL;
    bool local = local_peer(e, qp, &peer);
    struct why why = {.cause = CAUSE_none};

    if (local && judge_peer(e, qp, peer, rx, &why))
        return why;
    if (find_drops(e, qp, peer, &why))
        return why;
    if (!silent)
        return why_of(CAUSE_retries_used_up, qp->attr.retry_cnt,
                      counter_get(&qp->counters.seq_nak_rcvd), 0, 0);
    if (!rx)
        return why_of(CAUSE_no_answer, timeouts, qp->attr.retry_cnt, tx, us);
    if (!qp->attr.retry_cnt)
        return why_of(CAUSE_no_retries, timeouts, tx, 0, 0);
    return why_of(CAUSE_answers_stopped, timeouts, qp->attr.retry_cnt, rx, us);
}

/* ---- */

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
        return window(s);
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
        return no_answer(e, qp);
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
