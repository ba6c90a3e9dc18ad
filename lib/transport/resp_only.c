/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of one packet, which most requests are: WRITE ONLY and SEND ONLY without immediate data,
 * with the expected PSN, at an RC queue pair with a receive queue of its own. The steps of
 * resp_check and resp_execute in their order, but for those that find nothing in such a packet.
 * Whatever is out of the ordinary is left to these.
 */
#include "transport.h"

static bool write_only(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p)
{
    struct mr_span span;

    if (p->reth.len != p->payload_len || !(qp->access & MEM_REMOTE_WRITE) ||
        mem_batch_full(&e->batch))
        return false;
    if (!p->payload_len) /* its key is not looked at (C9-88) */
        return true;
    if (mr_check_remote(&e->mrs, p->reth.rkey, qp->pd, qp->qpn, p->reth.va, p->payload_len,
                        MEM_REMOTE_WRITE, &span) != MR_OK)
        return false;
    mem_batch_out_span(&e->batch, &span, p->payload, p->payload_len, job);
    return true;
}

/* Sets *fault when the entry, which is taken, turned out to be no good. */
static bool send_only(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p,
                      enum fault *fault)
{
    struct responder *resp = &qp->resp;

    if (qp->srq || resp->recv_busy || work_queue_pending(&resp->rq) <= 0)
        return false;
    *fault = take_recv(e, qp, NULL);
    if (*fault == FAULT_NONE && resp->recv_room < p->payload_len)
        *fault = FAULT_RECV_TOO_SMALL;
    if (*fault != FAULT_NONE)
        return true;
    if (p->payload_len && sg_scatter(e, resp->recv_pd, resp->recv->sge, resp->recv->h.num_sge, 0,
                                     p->payload, p->payload_len, job) != MR_OK) {
        *fault = FAULT_RECV_PROTECTION;
        return true;
    }
    resp->msg_len = p->payload_len;
    resp_complete_recv(e, qp, job);
    return true;
}

bool resp_only(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct responder *resp = &qp->resp;
    enum fault fault = FAULT_NONE;

    if (!psn_eq(p->psn, resp->epsn) || resp->op != RESP_IDLE || p->payload_len > qp->mtu)
        return false;
    if (p->opcode == OPCODE(PKT_RC, OP_WRITE_ONLY)) {
        if (!write_only(e, qp, job, p))
            return false;
    } else if (p->opcode != OPCODE(PKT_RC, OP_SEND_ONLY) || !send_only(e, qp, job, p, &fault)) {
        return false;
    }
    resp->nak_sent = false;
    if (fault != FAULT_NONE) {
        resp_fault(e, qp, fault, p->psn);
        return true;
    }
    resp->msn++;
    resp_accepted(e, qp, p, 1);
    return true;
}
