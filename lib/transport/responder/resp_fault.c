/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fault of the responder means for its queue pair, by the table of fault.c. */
#include "responder.h"

void resp_fault(struct engine *e, struct qp *qp, enum fault fault, psn_t at)
{
    const struct fault_rule *rule = &fault_rules[fault];

    if (qp->fault) /* the first one decides */
        return;
    note(e, qp, TRACE_FAULT, fault, at.v);
    if (!qp_is_reliable(qp) && !rule->own) { /* the message is dropped silently (9.8.2, 9.8.3) */
        counter_inc(&qp->counters.rx_discards);
        why_tell(e, qp, fault);
        return;
    }
    counter_inc((counter_t *)((char *)&qp->counters + rule->counter));
    if (rule->syndrome != FAULT_SILENT && qp_is_reliable(qp)) {
        uint8_t timer = fault == FAULT_RNR ? qp->attr.min_rnr_timer & AETH_VALUE_MASK : 0;

        resp_commit_nak(e, qp, rule->syndrome | timer, at);
    }
    if (rule->fatal) {
        why_set_fault(e, qp, fault);
        qp->fault = fault;
        engine_touch(e, qp);
    } else {
        why_tell(e, qp, fault);
    }
}

void resp_memory_fault(struct engine *e, struct qp *qp, unsigned job)
{
    struct responder *resp = &qp->resp;

    if (qp->fault == FAULT_MEMORY && resp->failed_job <= job)
        return;
    qp->fault = FAULT_NONE;
    resp->failed_job = job;
    why_copy_fault(
        e, qp, pkt_info(&e->rx_job[job].pkt)->kind == KIND_SEND ? WHY_RECEIVE : WHY_REMOTE_TARGET,
        job);
    resp_fault(e, qp, FAULT_MEMORY, e->rx_job[job].pkt.psn);
}
