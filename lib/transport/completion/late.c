/* SPDX-License-Identifier: BSD-3-Clause */
/* Suspending queue pairs whose copies have not ended, and forgetting that: see late.h. */
#include <stdlib.h>

#include "completion.h"
#include "id_tables.h"
#include "late_private.h"
#include "srq.h"

/* ---- a call is late ---- */

static bool suspend(struct qp *qp)
{
    if (qp->fault == FAULT_SUSPENDED)
        return true;
    qp->late = calloc(1, sizeof(*qp->late));
    if (!qp->late)
        return false;
    qp->late->before = qp->fault;
    qp->fault = FAULT_SUSPENDED;
    return true;
}

static struct late_part rx_part(const struct engine *e, unsigned job)
{
    const struct rx_job *rx = &e->rx_job[job];

    return (struct late_part){.qp = rx->qp,
                              .kind = rx->is_response ? LATE_RESPONSE : LATE_REQUEST,
                              .job = job,
                              .slot = rx->slot,
                              .psn = rx->pkt.psn};
}

static struct late_part tx_part(const struct engine *e, unsigned job)
{
    const struct tx_job *tx = &e->tx_job[job];

    return (struct late_part){.qp = tx->qp,
                              .kind = tx->is_reply ? LATE_REPLY : LATE_SEND,
                              .job = job,
                              .slot = tx->slot,
                              .psn = tx->psn};
}

/* Without memory to suspend a queue pair the copy counts as failed. */
static void fail_now(struct engine *e, const struct mem_call *call, unsigned i)
{
    uint64_t tag = call->io[i].tag;

    if (call->kind == MEM_CALL_IN) /* its job has failed, and no queue pair is suspended */
        return;
    if (tag >= RX_TAG_RAW) {
        e->completion[tag - RX_TAG_RAW].failed = true;
    } else {
        e->rx_job[tag].copy_failed = true;
        e->copies_failed = true;
    }
}

void late_begin(void *engine, struct mem_call *call)
{
    struct engine *e = engine;
    struct late_call *late = calloc(1, sizeof(*late));

    if (late) {
        late->call = call;
        late->parts = call->n;
        LIST_INSERT_HEAD(&e->late, late, link);
    }
    counter_inc(&e->counters.late_copies);
    for (unsigned i = 0; i < call->n; i++) {
        uint64_t tag = call->io[i].tag;
        struct late_part part = {0};

        if (call->kind == MEM_CALL_IN)
            part = tx_part(e, (unsigned)tag);
        else if (tag < RX_TAG_RAW)
            part = rx_part(e, (unsigned)tag);
        if (!late || !part.qp || !suspend(part.qp)) {
            fail_now(e, call, i);
            continue;
        }
        late->part[i] = part;
        part.qp->late->parts++;
        part.qp->late->send_again |= part.kind == LATE_SEND;
    }
}

void late_complete_recv(struct engine *e, const struct rx_completion *c)
{
    struct late_qp *late = c->qp->late;
    const struct srq *srq = e->rx_job[c->job].srq;

    if (late->recvs == late->room) {
        unsigned room = late->room ? 2 * late->room : 8;
        struct late_recv *recv = realloc(late->recv, room * sizeof(*recv));

        if (!recv) { /* its WQE is lost */
            late_note_failed(c->qp, c->job, e->rx_job[c->job].pkt.psn);
            return;
        }
        late->recv = recv;
        late->room = room;
    }
    late->recv[late->recvs++] =
        (struct late_recv){.c = *c, .srqn = c->qp->resp.recv_srqn, .serial = srq ? srq->serial : 0};
}

void late_note_failed(struct qp *qp, unsigned job, psn_t psn)
{
    struct late_qp *late = qp->late;

    if (late->failed && late->failed_job <= job)
        return;
    late->failed = true;
    late->failed_job = job;
    late->failed_psn = psn;
}

bool late_recv_is_alive(const struct engine *e, const struct qp *qp, const struct late_recv *r)
{
    const struct srq *srq;

    if (qp->type != QPT_XRC_RECV)
        return true;
    srq = srq_table_lookup(e->cfg.srqs, r->srqn);
    return srq && srq->serial == r->serial;
}

void late_end_suspension(struct qp *qp, enum fault then)
{
    free(qp->late->recv);
    free(qp->late);
    qp->late = NULL;
    qp->fault = then;
}

/* ---- it does not matter any more ---- */

static void disregard(struct engine *e, const struct qp *qp)
{
    struct late_call *late;

    LIST_FOREACH(late, &e->late, link)
    for (unsigned i = 0; i < late->parts; i++)
        if (late->part[i].qp == qp)
            late->part[i].qp = NULL;
}

void late_abandon(struct engine *e, struct qp *qp)
{
    struct late_qp *late = qp->late;

    disregard(e, qp);
    qp->fault = FAULT_NONE;
    for (unsigned i = 0; i < late->recvs; i++) {
        struct rx_completion *c = &late->recv[i].c;

        c->cqe.status = WC_WR_FLUSH_ERR;
        if (late_recv_is_alive(e, qp, &late->recv[i]))
            qp_post(e, qp, c->cq, &c->cqe, true);
    }
    late_end_suspension(qp, qp->fault);
}

void late_forget(struct engine *e, struct qp *qp)
{
    if (qp->fault != FAULT_SUSPENDED)
        return;
    disregard(e, qp);
    late_end_suspension(qp, FAULT_NONE);
}

void late_free_all(struct engine *e)
{
    struct late_call *late;

    while ((late = LIST_FIRST(&e->late))) {
        LIST_REMOVE(late, link);
        free(late);
    }
}
