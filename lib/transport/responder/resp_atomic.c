/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes atomics, ATOMIC WRITEs and FLUSHes that have been judged: after all bytes that earlier
 * requests of the burst have left to be copied. Each gets its resource, and is answered later
 * (resp_reply.c, resp_batch_reply.c). Batches of them are in resp_batch_atomic.c.
 */
#include <errno.h>

#include "late.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_flush.h"

/* What these calls take where the memory is copied is charged as other copies are (sg.c). */
static void charge_atomic(struct qp *qp, const struct mem_region *mr, unsigned calls)
{
    if (!mr->direct)
        share_charge_caused(qp->share, (uint64_t)calls * COST_COPY);
}

enum fault resp_atomic(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    enum mem_atomic_op op = pkt_info(p)->kind == KIND_CMP_SWP ? MEM_CMP_SWP : MEM_FETCH_ADD;
    struct mr_span span;
    uint64_t original = 0;
    enum mr_fault f;
    int err;

    rx_flush(e); /* earlier WRITEs of this burst come first */
    if (qp->fault)
        return qp->fault;
    f = mr_check_remote(&e->mrs, p->atomic.rkey, resp_domain(e, qp, job), qp->qpn, p->atomic.va, 8,
                        MEM_REMOTE_ATOMIC, &span);
    if (f != MR_OK)
        return why_access_fault(e, qp, FAULT_REMOTE_ACCESS, f, p->atomic.rkey, p->atomic.va, 8,
                                MEM_REMOTE_ATOMIC);
    if (mem_refuses(&e->batch, span.mr)) {
        mr_span_end(&span);
        return late_wait(e, qp);
    }
    charge_atomic(qp, span.mr, 2); /* it is read, and written */
    err = mem_atomic(&e->batch, span.mr, span.addr, op, p->atomic.swap_add, p->atomic.compare,
                     &original, job);
    mr_span_end(&span);
    if (err && err != -EINPROGRESS) /* else engine_call_ended stores the original value */
        return why_fault_found(qp, FAULT_MEMORY, CAUSE_local_memory_gone, WHY_REMOTE_TARGET,
                               p->atomic.va, 8, p->atomic.rkey);
    resp_open_resource(qp, pkt_info(p)->kind, p->psn, 1)->original = original;
    return FAULT_NONE;
}

/* A19.4.3: eight bytes at once, after all earlier requests and before all later ones. */
enum fault resp_atomic_write(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct mr_span span;
    enum mr_fault f;
    int err;

    rx_flush(e);
    if (qp->fault)
        return qp->fault;
    f = mr_check_remote(&e->mrs, p->reth.rkey, resp_domain(e, qp, job), qp->qpn, p->reth.va, 8,
                        MEM_REMOTE_WRITE, &span);
    if (f != MR_OK)
        return why_access_fault(e, qp, FAULT_REMOTE_ACCESS, f, p->reth.rkey, p->reth.va, 8,
                                MEM_REMOTE_WRITE);
    if (mem_refuses(&e->batch, span.mr)) {
        mr_span_end(&span);
        return late_wait(e, qp);
    }
    charge_atomic(qp, span.mr, 1);
    err = mem_store8(&e->batch, span.mr, span.addr, p->payload, job);
    mr_span_end(&span);
    if (err && err != -EINPROGRESS)
        return why_fault_found(qp, FAULT_MEMORY, CAUSE_local_memory_gone, WHY_REMOTE_TARGET,
                               p->reth.va, 8, p->reth.rkey);
    resp_open_resource(qp, pkt_info(p)->kind, p->psn, 1);
    return FAULT_NONE;
}

/* FLUSH: earlier WRITEs are visible when the queued copies are done (A19.4.2). */
enum fault resp_flush(struct engine *e, struct qp *qp, unsigned job)
{
    rx_flush(e);
    if (!qp->fault)
        resp_open_resource(qp, KIND_FLUSH, e->rx_job[job].pkt.psn, 1);
    return qp->fault;
}
