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

/* By enum mr_fault. */
static const uint8_t remote_cause[] = {[MR_BAD_KEY] = CAUSE_remote_key_unknown,
                                       [MR_BAD_PD] = CAUSE_remote_key_other_domain,
                                       [MR_BAD_ACCESS] = CAUSE_remote_key_no_right,
                                       [MR_BAD_RANGE] = CAUSE_remote_key_range};
static const uint8_t local_cause[] = {[MR_BAD_KEY] = CAUSE_local_key_unknown,
                                      [MR_BAD_PD] = CAUSE_local_key_other_domain,
                                      [MR_BAD_ACCESS] = CAUSE_local_key_no_right,
                                      [MR_BAD_RANGE] = CAUSE_local_key_range};

/* A key that is unknown may have been known before. */
static struct why access_why(const struct engine *e, enum mr_fault found, bool remote, uint32_t key,
                             uint64_t va, uint64_t len, uint32_t need)
{
    uint64_t at = found == MR_BAD_KEY ? mr_removed_at(e->cfg.mrs, key) : 0;

    if (at)
        return why_of(remote ? CAUSE_remote_key_removed : CAUSE_local_key_removed, key, va, len,
                      (e->now - min_of(e->now, at)) / NS_PER_US);
    return why_of(remote ? remote_cause[found] : local_cause[found], key, va, len, need);
}

enum fault why_access_fault(struct engine *e, struct qp *qp, enum fault fault, enum mr_fault found,
                            uint32_t key, uint64_t va, uint64_t len, uint32_t need)
{
    if (found == MR_OK || found >= ARRAY_SIZE(remote_cause))
        return fault;
    qp->why.found = access_why(e, found, true, key, va, len, need);
    qp->why.found_of = fault;
    return fault;
}

bool why_local_access(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                      uint32_t need, struct why *out)
{
    struct mem_region *mr;

    for (unsigned i = 0; i < n; i++) {
        enum mr_fault f = sge[i].length ? mr_check(&e->mrs, sge[i].lkey, pd, sge[i].addr,
                                                   sge[i].length, need, &mr)
                                        : MR_OK;

        if (f == MR_OK || f >= ARRAY_SIZE(local_cause))
            continue;
        *out = access_why(e, f, false, sge[i].lkey, sge[i].addr, sge[i].length, need);
        return true;
    }
    return false;
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
        if (why_local_access(e, resp->recv_pd, resp->recv->sge, resp->recv->h.num_sge,
                             MEM_LOCAL_WRITE, out))
            return true;
        *out = why_of(CAUSE_local_memory_gone, resp->recv->sge[0].addr, resp->recv->sge[0].length,
                      0, 0);
        return resp->recv->h.num_sge;
    }
    if (fault == FAULT_RECV_MALFORMED) {
        *out = why_of(CAUSE_receive_malformed, resp->recv->h.num_sge, 0, 0, 0);
        return true;
    }
    return false;
}

static struct why fault_why(struct engine *e, struct qp *qp, enum fault fault)
{
    struct why why = why_of(fault_cause[fault], 0, 0, 0, 0);

    if (qp->why.found_of == fault)
        why = qp->why.found;
    else if (!receive_why(e, qp, fault, &why) && fault == FAULT_TOO_MANY_READS)
        why.detail[0] = qp->resp.res_max;
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

void why_tell_drop(struct engine *e, struct qp *qp, enum drop reason, const struct pkt *p)
{
    struct why why;

    if (reason == DROP_qkey_mismatch)
        why = why_of(CAUSE_qkey_mismatch, p->deth.qkey, qp->qkey, 0, 0);
    else if (reason == DROP_service_mismatch)
        why = why_of(CAUSE_service_mismatch, p->opcode, qp->type, 0, 0);
    else if (reason == DROP_source_mismatch)
        why = why_of(CAUSE_packets_from_elsewhere, 1, 0, 0, 0);
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

uint32_t why_drops(const struct engine *e, uint32_t qpn, uint64_t since, enum drop *reason)
{
    const struct trace *t = &e->trace;
    uint64_t end = atomic_load_explicit(&t->count, memory_order_acquire);
    uint32_t of[DROP_COUNT] = {0}, drops = 0, most = 0;

    *reason = DROP_NONE;
    for (uint64_t n = end > TRACE_RECORDS ? end - TRACE_RECORDS : 0; n < end; n++) {
        const _Atomic uint64_t *w = t->word[n & (TRACE_RECORDS - 1)];
        uint64_t what = atomic_load_explicit(&w[1], memory_order_relaxed);
        uint32_t why = (uint32_t)atomic_load_explicit(&w[2], memory_order_relaxed);

        if (what != ((uint64_t)TRACE_DROP << 32 | qpn) || why >= DROP_COUNT ||
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
    i->drops = why_drops(e, qp->qpn, 0, &reason);
    i->drop_reason = (uint8_t)reason;
#define X(name) i->counter.name = (uint32_t)counter_get(&qp->counters.name);
    INCIDENT_COUNTERS(X)
#undef X
    incident_put(&e->incidents, i);
}
