/* SPDX-License-Identifier: BSD-3-Clause */
/* What was kept behind a gap (resp_store.c) is executed when the gap is filled. */
#include "resp_reorder.h"
#include "completion.h"
#include "resp_map.h"
#include "resp_rules.h"
#include "resp_store.h"
#include "responder.h"
#include "rx_flush.h"
#include "service.h"
#include "srq.h"

/* XRC: the SRQ that the request names, if it is still that one. */
static struct srq *srq_of(const struct engine *e, const struct kept *k)
{
    struct srq *srq = k->srq_serial ? srq_table_lookup(e->cfg.srqs, k->pkt.xrc_srqn) : NULL;

    return srq && srq->serial == k->srq_serial ? srq : NULL;
}

/* A requester that has agreed does not count READs that are kept among the outstanding ones
 * (req_sack_parked): they wait for a resource. */
static bool has_resource(const struct qp *qp, const struct kept *k)
{
    const struct responder *resp = &qp->resp;

    return !qp->selective || !kind_has_response(pkt_info(&k->pkt)->kind) || !resp->res_max ||
           resp_resource_ok(&resp->res[resp_next_resource(resp)]);
}

/* Executes as many as a burst has. They are as good as received; only the order was missing. */
static unsigned execute_some(struct engine *e, struct qp *qp)
{
    struct resp_store *s = qp->resp.store;
    struct kept *done[FRAME_BURST];
    unsigned n = 0;

    e->batch.bytes_leave = true; /* the room of what is done is free for others */
    while (n < FRAME_BURST && qp_can_receive(qp) && !qp->fault && resp_has_next(qp)) {
        struct rx_job *job = &e->rx_job[n];
        struct kept *k = kept_at(s, qp->resp.epsn);
        psn_t before = qp->resp.epsn;

        if (!has_resource(qp, k))
            break;
        rx_completion_room(e);
        job->pkt = k->pkt;
        job->qp = qp;
        job->srq = srq_of(e, k);
        job->is_response = false;
        if (qp->service == PKT_XRC && !job->srq) { /* destroyed since */
            resp_kept_done(s, k);
            break;
        }
        done[n] = k;
        qp->ops->rx_request(e, qp, n++);
        if (psn_eq(qp->resp.epsn, before)) /* refused */
            break;
    }
    rx_flush(e);
    e->batch.bytes_leave = false;
    complete_recvs(e);
    for (unsigned i = 0; i < n && qp->resp.store == s; i++)
        resp_kept_done(s, done[i]);
    return n;
}

/* The next gap is told of at once, and so is that there is none: the ACK that the missing packet
 * asked for covers all that was kept. */
static void answer(struct engine *e, struct qp *qp)
{
    struct responder *resp = &qp->resp;

    if (resp_has_next(qp)) /* it waits for a resource */
        return;
    if (!psn_before(resp->store->last, resp->epsn)) {
        if (!resp->nak_sent)
            resp_fault(e, qp, FAULT_PSN_SEQUENCE, resp->epsn);
        resp_owe_map(e, qp);
        return;
    }
    if (!store_has_losses(resp->store))
        resp_forget_kept(qp);
    if (!resp->res_pending && (!resp->ack_pending || resp->syndrome == AETH_ACK_PLAIN))
        resp_owe_ack(resp, AETH_ACK_PLAIN, psn_prev(resp->epsn));
    engine_tx_ready(e, qp);
}

static void execute_of(struct engine *e, struct qp *qp)
{
    bool waited = qp->resp.store->waits;
    unsigned n = 0, some;

    while ((some = execute_some(e, qp)))
        n += some;
    if (n && !waited) /* a gap was filled */
        resp_report(qp);
    if (!qp->resp.store)
        return;
    qp->resp.store->waits = resp_has_next(qp);
    if (!qp_can_receive(qp) || qp->fault || kept_is_refused(&qp->resp))
        resp_forget_kept(qp);
    else if (n ||
             (psn_before(qp->resp.store->last, qp->resp.epsn) && !store_has_losses(qp->resp.store)))
        answer(e, qp);
    resp_tell_loss(e, qp);
}

void resp_execute_kept(struct engine *e)
{
    for (unsigned i = 0; i < ARRAY_SIZE(e->store) && e->store[i] && e->stores_used; i++)
        if (e->store[i]->qp)
            execute_of(e, e->store[i]->qp);
    if (e->watches)
        resp_tell_losses(e);
}
