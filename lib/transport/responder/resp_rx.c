/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder of RC and XRC: sorts a request by its PSN. The expected one is judged, executed and
 * committed; so is a batch of WRITEs or SENDs, whose PSNs the batch path has compared.
 */
#include "count.h"
#include "resp_map.h"
#include "resp_store.h"
#include "responder.h"
#include "rx_batch.h"

static __attribute__((noinline)) enum fault execute_other(struct engine *e, struct qp *qp,
                                                          unsigned job, uint8_t kind)
{
    switch (kind) {
    case KIND_READ_REQUEST:
        resp_read(e, qp, job);
        return FAULT_NONE;
    case KIND_ATOMIC_WRITE:
        return resp_atomic_write(e, qp, job);
    case KIND_FLUSH:
        return resp_flush(e, qp, job);
    default:
        return resp_atomic(e, qp, job);
    }
}

enum fault resp_execute(struct engine *e, struct qp *qp, unsigned job)
{
    uint8_t kind = pkt_info(&e->rx_job[job].pkt)->kind;

    if (kind == KIND_SEND)
        return resp_send(e, qp, job);
    return kind == KIND_WRITE ? resp_write(e, qp, job) : execute_other(e, qp, job, kind);
}

/* PSNs of a request: a READ has those of its responses. */
static uint32_t psns_of(const struct qp *qp, const struct pkt *p, uint8_t kind)
{
    return kind == KIND_READ_REQUEST ? packets_for(p->reth.len, qp->mtu) : 1;
}

/* The expected request. */
static void request_expected(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p)
{
    const struct opcode_info *info = pkt_info(p);
    bool has_response = kind_has_response(info->kind);
    enum fault fault = resp_check(e, qp, job);
    struct resp_progress progress;

    if (fault == FAULT_NONE)
        fault = resp_execute(e, qp, job);
    if (unlikely(fault != FAULT_NONE)) {
        if (fault != FAULT_TOO_MANY_READS || !qp->selective) {
            count_refused(e, qp, info->kind, fault);
            resp_fault(e, qp, fault, p->psn);
        } else
            resp_keep(e, qp, &e->rx_job[job], 0); /* until a resource is free */
        return;
    }
    progress.next = psn_add(p->psn, psns_of(qp, p, info->kind));
    progress.messages = !has_response && (info->flags & PF_END);
    progress.wants_ack = p->ack_req && !has_response;
    progress.ack_psn = p->psn;
    resp_commit(e, qp, &progress);
    if (has_response)
        engine_tx_answer(e, qp, psns_of(qp, p, info->kind));
    if (has_response && info->kind != KIND_READ_REQUEST)
        resp_note_written(e, qp);
}

void resp_rx(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    int32_t ahead = psn_diff(p->psn, qp->resp.epsn);
    bool new_gap;

    if (qp->fault) /* on its way to the error state, or suspended */
        return;
    if (ahead == 0) {
        request_expected(e, qp, job, p);
    } else if (ahead < 0) {
        resp_duplicate(e, qp, p);
    } else {
        counter_inc(&qp->counters.out_of_sequence);
        new_gap = resp_keep(e, qp, &e->rx_job[job], ahead);
        if (!qp->resp.nak_sent && !resp_has_next(qp)) {
            resp_fault(e, qp, FAULT_PSN_SEQUENCE, qp->resp.epsn);
            new_gap = true;
        }
        if (new_gap || p->ack_req)
            resp_owe_map(e, qp);
    }
}

/* Nothing is acknowledged. */
static __attribute__((noinline)) void commit_uc_batch(struct rx_batch *b, unsigned n)
{
    resp_commit_uc(b->qp, psn_add(b->qp->resp.epsn, n - 1));
    if (b->messages)
        resp_note_written(b->e, b->qp);
}

void resp_commit_batch(struct rx_batch *b, unsigned n)
{
    struct resp_progress p = {.next = psn_add(b->qp->resp.epsn, n), .messages = b->messages};

    if (unlikely(b->qp->service == PKT_UC)) {
        commit_uc_batch(b, n);
        return;
    }
    while (n-- > 0 && !p.wants_ack) {
        const uint8_t *bth = b->span[n].bth;

        p.wants_ack = bth_wants_ack(bth);
        p.ack_psn = bth_psn(bth);
    }
    resp_commit(b->e, b->qp, &p);
}
