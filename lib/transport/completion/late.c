/* SPDX-License-Identifier: BSD-3-Clause */
/* Suspending queue pairs whose copies have not ended, and forgetting that: see late.h. */
#include <stdlib.h>

#include "late_private.h"
#include "raw_private.h"
#include "srq.h"

/* ---- suspending ---- */

static struct late_owner *suspend_qp(struct qp *qp)
{
    struct late_owner *owner = qp->late;

    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->qp = qp;
    owner->before = qp->fault;
    owner->was_error = qp->state == QPS_ERR;
    qp->late = owner;
    qp->fault = FAULT_SUSPENDED;
    return owner;
}

static struct late_owner *suspend_wq(struct wq *wq)
{
    if (wq->late)
        return wq->late;
    wq->late = calloc(1, sizeof(*wq->late));
    if (wq->late)
        wq->late->wq = wq;
    return wq->late;
}

/* What was built from this packet on is built again. */
static void note_again(struct late_owner *owner, const struct tx_job *job)
{
    struct late_again *again = job->is_reply ? &owner->replies : &owner->requests;

    if (!again->any || psn_before(job->psn, again->from))
        again->from = job->psn;
    again->any = true;
}

void late_note_unsent(const struct tx_job *job)
{
    if (job->qp->late && job->is_reply) /* requests go on from what is not acknowledged */
        note_again(job->qp->late, job);
}

static void wait_for_room(struct engine *e, struct late_owner *owner)
{
    if (!owner->waits)
        LIST_INSERT_HEAD(&e->waiting, owner, waiting);
    owner->waits = true;
}

bool late_wait_to_send(struct engine *e, struct tx_job *job)
{
    struct late_owner *owner = suspend_qp(job->qp);

    if (!owner)
        return false;
    note_again(owner, job);
    wait_for_room(e, owner);
    return true;
}

enum fault late_wait(struct engine *e, struct qp *qp)
{
    struct late_owner *owner = suspend_qp(qp);

    if (!owner)
        return FAULT_MEMORY;
    wait_for_room(e, owner);
    return FAULT_SUSPENDED;
}

/* ---- a call is late ---- */

static struct late_owner *rx_part(struct engine *e, unsigned job, struct late_part *part)
{
    const struct rx_job *rx = &e->rx_job[job];

    *part = (struct late_part){.kind = rx->is_response ? LATE_RESPONSE : LATE_REQUEST,
                               .job = job,
                               .slot = rx->slot,
                               .psn = rx->pkt.psn};
    return suspend_qp(rx->qp);
}

static struct late_owner *raw_part(struct engine *e, unsigned index, struct late_part *part)
{
    *part = (struct late_part){.kind = LATE_RAW, .job = index};
    return suspend_wq(e->completion[index].wq);
}

static struct late_owner *tx_part(struct engine *e, unsigned job, struct late_part *part)
{
    const struct tx_job *tx = &e->tx_job[job];
    struct late_owner *owner = suspend_qp(tx->qp);

    *part = (struct late_part){.kind = tx->is_reply ? LATE_REPLY : LATE_SEND,
                               .job = job,
                               .slot = tx->slot,
                               .psn = tx->psn};
    if (owner)
        note_again(owner, tx);
    return owner;
}

static struct late_owner *make_part(struct engine *e, const struct mem_call *call, unsigned i,
                                    struct late_part *part)
{
    unsigned tag = (unsigned)call->io[i].tag;

    if (call->kind == MEM_CALL_IN)
        return tx_part(e, tag, part);
    return tag < RX_TAG_RAW ? rx_part(e, tag, part) : raw_part(e, tag - RX_TAG_RAW, part);
}

/* Without memory to suspend its owner the copy counts as failed. */
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
    struct late_call *late = calloc(1, sizeof(*late) + call->n * sizeof(late->part[0]));

    call->late = late;
    counter_inc(&e->counters.late_copies);
    if (late) {
        late->parts = call->n;
        LIST_INSERT_HEAD(&e->late, late, link);
    }
    for (unsigned i = 0; i < call->n; i++) {
        struct late_owner *owner = late ? make_part(e, call, i, &late->part[i]) : NULL;

        if (!owner) {
            fail_now(e, call, i);
            continue;
        }
        late->part[i].owner = owner;
        LIST_INSERT_HEAD(&owner->parts, &late->part[i], link);
    }
}

/* ---- while it lasts ---- */

void late_complete_recv(struct engine *e, struct late_owner *owner, const struct rx_completion *c)
{
    const struct srq *srq = c->wq ? NULL : e->rx_job[c->job].srq;

    if (owner->recvs == owner->room) {
        unsigned room = owner->room ? 2 * owner->room : 8;
        struct late_recv *recv = realloc(owner->recv, room * sizeof(*recv));

        if (!recv) { /* its WQE is lost */
            if (owner->qp)
                late_note_failed(owner->qp, c->job, e->rx_job[c->job].pkt.psn);
            return;
        }
        owner->recv = recv;
        owner->room = room;
    }
    owner->recv[owner->recvs++] =
        (struct late_recv){.c = *c, .srqn = srq ? srq->number : 0, .serial = srq ? srq->serial : 0};
}

void late_note_failed(struct qp *qp, unsigned job, psn_t psn)
{
    struct late_owner *owner = qp->late;

    if (owner->failed && owner->failed_job <= job)
        return;
    owner->failed = true;
    owner->failed_job = job;
    owner->failed_psn = psn;
}

void late_flush(struct late_owner *owner, uint8_t status)
{
    if (!owner->flush)
        owner->flush_status = status;
    owner->flush = true;
}

/* ---- it does not matter any more ---- */

static void wait_no_more(struct late_owner *owner)
{
    if (owner->waits)
        LIST_REMOVE(owner, waiting);
    owner->waits = false;
}

static void free_owner(struct late_owner *owner)
{
    if (owner->qp) {
        owner->qp->late = NULL;
        owner->qp->fault = FAULT_NONE;
    } else {
        owner->wq->late = NULL;
    }
    free(owner->recv);
    free(owner);
}

void late_stop(struct late_owner *owner)
{
    owner->stopped = true;
    wait_no_more(owner);
    if (LIST_EMPTY(&owner->parts))
        free_owner(owner);
}

void late_forget(struct late_owner *owner)
{
    struct late_part *part;

    if (!owner)
        return;
    while ((part = LIST_FIRST(&owner->parts))) {
        LIST_REMOVE(part, link);
        part->owner = NULL;
    }
    wait_no_more(owner);
    free_owner(owner);
}

void late_free_all(struct engine *e)
{
    struct late_call *late;

    while ((late = LIST_FIRST(&e->late))) {
        LIST_REMOVE(late, link);
        free(late);
    }
}
