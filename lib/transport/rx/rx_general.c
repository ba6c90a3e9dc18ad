/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The general path: one frame, of any kind. It is recognised by parsing, its ICRC is verified, it
 * is admitted by admit() and rx_validate.c, and the queue pair's service judges the request (which
 * completes its admission), places and commits it; comp_rx does so for an answer.
 * Registered memory is not touched before the ICRC is verified. A frame that is not RoCE leaves by
 * raw_punt.
 */
#include "bth.h"
#include "completer.h"
#include "completion.h"
#include "mad.h"
#include "rate.h"
#include "raw_private.h"
#include "rx.h"
#include "rx_forward.h"
#include "service.h"
#include "tx.h"

/* ---- recognise ---- */

/* Whether the frame matches the template of its queue pair: nearly all do. A datagram's is that of
 * the last one's sender; who sent this one is part of its completion. */
static bool matches_template(struct engine *e, struct rx_job *job, const struct frame *f)
{
    unsigned bth_at = hdr_bth_at(HDR_IPV4);

    if (f->len < bth_at + BTH_LEN)
        return false;
    job->qp = qp_table_lookup(e->cfg.qps, bth_dest_qpn(f->data + bth_at));
    if (!job->qp || qp_owner_engine(job->qp) != e || job->qp->service == PKT_UD ||
        !hdr_template_parse(&job->qp->rx_template, f->data, f->len, &job->view) ||
        !hdr_template_is_ours(&job->qp->rx_template, e->cfg.port->gids))
        return false;
    hdr_template_update(&job->qp->rx_template, f->data);
    return true;
}

/* Outer headers, packet, queue pair: what can be decided without reading the payload. */
static enum drop parse(struct engine *e, struct rx_job *job, const struct frame *f)
{
    enum drop reason;

    job->matched = matches_template(e, job, f);
    if (likely(job->matched))
        return pkt_parse(&job->pkt, job->view.bth, job->view.bth_len);
    reason = encap_rx(&job->view, f->data, f->len, e->cfg.port);
    if (reason == DROP_NONE)
        reason = pkt_parse(&job->pkt, job->view.bth, job->view.bth_len);
    if (reason != DROP_NONE)
        return reason;
    /* CA17.3.3: packets to no queue pair are verified, too; the lookup fetches the cache line. */
    job->qp = qp_table_lookup(e->cfg.qps, job->pkt.dest_qpn);
    if (job->qp && qp_owner_engine(job->qp) == e)
        hdr_template_learn(&job->qp->rx_template, f->data, f->len);
    return DROP_NONE;
}

static void count_frame(struct engine *e, const struct encap_view *v, uint32_t len)
{
    uint8_t priority = qos_frame_priority(v->vlan_tci, v->traffic_class);

    counter_inc(&e->counters.rx_packets[priority]);
    counter_add(&e->counters.rx_bytes[priority], len);
}

/* ---- verify, admit ---- */

static bool verify(const struct engine *e, const struct rx_job *job, const struct frame *f)
{
    return f->icrc_omitted || e->cfg.any_icrc ||
           icrc_verify(job->view.l3_kind, job->view.l3, job->view.l3_len);
}

/* Packets to no queue pair's number come from queue pairs that are held (engine_qp_hold), if an
 * address of the port sent them. The number in a datagram is the program's. */
static enum drop drop_unknown(const struct engine *e, const struct rx_job *job)
{
    const struct gid_table *gids = e->cfg.port->gids;
    const struct encap_view *v = &job->view;
    const struct gid_entry *to = v->gid_index < 0 ? NULL : &gids->entry[v->gid_index];

    if (job->pkt.dest_qpn == QPN_NONE && to && pkt_info(&job->pkt)->service != PKT_UD &&
        gid_table_find(gids, &v->sgid, to->type, to->vlan) >= 0)
        return DROP_sender_mismatch;
    return DROP_unknown_qpn;
}

static enum drop admit(struct engine *e, struct rx_job *job, const struct frame *f, bool verified)
{
    if (!verified && !verify(e, job, f))
        return DROP_bad_icrc;
    if (pkt_info(&job->pkt)->kind == KIND_CNP)
        return rx_validate_cnp(e, job);
    if (job->pkt.dest_qpn == QPN_MULTICAST)
        return rx_validate_mcast(e, job);
    if (!job->qp || !job->owner)
        return drop_unknown(e, job);
    if (unlikely(job->qp->fault == FAULT_SUSPENDED))
        return DROP_qp_suspended;
    return rx_validate(e, job);
}

/* ---- the rest of admit, place and commit: the queue pair's service, or the completer ---- */

static uint16_t source_port(const struct rx_job *job)
{
    return job->matched ? hdr_template_sport(job->view.bth) : job->view.udp_sport;
}

static void deliver(struct engine *e, unsigned i, const struct frame *f)
{
    struct rx_job *job = &e->rx_job[i];
    struct qp *qp = job->qp;

    counter_inc(&e->counters.rx_delivered);
    rx_completion_room(e);
    rx_note_misplaced(e, qp);
    rx_count_qp(e, qp, 1, job->pkt.payload_len, encap_is_marked(&job->view));
    rx_note_established(e, qp);
    if (qp->service == PKT_UD)
        hdr_template_follow(&qp->rx_template, e->cfg.port->gids, job->view.gid_index, f->data,
                            f->len);
    job->is_response = pkt_info(&job->pkt)->flags & PF_RESPONSE;
    if (job->is_response)
        comp_rx(e, qp, i, source_port(job));
    else
        qp->ops->rx_request(e, qp, i);
    charge_received_faults(e, qp);
}

static void take_cnp(struct engine *e, struct qp *qp)
{
    counter_inc(&e->counters.rx_delivered);
    rate_on_cnp(e, qp);
}

/* ---- a whole frame ---- */

/* 10.2.5: only queue pair 1 of another port has its Q_Key. What programs can send ends here, so
 * that it does not take the host's time. */
static enum drop validate_gsi(const struct engine *e, const struct pkt *p)
{
    if (!e->cfg.host.gsi)
        return DROP_unknown_qpn;
    if (p->opcode != OPCODE(PKT_UD, OP_SEND_ONLY))
        return DROP_service_mismatch;
    return p->deth.qkey == MAD_QKEY && p->deth.src_qpn == QPN_GSI ? DROP_NONE : DROP_qkey_mismatch;
}

/* Any engine gives packets to queue pair 1 to the host. */
static void give_gsi(struct engine *e, const struct rx_job *job, const struct frame *f,
                     bool verified)
{
    const struct engine_host *host = &e->cfg.host;
    enum drop reason = validate_gsi(e, &job->pkt);

    if (reason != DROP_NONE)
        engine_drop(e, reason, QPN_GSI);
    else if (!verified && !verify(e, job, f))
        engine_drop(e, DROP_bad_icrc, QPN_GSI);
    else if (host->gsi(host->ctx, f))
        counter_inc(&e->counters.rx_punted);
    else
        engine_drop(e, DROP_unknown_qpn, QPN_GSI);
}

/* Why a trimmed frame is refused: it is cut, or what is left of it has no ICRC. */
static bool may_be_trimmed(const struct engine *e, enum drop reason)
{
    return unlikely(e->cfg.trim_dscp) &&
           (reason == DROP_truncated || reason == DROP_pad_length || reason == DROP_bad_icrc);
}

static __attribute__((cold)) void drop(struct engine *e, unsigned i, const struct frame *f,
                                       enum drop reason)
{
    const struct rx_job *job = &e->rx_job[i];

    if (may_be_trimmed(e, reason) && rx_trimmed(e, i, f))
        return;
    engine_drop(e, reason, job->pkt.dest_qpn);
    if (job->owner) /* this engine: others were given it before */
        why_tell_drop(e, reason, job);
}

/* A packet whose headers are sound. The engine that owns its queue pair verifies the ICRC: only
 * what it takes to find that engine is believed before. */
static void process_packet(struct engine *e, unsigned i, const struct frame *f, bool verified)
{
    struct rx_job *job = &e->rx_job[i];
    bool mcast = job->pkt.dest_qpn == QPN_MULTICAST;
    enum drop reason;

    if (unlikely(job->pkt.dest_qpn == QPN_GSI)) {
        give_gsi(e, job, f, verified);
        return;
    }
    job->owner = job->qp && !mcast ? qp_owner_engine(job->qp) : NULL;
    if (job->owner && job->owner != e) {
        rx_forward(e, f, job->owner);
        return;
    }
    reason = admit(e, job, f, verified);
    if (reason != DROP_NONE)
        drop(e, i, f, reason);
    else if (mcast)
        rx_mcast(e, i, f);
    else if (unlikely(pkt_info(&job->pkt)->kind == KIND_CNP))
        take_cnp(e, job->qp);
    else
        deliver(e, i, f);
}

/* A frame that is not RoCE is punted, also one that ends before its UDP port; so is a fragment,
 * whose protocol is unknown, and what is for another MAC address, which a flow rule may ask for as
 * of a NIC. */
static bool is_punted(enum drop reason, const struct frame *f)
{
    if (reason == DROP_truncated || reason == DROP_bad_ip_header)
        return f->len >= RAW_LEN_MIN && !encap_is_roce(f->data, f->len);
    return reason == DROP_not_roce || reason == DROP_ip_fragment || reason == DROP_not_our_mac;
}

void rx_general(struct engine *e, unsigned i, struct frame *f, bool verified)
{
    bool sniffers = raw_has_sniffers(e);
    unsigned sniffed = 0;
    enum drop reason = parse(e, &e->rx_job[i], f);

    if (e->rx_from == RX_DIRECT)
        count_frame(e, &e->rx_job[i].view, f->len);
    if (unlikely(sniffers)) { /* those of this engine first: the frame may be forwarded below */
        *f = rx_frame_with_icrc(e, f);
        sniffed = raw_sniff(e, f);
    }
    e->forwarded = 0;
    if (reason == DROP_NONE)
        process_packet(e, i, f, verified);
    else if (unlikely(e->cfg.ceiling) && tx_ceiling_take(e, f))
        counter_inc(&e->counters.rx_punted);
    else if (is_punted(reason, f))
        raw_punt(e, f, reason);
    else if (!may_be_trimmed(e, reason) || !rx_trimmed(e, i, f))
        engine_drop(e, reason, 0);
    if (unlikely(sniffed))
        counter_add(&e->counters.rx_copies, sniffed);
    if (unlikely(sniffers) && e->rx_from == RX_DIRECT)
        raw_sniff_elsewhere(e, f);
}
