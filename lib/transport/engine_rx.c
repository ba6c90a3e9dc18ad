/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive path of a burst. Most frames go by rx_run.c; this is the general way: take the frame
 * apart and find its queue pair, verify the ICRC, then act. Nothing touches registered memory
 * before its packet's ICRC is verified.
 */
#include "raw_internal.h"
#include "transport.h"

/* After so many packets in a row that another engine handed over somebody should know. Each time
 * that is in vain it takes twice as many. */
#define MISPLACED_REPORT_MIN 64
#define MISPLACED_REPORT_MAX 32768

static void drop(struct engine *e, enum drop reason, uint32_t qpn)
{
    counter_inc(&e->counters.drop[reason]);
    trace_put(&e->trace, e->now, TRACE_DROP, qpn, reason, 0);
}

static void hand(struct engine *e, const struct frame *f, struct engine *to,
                 bool (*way)(void *ctx, const struct frame *f, struct engine *to))
{
    if (e->handed < ARRAY_SIZE(e->forwarded_to))
        e->forwarded_to[e->handed++] = to;
    if (way && way(e->cfg.host.ctx, f, to))
        counter_inc(&e->counters.rx_forwarded_out);
    else
        drop(e, DROP_forward_full, 0);
}

/* The frame as others are to see it: with its ICRC. */
static struct frame outside(const struct engine *e, const struct frame *f)
{
    struct encap_port any = {.promiscuous = true, .gids = e->cfg.port->gids};
    struct frame whole = *f;
    struct encap_view v;

    if (unlikely(f->icrc_omitted) && encap_rx(&v, f->data, f->len, &any) == DROP_NONE)
        icrc_seal(v.l3_kind, f->data + (v.l3 - f->data), v.l3_len - ICRC_LEN);
    whole.icrc_omitted = false;
    return whole;
}

void rx_forward(struct engine *e, const struct frame *f, struct engine *to)
{
    struct frame whole = outside(e, f);

    hand(e, &whole, to, e->cfg.host.forward);
}

void rx_forward_copy(struct engine *e, const struct frame *f, struct engine *to)
{
    hand(e, f, to, e->cfg.host.forward_copy);
}

/* A connection's packets all take one way, as they have the same addresses and ports: when they
 * keep coming over another engine it is in the wrong place. */
static void note_misplaced(struct engine *e, struct qp *qp)
{
    if (e->rx_from == RX_DIRECT || qp->service == PKT_UD) {
        if (unlikely(qp->misplaced_count))
            qp->misplaced_count = 0;
        return;
    }
    if (!qp->misplaced_limit)
        qp->misplaced_limit = MISPLACED_REPORT_MIN;
    if (qp->misplaced_lane != e->rx_from)
        qp->misplaced_count = 0;
    qp->misplaced_lane = (uint8_t)e->rx_from;
    if (++qp->misplaced_count < qp->misplaced_limit)
        return;
    note(e, qp, TRACE_QP_MISPLACED, qp->misplaced_lane, qp->misplaced_count);
    qp->misplaced_count = 0;
    qp->misplaced_limit = (uint16_t)min_of(qp->misplaced_limit * 2, MISPLACED_REPORT_MAX);
    if (e->cfg.host.misplaced)
        e->cfg.host.misplaced(e->cfg.host.ctx, qp, (uint32_t)e->rx_from);
}

/* The same addresses may be in another VLAN, or speak the other RoCE version. */
static bool same_network(const struct gid_entry *to, const struct address_vector *av)
{
    return to->vlan == av->vlan && to->type == av->gid_type;
}

static bool pkey_matches(uint16_t pkey)
{
    /* The table holds the default partition as a full member: any membership matches it (10.9.3).
     */
    return (pkey & 0x7FFF) == (PKEY_DEFAULT & 0x7FFF);
}

/* What is not RoCE may be for somebody else behind this port; of a fragment nobody can tell. */
static bool is_raw(enum drop reason)
{
    return reason == DROP_not_roce || reason == DROP_ip_fragment;
}

static void rx_reject(struct engine *e, const struct frame *f, enum drop reason)
{
    if (is_raw(reason))
        raw_rx(e, f, reason);
    else
        drop(e, reason, 0);
}

/* From the connected peer, to the address that it was connected to: of what is expected that is
 * known. */
static bool comes_from_peer(const struct engine *e, const struct rx_job *job)
{
    const struct address_vector *av = &job->qp->av;
    const struct encap_view *v = &job->view;

    return gid_eq(&v->sgid, &av->dgid) && gid_eq(&v->dgid, &av->sgid) &&
           (v->gid_index < 0 || same_network(&e->cfg.port->gids->entry[v->gid_index], av));
}

/* 9.6.1 and A17.3.4: checks that need the queue pair. */
static enum drop rx_validate(struct engine *e, struct rx_job *job)
{
    const struct qp *qp = job->qp;
    const struct pkt *p = &job->pkt;
    uint16_t flags = pkt_info(p)->flags;

    job->srq = NULL;
    if (!qp_can_receive(qp))
        return DROP_qp_state;
    if (pkt_info(p)->service != qp->service)
        return DROP_service_mismatch;
    if (!pkey_matches(p->pkey))
        return DROP_pkey_mismatch;
    if (flags & PF_DETH)
        return p->deth.qkey == qp->qkey ? DROP_NONE : DROP_qkey_mismatch;
    if (!job->expected && !comes_from_peer(e, job))
        return DROP_source_mismatch;
    if (flags & PF_XRCETH) { /* A14.4: the SRQ must exist in the queue pair's domain */
        job->srq = e->cfg.srqs ? srq_table_lookup(e->cfg.srqs, p->xrc_srqn) : NULL;
        if (qp->type != QPT_XRC_RECV || !job->srq || !job->srq->init.xrc ||
            job->srq->init.xrcd != qp->xrcd)
            return DROP_xrc_srq_mismatch;
    }
    return DROP_NONE;
}

/* Whether the frame is what its queue pair's packets look like: nearly all are. */
static bool rx_expected(struct engine *e, struct rx_job *job, const struct frame *f)
{
    if (f->len < ENCAP_EXPECT_BTH + BTH_LEN)
        return false;
    job->qp = qp_table_lookup(e->cfg.qps, get_be24(f->data + ENCAP_EXPECT_BTH + 5));
    if (!job->qp || qp_engine(job->qp) != e ||
        !encap_expected(&job->qp->expect, f->data, f->len, &job->view) ||
        !encap_expect_is_ours(&job->qp->expect, e->cfg.port->gids))
        return false;
    encap_expect_learn(&job->qp->expect, f->data);
    return true;
}

/* Outer headers, packet, queue pair: what can be decided without reading the payload. */
static enum drop rx_parse(struct engine *e, struct rx_job *job, const struct frame *f)
{
    enum drop reason;

    job->expected = rx_expected(e, job, f);
    if (likely(job->expected))
        return pkt_parse(&job->pkt, job->view.bth, job->view.bth_len);
    reason = encap_rx(&job->view, f->data, f->len, e->cfg.port);
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

/* A packet to a group nobody here has joined is dropped like one to no queue pair. */
static enum drop mcast_admit(const struct engine *e, const struct rx_job *job)
{
    const struct mcast_member *m;

    if (!(pkt_info(&job->pkt)->flags & PF_DETH) || !gid_is_multicast(&job->view.dgid))
        return DROP_unknown_qpn;
    LIST_FOREACH(m, &e->mcast, link)
    if (gid_eq(&m->group, &job->view.dgid))
        return DROP_NONE;
    return DROP_unknown_qpn;
}

static enum drop rx_admit(struct engine *e, struct rx_job *job, const struct frame *f)
{
    if (!f->icrc_omitted && !e->cfg.any_icrc &&
        !icrc_verify(job->view.l3_kind, job->view.l3, job->view.l3_len))
        return DROP_bad_icrc;
    if (pkt_info(&job->pkt)->kind == KIND_CNP)
        return DROP_cnp_unsupported;
    if (job->pkt.dest_qpn == QPN_MULTICAST)
        return mcast_admit(e, job);
    if (!job->qp || !job->owner)
        return DROP_unknown_qpn;
    return rx_validate(e, job);
}

static void qp_rx(struct engine *e, unsigned i)
{
    struct rx_job *job = &e->rx_job[i];
    struct qp *qp = job->qp;

    counter_inc(&e->counters.rx_delivered);
    rx_completion_room(e);
    note_misplaced(e, qp);
    counter_inc(&qp->counters.rx_packets);
    counter_add(&qp->counters.rx_bytes, job->pkt.payload_len);
    if (qp->state == QPS_RTR && !qp->comm_est_told) {
        qp->comm_est_told = true;
        e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_COMM_EST);
    }
    job->is_response = pkt_info(&job->pkt)->flags & PF_RESPONSE;
    if (job->is_response)
        comp_rx(e, qp, i);
    else if (qp->service == PKT_UD)
        resp_ud(e, qp, i);
    else if (qp->service == PKT_UC)
        resp_uc(e, qp, i);
    else
        resp_rx(e, qp, i);
}

static void count_rx(struct engine *e, const struct encap_view *v, uint32_t len)
{
    uint8_t priority = qos_frame_priority(v->vlan_tci, v->traffic_class);

    counter_inc(&e->counters.rx_packets[priority]);
    counter_add(&e->counters.rx_bytes[priority], len);
}

/* Whoever owns the queue pair looks at the ICRC: only what it takes to find him was believed. */
static void rx_act(struct engine *e, unsigned i, const struct frame *f)
{
    struct rx_job *job = &e->rx_job[i];
    bool mcast = job->pkt.dest_qpn == QPN_MULTICAST;
    enum drop reason;

    job->owner = job->qp && !mcast ? qp_engine(job->qp) : NULL;
    if (job->owner && job->owner != e) {
        rx_forward(e, f, job->owner);
        return;
    }
    reason = rx_admit(e, job, f);
    if (reason != DROP_NONE)
        drop(e, reason, job->pkt.dest_qpn);
    else if (mcast)
        mcast_rx(e, i, f);
    else
        qp_rx(e, i);
}

/* Sniffers of this engine first, as to act on a frame may be to hand it on. */
static void rx_frame(struct engine *e, unsigned i, struct frame *f, enum drop reason)
{
    bool sniffers = raw_has_sniffers(e);
    unsigned sniffed = 0;

    if (unlikely(sniffers)) {
        *f = outside(e, f);
        sniffed = raw_sniff(e, f);
    }
    e->handed = 0;
    if (reason == DROP_NONE)
        rx_act(e, i, f);
    else
        rx_reject(e, f, reason);
    if (unlikely(sniffed))
        counter_add(&e->counters.rx_copies, sniffed);
    if (unlikely(sniffers) && e->rx_from == RX_DIRECT)
        raw_sniff_elsewhere(e, f);
}

/* Bytes, then completions, then what became of the queue pairs. */
static void rx_end(struct engine *e)
{
    rx_flush(e);
    settle_recvs(e);
    engine_settle(e);
}

/* By the general way. */
static void rx_one(struct engine *e, unsigned i, struct frame *f)
{
    enum drop reason = rx_parse(e, &e->rx_job[i], f);

    if (e->rx_from == RX_DIRECT)
        count_rx(e, &e->rx_job[i].view, f->len);
    rx_frame(e, i, f, reason);
}

static void rx_burst(struct engine *e, struct frame *frames, unsigned n)
{
    bool runs = e->rx_from == RX_DIRECT && !raw_has_sniffers(e);
    unsigned i = 0, general = 0;

    if (n)
        rx_run_prefetch(e, frames, n);
    while (i < n) {
        unsigned executed = runs && !general ? rx_run(e, frames + i, n - i, i, &general) : 0;

        i += executed;
        if (executed)
            continue;
        rx_one(e, i, &frames[i]);
        i++;
        general -= general > 0;
    }
    rx_end(e);
}

void engine_rx(struct engine *e, struct frame *frames, unsigned n, ns_t now)
{
    e->now = now;
    rx_burst(e, frames, n);
}

static void forwarded_in(struct engine *e, unsigned n, uint32_t from, ns_t now)
{
    e->now = now;
    e->rx_from = (int)from;
    counter_add(&e->counters.rx_forwarded_in, n);
}

void engine_rx_forwarded(struct engine *e, struct frame *frames, unsigned n, uint32_t from,
                         ns_t now)
{
    forwarded_in(e, n, from, now);
    rx_burst(e, frames, n);
    e->rx_from = RX_DIRECT;
}

/* Whoever else the frame is for has it: it is not acted on. */
void engine_rx_copies(struct engine *e, struct frame *frames, unsigned n, uint32_t from, ns_t now)
{
    forwarded_in(e, n, from, now);
    for (unsigned i = 0; i < n; i++) {
        unsigned sniffed = raw_sniff(e, &frames[i]);

        if (sniffed)
            counter_add(&e->counters.rx_copies, sniffed - 1);
        else
            drop(e, DROP_raw_no_recv, 0);
    }
    rx_end(e);
    e->rx_from = RX_DIRECT;
}
