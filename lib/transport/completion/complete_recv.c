/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive CQEs that wait for their message's bytes: see completion.h. */
#include "completion.h"
#include "count.h"
#include "late.h"
#include "raw_private.h"
#include "rx_flush.h"

/* A WRITE of the peer: its bytes are there, or could not be written. */
static void count_write(struct engine *e, const struct rx_completion *c)
{
    struct qp *qp = c->qp;

    if (qp->fault == FAULT_MEMORY && c->job >= qp->resp.failed_job)
        count_failed(e, qp, QP_COUNT_PEER_WRITE);
    else
        count_done(e, qp, QP_COUNT_PEER_WRITE, 1, c->cqe.byte_len);
}

void complete_recv(struct engine *e, struct rx_completion *c)
{
    struct qp *qp = c->qp;

    if (unlikely(qp->fault == FAULT_SUSPENDED)) {
        late_complete_recv(e, qp->late, c);
        return;
    }
    if (unlikely(!c->cq)) {
        count_write(e, c);
        return;
    }
    /* Bytes of its message, or of a message before it, could not be written. */
    if (qp->fault == FAULT_MEMORY && c->job >= qp->resp.failed_job) {
        c->cqe.vendor_err = qp->why.is.cause;
        c->cqe.status = qp->resp.recv_failed ? WC_WR_FLUSH_ERR : WC_LOC_PROT_ERR;
        c->solicited = qp->resp.recv_failed = true;
    }
    if (counts(qp, QP_COUNT_RECV | QP_COUNT_PEER_WRITE))
        count_recv(e, qp, &c->cqe);
    qp_post(e, qp, c->cq, &c->cqe, c->solicited);
}

void complete_recvs(struct engine *e)
{
    for (unsigned i = 0; i < e->completions; i++) {
        struct rx_completion *c = &e->completion[i];

        if (c->wq)
            wq_complete_recv(e, c);
        else
            complete_recv(e, c);
    }
    e->completions = 0;
}

void rx_completion_room(struct engine *e)
{
    if (unlikely(e->completions == ARRAY_SIZE(e->completion))) { /* many members of a group */
        rx_flush(e);
        complete_recvs(e);
    }
}
