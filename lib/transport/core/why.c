/* SPDX-License-Identifier: BSD-3-Clause */
/* Causes and incidents of queue pairs: see why.h. */
#include "why.h"

#include "engine_private.h"

/* ---- what is found ---- */

enum fault why_fault_found(struct qp *qp, enum fault fault, enum cause cause, uint64_t a,
                           uint64_t b, uint64_t c, uint64_t d)
{
    qp->why.found = why_of(cause, a, b, c, d);
    qp->why.found_of = fault;
    return fault;
}

/* ---- what is decided ---- */

void why_set(struct qp *qp, const struct why *why)
{
    if (!qp->why.is.cause)
        qp->why.is = *why;
}

void why_set_cause(struct qp *qp, enum cause cause)
{
    struct why why = why_of(cause, 0, 0, 0, 0);

    why_set(qp, &why);
}

/* Of faults about which nothing more was said. */
static const uint8_t fault_cause[FAULT_COUNT] = {
    [FAULT_RNR] = CAUSE_receive_queue_empty,
    [FAULT_OPCODE_SEQUENCE] = CAUSE_opcode_sequence,
    [FAULT_UNSUPPORTED] = CAUSE_operation_unsupported,
    [FAULT_QP_ACCESS] = CAUSE_qp_no_right,
    [FAULT_LENGTH] = CAUSE_packet_length,
    [FAULT_TOO_MANY_READS] = CAUSE_reads_too_many,
    [FAULT_MISALIGNED] = CAUSE_atomic_misaligned,
    [FAULT_INVALIDATE] = CAUSE_invalidate_refused,
    [FAULT_RECV_TOO_SMALL] = CAUSE_receive_too_small,
    [FAULT_REMOTE_ACCESS] = CAUSE_remote_key_unknown,
    [FAULT_RECV_PROTECTION] = CAUSE_local_memory_gone,
    [FAULT_RECV_MALFORMED] = CAUSE_receive_malformed,
    [FAULT_QUEUE_INDEX] = CAUSE_queue_index,
    [FAULT_MEMORY] = CAUSE_local_memory_gone,
    [FAULT_CQ_OVERRUN] = CAUSE_cq_overrun,
};

/* What is wrong with the receive that is in use; of others nothing is known. */
static bool receive_why(struct engine *e, const struct qp *qp, enum fault fault, struct why *out)
{
    const struct responder *resp = &qp->resp;

    if (!resp->recv_busy)
        return false;
    if (fault == FAULT_RECV_PROTECTION || fault == FAULT_MEMORY) {
        if (why_local_access(e, qp, resp->recv_pd, resp->recv->sge, resp->recv->h.num_sge,
                             MEM_LOCAL_WRITE, out))
            return true;
        *out = why_memory_gone(WHY_RECEIVE, resp->recv->sge[0].addr, resp->recv->sge[0].length,
                               resp->recv->sge[0].lkey);
        return resp->recv->h.num_sge;
    }
    if (fault == FAULT_RECV_MALFORMED) {
        *out = why_of(CAUSE_receive_malformed, resp->recv->h.num_sge, 0, 0, 0);
        return true;
    }
    return false;
}

static void add_limits(const struct qp *qp, enum fault fault, struct why *why)
{
    if (fault == FAULT_TOO_MANY_READS)
        why->detail[0] = qp->resp.res_max;
    else if (fault == FAULT_RNR)
        why->detail[0] = !qp->srq && !qp->resp.rq.cons; /* none was ever taken */
}

static struct why fault_why(struct engine *e, struct qp *qp, enum fault fault)
{
    struct why why = why_of(fault_cause[fault], 0, 0, 0, 0);

    if (qp->why.found_of == fault)
        why = qp->why.found;
    else if (!receive_why(e, qp, fault, &why))
        add_limits(qp, fault, &why);
    qp->why.found_of = FAULT_NONE;
    return why;
}

void why_set_fault(struct engine *e, struct qp *qp, enum fault fault)
{
    struct why why = fault_why(e, qp, fault);

    why_set(qp, &why);
}

static bool is_told(const struct qp *qp, uint8_t cause)
{
    return qp->why.told[cause / 64] >> cause % 64 & 1;
}

static void tell(struct engine *e, struct qp *qp, const struct why *why)
{
    struct incident i = {.kind = INCIDENT_DROPPED};

    if (is_told(qp, why->cause))
        return;
    qp->why.told[why->cause / 64] |= UINT64_C(1) << why->cause % 64;
    why_put(e, qp, why, &i);
}

void why_tell(struct engine *e, struct qp *qp, enum fault fault)
{
    struct why why;

    if (!fault_cause[fault])
        return;
    why = fault_why(e, qp, fault);
    tell(e, qp, &why);
}

/* Which part of the connection's addresses a packet does not have. */
static struct why from_elsewhere(const struct engine *e, const struct rx_job *job)
{
    const struct address_vector *av = &job->qp->av;
    const struct encap_view *v = &job->view;
    const struct gid_entry *to = v->gid_index < 0 ? NULL : &e->cfg.port->gids->entry[v->gid_index];
    bool source = !gid_eq(&v->sgid, &av->dgid), target = !source && !gid_eq(&v->dgid, &av->sgid);
    struct why why = why_of(CAUSE_packets_from_elsewhere, 1, job->qp->qpn, 0, 0);

    memcpy(&why.detail[2], target ? v->dgid.raw : v->sgid.raw, sizeof(v->sgid));
    memcpy(&why.detail[4], target ? av->sgid.raw : av->dgid.raw, sizeof(av->sgid));
    why.detail[6] = source                       ? WHY_OTHER_SOURCE
                    : target                     ? WHY_OTHER_TARGET
                    : to && to->vlan != av->vlan ? WHY_OTHER_VLAN
                                                 : WHY_OTHER_VERSION;
    return why;
}

void why_tell_drop(struct engine *e, enum drop reason, const struct rx_job *job)
{
    struct qp *qp = job->qp;
    struct why why;

    if (reason == DROP_qkey_mismatch)
        why = why_of(CAUSE_qkey_mismatch, job->pkt.deth.qkey, qp->qkey, 0, 0);
    else if (reason == DROP_service_mismatch)
        why = why_of(CAUSE_service_mismatch, job->pkt.opcode, qp->type, 0, 0);
    else if (reason == DROP_source_mismatch)
        why = from_elsewhere(e, job);
    else
        return;
    tell(e, qp, &why);
}

void why_note_silence(struct engine *e, struct qp *qp)
{
    uint64_t rx = counter_get(&qp->counters.rx_packets);

    if (qp->why.rx_seen_at && rx == qp->why.rx_seen)
        return;
    qp->why.rx_seen = rx;
    qp->why.rx_seen_at = e->now ? e->now : 1;
}

void why_note_end(const struct engine *e, struct qp *qp)
{
    __atomic_store_n(&qp->why.ended_for, qp->why.is.cause, __ATOMIC_RELAXED);
    __atomic_store_n(&qp->why.ended_at, e->now, __ATOMIC_RELAXED);
}

void why_reset(struct qp *qp)
{
    struct qp_why *w = &qp->why;

    w->is.cause = CAUSE_none;
    memset(w->told, 0, sizeof(w->told));
    w->found_of = FAULT_NONE;
    w->rx_base = counter_get(&qp->counters.rx_packets);
    w->rx_seen_at = 0;
}

/* ---- incidents ---- */

uint32_t why_drops(const struct engine *e, enum trace_event event, uint32_t qpn, uint64_t since,
                   enum drop *reason)
{
    const struct trace *t = &e->trace;
    uint64_t end = atomic_load_explicit(&t->count, memory_order_acquire);
    uint32_t of[DROP_COUNT] = {0}, drops = 0, most = 0;

    *reason = DROP_NONE;
    for (uint64_t n = end > TRACE_RECORDS ? end - TRACE_RECORDS : 0; n < end; n++) {
        const _Atomic uint64_t *w = t->word[n & (TRACE_RECORDS - 1)];
        uint64_t what = atomic_load_explicit(&w[1], memory_order_relaxed);
        uint32_t why = (uint32_t)atomic_load_explicit(&w[2], memory_order_relaxed);

        if (what != ((uint64_t)event << 32 | qpn) || why >= DROP_COUNT ||
            atomic_load_explicit(&w[0], memory_order_relaxed) < since)
            continue;
        drops++;
        if (++of[why] > most) {
            most = of[why];
            *reason = (enum drop)why;
        }
    }
    return drops;
}

void why_put(struct engine *e, const struct qp *qp, const struct why *why, struct incident *i)
{
    enum drop reason;

    i->time = e->now;
    i->cause = why->cause;
    memcpy(i->detail, why->detail, sizeof(i->detail));
    i->silent = qp->why.rx_seen_at ? e->now - min_of(e->now, qp->why.rx_seen_at) : 0;
    i->qpn = qp->qpn;
    if (qp->service != PKT_UD && qp->service != SERVICE_RAW) {
        i->dest_qpn = qp->attr.dest_qpn;
        memcpy(i->dgid, qp->av.dgid.raw, sizeof(i->dgid));
    }
    i->qp_type = qp->type;
    i->program = qp->why.program;
    i->drops = why_drops(e, TRACE_DROP, qp->qpn, 0, &reason);
    i->drop_reason = (uint8_t)reason;
#define X(name) i->counter.name = (uint32_t)counter_get(&qp->counters.name);
    INCIDENT_COUNTERS(X)
#undef X
    incident_put(&e->incidents, i);
}
