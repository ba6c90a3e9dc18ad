/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a peer does not answer: what the device knows of a peer that is its own, and what was dropped
 * on the way. See why_send.c.
 */
#include "completion.h"
#include "id_tables.h"

/* The peer, if its address is one of this port; true: it is, and *peer may be NULL. */
static bool local_peer(const struct engine *e, const struct qp *qp, const struct qp **peer)
{
    const struct gid_table *gids = e->cfg.port->gids; /* NULL: a replayed port has any address */

    if (!gids || gid_table_find(gids, &qp->av.dgid, qp->av.gid_type, qp->av.vlan) < 0)
        return false;
    *peer = qp_table_lookup(e->cfg.qps, qp->attr.dest_qpn);
    return true;
}

/* The packets to a queue pair that one of the two ends has dropped. */
struct drops {
    const struct engine *at;
    enum trace_event event;
    uint32_t to;
};

static struct why dropped(const struct drops *d, bool of_peer, enum drop reason, uint32_t n)
{
    switch (reason) {
    case DROP_bad_icrc:
        return why_of(CAUSE_packets_damaged, n, d->to, 0, 0);
    case DROP_source_mismatch:
    case DROP_sender_mismatch:
    case DROP_wrong_destination:
        return why_of(CAUSE_packets_from_elsewhere, n, d->to, 0, 0);
    case DROP_fault_rule:
        return why_of(CAUSE_packets_dropped_on_purpose, n, d->to, d->event == TRACE_TX_DROP, 0);
    default:
        return of_peer ? why_of(CAUSE_requests_dropped, d->to, reason, n, 0)
                       : why_of(CAUSE_answers_dropped, reason, n, 0, 0);
    }
}

/* When retries began, or some time before. */
static uint64_t retries_began(const struct engine *e, const struct qp *qp)
{
    uint64_t began = qp->why.rx_seen_at ? qp->why.rx_seen_at : e->now;
    uint64_t before = 2 * qp->ack_timeout + NS_PER_MS;

    return began - min_of(began, before);
}

/* Whether packets of the connection were dropped since, at either end: as they arrived, or as they
 * were sent. */
static bool find_drops(const struct engine *e, const struct qp *qp, const struct qp *peer,
                       struct why *out)
{
    const struct engine *at = peer ? qp_owner_engine(peer) : NULL;
    const struct drops drops[] = {{at, TRACE_DROP, qp->attr.dest_qpn},
                                  {e, TRACE_DROP, qp->qpn},
                                  {e, TRACE_TX_DROP, qp->attr.dest_qpn},
                                  {at, TRACE_TX_DROP, qp->qpn}};
    uint64_t since = retries_began(e, qp);
    enum drop reason;

    for (unsigned i = 0; i < ARRAY_SIZE(drops); i++) {
        const struct drops *d = &drops[i];
        uint32_t n = d->at ? why_drops(d->at, d->event, d->to, since, &reason) : 0;

        if (!n)
            continue;
        *out = dropped(d, i == 0, reason, n);
        return true;
    }
    return false;
}

static uint64_t ago_us(const struct engine *e, uint64_t at)
{
    return at ? (e->now - min_of(e->now, at)) / NS_PER_US : 0;
}

/* Why a peer is in the error state, and how long before it went there, if it is the same user's. */
static void add_end(const struct engine *e, const struct qp *qp, const struct qp *peer,
                    struct why *out)
{
    if (out->detail[1] != QPS_ERR || peer->why.program.uid != qp->why.program.uid)
        return;
    out->detail[2] = __atomic_load_n(&peer->why.ended_for, __ATOMIC_RELAXED);
    out->detail[3] = ago_us(e, __atomic_load_n(&peer->why.ended_at, __ATOMIC_RELAXED));
}

/* What is wrong with a peer on the same port, as far as its queue pair shows; its attributes are
 * its own worker's. */
static bool judge_peer(const struct engine *e, const struct qp *qp, const struct qp *peer,
                       bool answered, struct why *out)
{
    uint32_t number = qp->attr.dest_qpn, to;
    uint8_t state;

    if (!peer) {
        *out = why_of(answered ? CAUSE_peer_qp_gone : CAUSE_peer_qp_unknown, number, 0, 0, 0);
        return true;
    }
    state = __atomic_load_n(&peer->state, __ATOMIC_RELAXED);
    if (state < QPS_RTR || state > QPS_SQE) {
        *out = why_of(CAUSE_peer_qp_state, number, state, 0, 0);
        add_end(e, qp, peer, out);
    }
    if (out->cause)
        return true;
    if (peer->service != qp->service) {
        *out = why_of(CAUSE_peer_qp_type, number, peer->type, 0, 0);
        return true;
    }
    to = qp_owner_engine(peer) == e ? peer->attr.dest_qpn : QPN_NONE;  /* not known */
    if (qp->dest_qpn != QPN_NONE && (to == qp->qpn || to == QPN_NONE)) /* not held, either */
        return false;
    *out = why_of(CAUSE_peer_qp_elsewhere, number, to, 0, 0);
    return true;
}

/* The peer is on this device, and well: what is between them is not. */
static void add_peer(const struct qp *qp, const struct qp *peer, uint64_t *detail)
{
    if (!peer)
        return;
    detail[0] = qp->attr.dest_qpn;
    detail[1] = __atomic_load_n(&peer->state, __ATOMIC_RELAXED);
    detail[2] = counter_get(&peer->counters.rx_packets);
}

static struct why silent(const struct engine *e, const struct qp *qp, const struct qp *peer)
{
    uint64_t rx = counter_get(&qp->counters.rx_packets) - qp->why.rx_base;
    uint64_t timeouts = counter_get(&qp->counters.timeouts);
    uint64_t tx = counter_get(&qp->counters.tx_packets), us = ago_us(e, qp->why.rx_seen_at);
    struct why why = why_of(CAUSE_no_answer, timeouts, qp->attr.retry_cnt, tx, us);

    if (rx && !qp->attr.retry_cnt) {
        why = why_of(CAUSE_no_retries, timeouts, tx, 0, 0);
        add_peer(qp, peer, &why.detail[2]);
    } else if (peer) {
        why = why_of(CAUSE_packets_lost_here, 0, 0, 0, rx);
        add_peer(qp, peer, why.detail);
        why.detail[4] = tx;
        why.detail[5] = timeouts;
        why.detail[6] = qp->attr.retry_cnt;
        why.detail[7] = us;
    } else if (rx) {
        why = why_of(CAUSE_answers_stopped, timeouts, qp->attr.retry_cnt, rx, us);
    }
    return why;
}

struct why why_no_answer(const struct engine *e, const struct qp *qp)
{
    uint64_t rx = counter_get(&qp->counters.rx_packets) - qp->why.rx_base;
    const struct qp *peer = NULL;
    bool local = local_peer(e, qp, &peer);
    struct why why = {.cause = CAUSE_none};

    if (local && judge_peer(e, qp, peer, rx, &why))
        return why;
    if (find_drops(e, qp, peer, &why))
        return why;
    if (qp->why.rx_seen_at && qp->why.rx_seen - qp->why.rx_base == rx)
        return silent(e, qp, peer);
    return why_of(CAUSE_retries_used_up, qp->attr.retry_cnt,
                  counter_get(&qp->counters.seq_nak_rcvd), 0, 0);
}
