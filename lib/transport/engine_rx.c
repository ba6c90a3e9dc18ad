/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive path of a burst: take every frame apart and find its queue pair, then verify the
 * ICRCs, then act. Nothing touches registered memory before its packet's ICRC is verified.
 */
#include "transport.h"

static void drop(struct engine *e, enum drop reason)
{
    counter_inc(&e->counters.drop[reason]);
}

static bool pkey_matches(uint16_t pkey)
{
    /* The table holds the default partition as a full member: any membership matches it (10.9.3).
     */
    return (pkey & 0x7FFF) == (PKEY_DEFAULT & 0x7FFF);
}

/* 9.6.1 and A17.3.4: checks that need the queue pair. */
static enum drop rx_validate(const struct qp *qp, const struct encap_view *v, const struct pkt *p)
{
    if (!qp_can_receive(qp))
        return DROP_qp_state;
    if (pkt_info(p)->service != PKT_RC || qp->type != QPT_RC)
        return DROP_service_mismatch;
    if (!pkey_matches(p->pkey))
        return DROP_pkey_mismatch;
    if (!gid_eq(&v->sgid, &qp->av.dgid) || !gid_eq(&v->dgid, &qp->av.sgid))
        return DROP_source_mismatch;
    return DROP_NONE;
}

/* Outer headers, packet, queue pair: what can be decided without reading the payload. */
static enum drop rx_parse(struct engine *e, struct rx_job *job, const struct frame *f)
{
    enum drop reason = encap_rx(&job->view, f->data, f->len, e->cfg.port);

    if (reason == DROP_NONE)
        reason = pkt_parse(&job->pkt, job->view.bth, job->view.bth_len);
    if (reason != DROP_NONE)
        return reason;
    /* CA17.3.3: also packets to nobody are checked first; a lookup only fetches the cache line. */
    job->qp = qp_table_lookup(e->cfg.qps, job->pkt.dest_qpn);
    if (job->qp)
        __builtin_prefetch(job->qp);
    return DROP_NONE;
}

static enum drop rx_admit(struct engine *e, struct rx_job *job)
{
    if (!e->cfg.any_icrc && !icrc_verify(job->view.l3_kind, job->view.l3, job->view.l3_len))
        return DROP_bad_icrc;
    if (pkt_info(&job->pkt)->kind == KIND_CNP)
        return DROP_cnp_unsupported;
    if (!job->qp || job->qp->engine != e)
        return DROP_unknown_qpn;
    return rx_validate(job->qp, &job->view, &job->pkt);
}

static void qp_rx(struct engine *e, unsigned i)
{
    struct rx_job *job = &e->rx_job[i];
    struct qp *qp = job->qp;

    counter_inc(&e->counters.rx_delivered);
    counter_inc(&qp->counters.rx_packets);
    counter_add(&qp->counters.rx_bytes, job->pkt.payload_len);
    if (qp->state == QPS_RTR && !qp->comm_est_told) {
        qp->comm_est_told = true;
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_COMM_EST);
    }
    job->is_response = pkt_info(&job->pkt)->flags & PF_RESPONSE;
    if (job->is_response)
        comp_rx(e, qp, i);
    else
        resp_rx(e, qp, i);
}

void engine_rx(struct engine *e, struct frame *frames, unsigned n, ns_t now)
{
    bool parsed[FRAME_BURST];

    e->now = now;
    for (unsigned i = 0; i < n; i++) {
        enum drop reason;

        counter_inc(&e->counters.rx_packets);
        counter_add(&e->counters.rx_bytes, frames[i].len);
        reason = rx_parse(e, &e->rx_job[i], &frames[i]);
        parsed[i] = reason == DROP_NONE;
        if (!parsed[i])
            drop(e, reason);
    }
    for (unsigned i = 0; i < n; i++) {
        enum drop reason;

        if (!parsed[i])
            continue;
        reason = rx_admit(e, &e->rx_job[i]);
        if (reason == DROP_NONE)
            qp_rx(e, i);
        else
            drop(e, reason);
    }
    rx_flush(e);
    for (unsigned i = 0; i < e->completions; i++)
        settle_recv(e, &e->completion[i]);
    e->completions = 0;
    engine_settle(e);
}
