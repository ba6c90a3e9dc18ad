/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports that a packet was too big for a link. Anyone who can send to this host can send one, and
 * it makes connections to a peer fail for ten minutes. So it is believed only when it quotes a
 * packet that a queue pair can have sent lately: its addresses, the peer's QP number and the PSN
 * must be right. The search is a job, one at a time and seldom, as there may be many queue pairs.
 */
#include "bth.h"
#include "control/session_state.h"
#include "objects/qp_object.h"
#include "pkt.h"

#define PSNS_LATE   32768u /* before the next one: packets in flight, and reports on their way */
#define BATCH       32
#define JUDGE_EVERY (100 * NS_PER_MS)

static bool is_late(uint32_t psn, uint32_t next)
{
    return ((next - psn) & PSN_MASK) <= PSNS_LATE;
}

/* A request of the queue pair, or a response to its peer. */
static bool has_sent(const struct qp_attr *a, const struct net_report *r)
{
    return a->state >= QPS_RTR && a->dest_qpn == r->dest_qpn &&
           (is_late(r->psn, a->sq_psn) || is_late(r->psn, a->rq_psn));
}

static bool has_addresses(const struct device *d, const struct qp_object *q,
                          const struct net_report *r)
{
    const struct address_vector *av = qp_address_vector(q->dp.qp);

    return q->o.session->device == d && !q->ind && gid_eq(&av->sgid, &r->src) &&
           gid_eq(&av->dgid, &r->dst) && av->vlan == r->vlan;
}

/* The next queue pairs between these addresses; *n of them. False: there are no more at all. */
static bool take_candidates(struct device *d, struct net_report *r, struct qp_object *q[BATCH],
                            unsigned *n)
{
    struct object *o = NULL;

    *n = 0;
    for (unsigned looked = 0; looked < 8 * BATCH && *n < BATCH; looked++) {
        o = walk_next(&r->walk);
        if (!o)
            return false;
        q[*n] = container_of(o, struct qp_object, o);
        if (has_addresses(d, q[*n], r))
            ++*n;
    }
    return true;
}

static void end_report(struct net_report *r)
{
    walk_end(&r->walk);
    r->active = false;
}

/* A slice. False: the report is judged. */
static bool judge_some(struct device *d, struct net_report *r)
{
    struct qp_object *q[BATCH];
    struct qp_attr attr[BATCH];
    unsigned n;
    bool more = take_candidates(d, r, q, &n);

    if (n)
        qp_objects_attr(d, q, n, attr);
    for (unsigned i = 0; i < n; i++) {
        if (!has_sent(&attr[i], r))
            continue;
        net_host_learn_pmtu(d->net.host, &r->dst, r->vlan, r->mtu, net_time(d));
        net_arm_timer(d);
        more = false;
    }
    if (!more)
        end_report(r);
    return more;
}

static bool run_judge(struct event_job *job)
{
    struct net_report *r = container_of(job, struct net_report, job);

    return judge_some(container_of(container_of(r, struct device_net, report), struct device, net),
                      r);
}

void net_too_big(void *ctx, const struct net_quote *quote)
{
    struct device *d = ctx;
    struct net_report *r = &d->net.report;
    ns_t now = net_time(d);

    if (r->active || quote->len < BTH_LEN || (r->judged && now - r->judged < JUDGE_EVERY))
        return;
    *r = (struct net_report){.active = true,
                             .judged = now,
                             .src = quote->src,
                             .dst = quote->dst,
                             .vlan = quote->vlan,
                             .mtu = quote->mtu,
                             .dest_qpn = bth_dest_qpn(quote->roce),
                             .psn = bth_psn(quote->roce).v};
    walk_begin(&r->walk, d->rnic, OBJ_QP);
    r->job.run = run_judge;
    if (d->rnic->config.loop) {
        event_loop_start(d->rnic->config.loop, &r->job);
        return;
    }
    while (judge_some(d, r)) {
    }
}

void net_too_big_cancel(struct device *d)
{
    if (!d->net.report.active)
        return;
    event_loop_stop(d->rnic->config.loop, &d->net.report.job);
    end_report(&d->net.report);
}
