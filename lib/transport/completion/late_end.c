/* SPDX-License-Identifier: BSD-3-Clause */
/* A late copy has ended, or there is room for others: what was suspended goes on. See late.h. */
#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "id_tables.h"
#include "late_private.h"
#include "raw_private.h"
#include "requester.h"
#include "responder.h"
#include "srq.h"

/* Whether the completion queue of a receive CQE is still there: that of an XRC SRQ may have been
 * destroyed. */
static bool recv_is_alive(const struct engine *e, const struct qp *qp, const struct late_recv *r)
{
    const struct srq *srq;

    if (qp->type != QPT_XRC_RECV || !r->c.cq)
        return true;
    srq = srq_table_lookup(e->cfg.srqs, r->srqn);
    return srq && srq->serial == r->serial;
}

/* The peer's answers to what it was sent before may have been dropped, too. */
static void request_again(struct engine *e, struct qp *qp, const struct late_again *unsent)
{
    struct requester *req = &qp->req;

    if (!qp_can_request(qp) || req->rnr_wait)
        return;
    if (!qp_is_reliable(qp)) {
        if (unsent->any)
            req_unsend(qp, unsent->from);
        return;
    }
    if (!psn_eq(req->una, req->max_psn))
        req_send_again(e, qp);
}

static void resume_qp(struct engine *e, struct late_owner *owner)
{
    struct qp *qp = owner->qp;

    qp->late = NULL;
    qp->fault = owner->before;
    if (owner->stopped)
        return;
    if (owner->failed) {
        qp->fault = FAULT_NONE;
        qp->resp.failed_job = owner->failed_job;
        resp_fault(e, qp, FAULT_MEMORY, owner->failed_psn);
    }
    for (unsigned i = 0; i < owner->recvs; i++)
        if (recv_is_alive(e, qp, &owner->recv[i]))
            complete_recv(e, &owner->recv[i].c);
    if (owner->replies.any)
        resp_repeat_from(qp, owner->replies.from);
    if (qp->state != QPS_ERR)
        request_again(e, qp, &owner->requests);
    else if (owner->flush)
        qp_flush(e, qp, owner->flush_status);
    if (qp->state == QPS_ERR && owner->flush && !owner->was_error)
        qp_raise_last_wqe(e, qp);
    engine_touch(e, qp);
    engine_tx_ready(e, qp);
}

static void resume_wq(struct engine *e, struct late_owner *owner)
{
    struct wq *wq = owner->wq;

    wq->late = NULL;
    if (owner->stopped)
        return;
    for (unsigned i = 0; i < owner->recvs; i++)
        wq_complete_recv(e, &owner->recv[i].c);
    if (owner->flush)
        wq_flush(e, wq, owner->flush_status);
}

static void resume_if_done(struct engine *e, struct late_owner *owner)
{
    if (owner->waits || !LIST_EMPTY(&owner->parts))
        return;
    if (owner->qp)
        resume_qp(e, owner);
    else
        resume_wq(e, owner);
    free(owner->recv);
    free(owner);
}

static void raw_part_failed(struct late_owner *owner, unsigned job)
{
    for (unsigned i = 0; i < owner->recvs; i++)
        if (owner->recv[i].c.job == job)
            owner->recv[i].c.failed = true;
}

static void part_failed(struct engine *e, const struct late_part *part)
{
    struct late_owner *owner = part->owner;

    switch (part->kind) {
    case LATE_REQUEST:
        late_note_failed(owner->qp, part->job, part->psn);
        break;
    case LATE_REPLY:
        late_note_failed(owner->qp, UINT32_MAX, part->psn);
        break;
    case LATE_RAW:
        raw_part_failed(owner, part->job);
        break;
    default:
        slot_at(&owner->qp->req, part->slot)->status = WC_LOC_PROT_ERR;
    }
}

static void part_ended(struct engine *e, struct late_part *part, int status,
                       const struct mem_call *call)
{
    struct late_owner *owner = part->owner;

    LIST_REMOVE(part, link);
    if (!owner->stopped && status)
        part_failed(e, part);
    else if (!owner->stopped && call->kind == MEM_CALL_ATOMIC)
        resp_store_original(&owner->qp->resp, part->psn, call->old);
    resume_if_done(e, owner);
}

void engine_call_ended(struct engine *e, struct mem_call *call, bool in_time, ns_t now)
{
    struct late_call *late = call->late;

    e->now = now;
    call->late = NULL;
    if (!late)
        return;
    LIST_REMOVE(late, link);
    for (unsigned i = 0; i < late->parts; i++)
        if (late->part[i].owner)
            part_ended(e, &late->part[i], in_time ? call->io[i].status : -EFAULT, call);
    free(late);
    engine_complete(e);
}

void engine_memory_has_room(struct engine *e, ns_t now)
{
    struct late_owner *owner;

    e->now = now;
    while ((owner = LIST_FIRST(&e->waiting))) {
        LIST_REMOVE(owner, waiting);
        owner->waits = false;
        resume_if_done(e, owner);
    }
    engine_complete(e);
}
