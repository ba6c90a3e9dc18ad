/* SPDX-License-Identifier: BSD-3-Clause */
/* Queued copies of received bytes, and what their failure means: see rx_flush.h. */
#include "rx_flush.h"
#include "late.h"
#include "responder.h"
#include "sg.h"

/* The bytes of a response fail its WQE; those of a request are the responder's fault. */
static void copy_failed(struct engine *e, unsigned job)
{
    struct rx_job *rx = &e->rx_job[job];

    rx->copy_failed = false;
    if (rx->is_response)
        slot_at(&rx->qp->req, rx->slot)->status = WC_LOC_PROT_ERR;
    else if (rx->qp->fault == FAULT_SUSPENDED)
        late_note_failed(rx->qp, job, rx->pkt.psn);
    else
        resp_memory_fault(e, rx->qp, job);
    engine_touch(e, rx->qp);
}

void rx_flush(struct engine *e)
{
    sg_flush_out(e);
    if (likely(!e->copies_failed))
        return;
    e->copies_failed = false;
    for (unsigned i = 0; i < ARRAY_SIZE(e->rx_job); i++)
        if (e->rx_job[i].copy_failed)
            copy_failed(e, i);
}
