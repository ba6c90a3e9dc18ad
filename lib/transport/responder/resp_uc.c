/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UC responder (volume 1, 9.8.2): nothing is acknowledged. A message with a gap or a fault of
 * the peer is dropped silently, and the next one starts afresh; its receive entry, if it had one,
 * serves the next (C9-177 and following).
 */
#include "responder.h"

/* The message in progress will not be completed. */
static void abort_message(struct qp *qp)
{
    qp->resp.op = RESP_IDLE;
    qp->resp.msg_len = qp->resp.write_left = 0;
}

void resp_rx_uc(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct responder *resp = &qp->resp;
    bool start = pkt_info(p)->flags & PF_START;
    enum fault fault;

    if (qp->fault)
        return;
    if (!psn_eq(p->psn, resp->epsn)) {
        counter_inc(&qp->counters.out_of_sequence);
        abort_message(qp);
    }
    resp_commit_uc(qp, p->psn);
    if (start)
        abort_message(qp);
    else if (resp->op == RESP_IDLE)
        return; /* the rest of a message whose start was lost */
    fault = resp_check(e, qp, job);
    if (fault == FAULT_NONE)
        fault = resp_execute(e, qp, job);
    if (fault == FAULT_NONE) {
        if (pkt_info(p)->flags & PF_END)
            resp_note_written(e, qp);
        return;
    }
    abort_message(qp);
    resp_fault(e, qp, fault, p->psn);
}
