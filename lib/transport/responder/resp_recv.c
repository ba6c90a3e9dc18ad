/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes receive WQEs: from the queue pair's own receive queue, or from an SRQ. */
#include <errno.h>

#include "late.h"
#include "responder.h"
#include "sg.h"
#include "srq.h"

/* From the queue pair's own receive queue. */
static int take_own(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    int pending = work_queue_pending(&resp->rq);

    if (pending <= 0)
        return pending ? pending : 1;
    resp->recv_index = resp->rq.cons;
    resp->recv_pd = qp->pd;
    resp->recv_cq = qp->recv_cq;
    return recv_queue_take(&resp->rq, resp->recv);
}

static int take_shared(struct engine *e, struct qp *qp, struct srq *srq)
{
    struct responder *resp = &qp->resp;
    bool limit_reached = false;
    int rc = srq_take(srq, resp->recv, &limit_reached);

    resp->recv_index = 0; /* the SRQ itself says which WQEs are free again */
    resp->recv_pd = srq->init.pd;
    resp->recv_cq = srq->init.xrc ? srq->init.cq : qp->recv_cq;
    resp->recv_srqn = srq->number;
    resp->recv_serial = srq->serial;
    if (limit_reached && e->cfg.host.srq_event)
        e->cfg.host.srq_event(e->cfg.host.ctx, srq, QP_EVENT_SRQ_LIMIT_REACHED);
    return rc;
}

enum fault resp_take_recv(struct engine *e, struct qp *qp, struct srq *xrc_srq)
{
    struct responder *resp = &qp->resp;
    struct srq *srq = xrc_srq ? xrc_srq : qp->srq;
    int rc;

    if (resp->recv_busy)
        return FAULT_NONE;
    rc = srq ? take_shared(e, qp, srq) : take_own(qp);
    if (rc > 0)
        return FAULT_RNR;
    if (rc == -EOVERFLOW)
        return FAULT_QUEUE_INDEX;
    resp->recv_busy = true;
    if (rc)
        return FAULT_RECV_MALFORMED;
    resp->recv_room = recv_wqe_room(resp->recv);
    return FAULT_NONE;
}

enum fault resp_scatter(struct engine *e, struct qp *qp, unsigned job, uint32_t off,
                        const uint8_t *bytes, uint32_t len)
{
    const struct responder *resp = &qp->resp;
    enum mr_fault f =
        sg_scatter(e, resp->recv_pd, resp->recv->sge, resp->recv->h.num_sge, off, bytes, len, job);

    if (f == MR_NO_ROOM)
        return late_wait(e, qp);
    return f == MR_OK ? FAULT_NONE : FAULT_RECV_PROTECTION;
}
