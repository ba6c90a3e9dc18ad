/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes atomics, ATOMIC WRITEs and FLUSHes that have been judged: after all bytes that earlier
 * requests of the burst have left to be copied. Each gets its resource, and is answered later
 * (resp_reply.c, resp_batch_reply.c). A batch is of atomics in mapped memory.
 */
#include <errno.h>

#include "late.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"
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

/* ---- a batch of atomics ---- */

/* Where bytes of earlier requests wait to be copied, or could not be, the general path looks at
 * that first. */
unsigned resp_admit_atomics(struct rx_batch *b, unsigned n)
{
    const struct responder *resp = &b->qp->resp;

    if (b->e->batch.n || b->e->copies_failed || !resp_right_ok(b->qp, MEM_REMOTE_ATOMIC) ||
        !resp_order_ok(resp, PF_START, RESP_IDLE))
        return 0;
    return min_of(n, resp->res_max);
}

/* The 8 bytes in mapped memory; NULL: the general path must judge the request. */
static uint8_t *find_target(struct rx_batch *b, struct mr_grant *g, const uint8_t *eth)
{
    uint64_t va = atomic_eth_va(eth);
    uint8_t *at = mr_grant_lookup(b->e, b->qp, g, &b->qp->resp.atomic_hint, atomic_eth_rkey(eth),
                                  MEM_REMOTE_ATOMIC, va, 8);

    return resp_aligned_ok(va) && mem_atomic_fits(at) ? at : NULL;
}

static void execute(struct resp_resource *r, const uint8_t *bth, uint8_t *at)
{
    const uint8_t *eth = bth + BTH_LEN;
    bool swap = bth_opcode(bth) == OPCODE(PKT_RC, OP_CMP_SWP);

    r->kind = swap ? KIND_CMP_SWP : KIND_FETCH_ADD;
    r->original = mem_atomic_mapped(at, swap ? MEM_CMP_SWP : MEM_FETCH_ADD,
                                    atomic_eth_swap_add(eth), atomic_eth_compare(eth));
}

unsigned resp_place_atomics(struct rx_batch *b, unsigned n)
{
    struct responder *resp = &b->qp->resp;
    struct mr_grant g = {.direct = NULL};
    uint32_t at = resp_next_resource(resp);
    psn_t next = resp->epsn;
    unsigned i;

    for (i = 0; i < n; i++) {
        const uint8_t *bth = b->span[i].bth;
        struct resp_resource *r = &resp->res[at];
        uint8_t *target;

        if (r->pending) /* as resp_place_reads */
            break;
        target = find_target(b, &g, bth + BTH_LEN);
        if (!target)
            break;
        *r = (struct resp_resource){
            .pending = true, .first = next, .packets = 1, .all = 1, .msn = resp->msn + i + 1};
        execute(r, bth, target);
        next = psn_add(next, 1);
        at = at + 1 < resp->res_max ? at + 1 : 0;
    }
    b->next = next;
    return i;
}

void resp_commit_atomic_batch(struct rx_batch *b, unsigned n)
{
    resp_commit_reads(b->e, b->qp, n, b->next);
    resp_note_written(b->e, b->qp);
}
