/* SPDX-License-Identifier: BSD-3-Clause */
/* A late copy has ended: its queue pairs go on. See late.h. */
#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "late_private.h"
#include "requester.h"
#include "responder.h"

static void resume(struct engine *e, struct qp *qp)
{
    struct late_qp late = *qp->late;

    qp->fault = late.before;
    if (late.failed) {
        qp->fault = FAULT_NONE;
        qp->resp.failed_job = late.failed_job;
        resp_fault(e, qp, FAULT_MEMORY, late.failed_psn);
    }
    for (unsigned i = 0; i < late.recvs; i++)
        if (late_recv_is_alive(e, qp, &late.recv[i]))
            complete_recv(e, &late.recv[i].c);
    late_end_suspension(qp, qp->fault);
    if (late.send_again && qp_is_reliable(qp) && qp_can_request(qp)) {
        req_rewind(qp, qp->req.una);
        req_arm_timer(e, qp);
    }
    engine_touch(e, qp);
    engine_tx_ready(e, qp);
}

static void part_failed(struct engine *e, const struct late_part *part)
{
    if (part->kind == LATE_REQUEST)
        late_note_failed(part->qp, part->job, part->psn);
    else if (part->kind == LATE_REPLY)
        late_note_failed(part->qp, UINT32_MAX, part->psn);
    else
        slot_at(&part->qp->req, part->slot)->status = WC_LOC_PROT_ERR;
    engine_touch(e, part->qp);
}

static void part_ended(struct engine *e, const struct late_part *part, int status,
                       const struct mem_call *call)
{
    if (status)
        part_failed(e, part);
    else if (call->kind == MEM_CALL_ATOMIC)
        resp_store_original(&part->qp->resp, part->psn, call->old);
    if (!--part->qp->late->parts)
        resume(e, part->qp);
}

void engine_call_ended(struct engine *e, const struct mem_call *call, bool in_time, ns_t now)
{
    struct late_call *late;

    e->now = now;
    LIST_FOREACH(late, &e->late, link)
    if (late->call == call)
        break;
    if (!late)
        return;
    LIST_REMOVE(late, link);
    for (unsigned i = 0; i < late->parts; i++)
        if (late->part[i].qp)
            part_ended(e, &late->part[i], in_time ? call->io[i].status : -EFAULT, call);
    free(late);
    engine_complete(e);
}
