/* SPDX-License-Identifier: BSD-3-Clause */
/* See steer.h. */
#include "objects/steer.h"

#include <stdlib.h>

#include "control/session_state.h"

struct worker_port *device_next_port(struct device *d)
{
    unsigned best = 0;

    for (unsigned i = 1; i < d->parts; i++)
        if (d->assigned[i] < d->assigned[best])
            best = i;
    return d->port[best];
}

const char *steer_reason_name(enum steer_reason reason)
{
    static const char *const name[STEER_REASONS] = {[STEER_SHARE] = "share",
                                                    [STEER_LOCAL] = "local peer",
                                                    [STEER_PREDICTED] = "predicted",
                                                    [STEER_RULE] = "flow rule",
                                                    [STEER_MISPLACED] = "misplaced packets"};

    return name[reason];
}

/* ---- the count ---- */

void steer_begin(struct session *sn, struct qp_object *q, struct worker_port *p)
{
    struct ctx_shared *shared = sn->segment.base;

    q->dp.port = p;
    q->reason = STEER_SHARE;
    sn->device->assigned[p->queue]++;
    atomic_store(&shared->slot_worker[q->dp.slot], (uint8_t)worker_index(p->worker));
}

static void remove_rule(struct device *d, struct qp_object *q)
{
    if (q->flow)
        d->io->ops->flow_remove(d->io, q->flow);
    q->flow = NULL;
    q->flow_sport = 0;
}

void steer_end(struct session *sn, struct qp_object *q)
{
    remove_rule(sn->device, q);
    sn->device->assigned[q->dp.port->queue]--;
}

static bool migrate(struct device *d, struct qp_object *q, struct worker_port *to,
                    enum steer_reason reason)
{
    struct worker_port *from = q->dp.port;

    if (!worker_migrate_qp(&q->dp, to))
        return false;
    d->assigned[from->queue]--;
    d->assigned[to->queue]++;
    q->reason = reason;
    return true;
}

/* ---- where packets will arrive ---- */

bool device_has_address(const struct device *d, const struct address_vector *av)
{
    return gid_table_find(&d->gids, &av->dgid, av->gid_type, av->vlan) >= 0;
}

/*
 * Packets between two queue pairs of one port return on the queue that sends them, so both should
 * be on one worker: the one that is connected last migrates. The peer's part, or the queue pair's
 * own if the peer will migrate.
 */
static struct worker_port *local_part(struct device *d, struct qp_object *q, uint32_t dest_qpn)
{
    struct qp *peer = qp_table_lookup(d->qps, dest_qpn);

    if (!peer || qp_current_state(peer) < QPS_RTR)
        return q->dp.port;
    return ((struct dp_qp *)qp_owner(peer))->port;
}

/* The peer's packets, if it follows this port's rule for source ports. */
static void predict_tuple(const struct device *d, const struct qp_object *q,
                          const struct address_vector *av, struct rss_tuple *t)
{
    struct entropy_flow flow = {
        .src_qpn = q->dest_qpn, .dest_qpn = q->o.handle, .flow_label = av->flow_label};

    *t = (struct rss_tuple){.src = av->dgid,
                            .dst = av->sgid,
                            .sport = entropy_port(&d->entropy, &flow),
                            .dport = ROCE_UDP_PORT};
}

bool steer_predict(const struct qp_object *q, struct rss_tuple *t)
{
    const struct address_vector *av = qp_address_vector(q->dp.qp);
    const struct device *d = q->o.session->device;

    if (qp_type(q->dp.qp) == QPT_UD || qp_current_state(q->dp.qp) < QPS_RTR ||
        av->gid_type != GID_TYPE_ROCE_V2 || device_has_address(d, av))
        return false;
    predict_tuple(d, q, av, t);
    return true;
}

/* Read again each time: a port whose packets arrived elsewhere than predicted no longer reports its
 * hash. */
static const struct rss *current_rss(struct device *d, unsigned version)
{
    struct rss *rss = d->rss[version];

    if (rss && d->io->ops->rss(d->io, version == 1, rss)) {
        free(rss);
        d->rss[version] = NULL;
    }
    return d->rss[version];
}

static struct worker_port *predicted_part(struct device *d, const struct rss_tuple *t)
{
    const struct rss *rss = current_rss(d, !rss_is_ipv4(t));
    uint16_t queue;

    if (!rss)
        return NULL;
    queue = rss_queue(rss, t);
    return queue < d->parts ? d->port[queue] : NULL;
}

/* Matches the queue pair's number if the port supports that, else addresses and ports. */
static void add_rule(struct device *d, struct qp_object *q, const struct rss_tuple *t)
{
    struct pktio_flow flow = {.src = t->src, .dst = t->dst, .dest_qpn = q->o.handle};
    const struct pktio_ops *ops = d->io->ops;
    unsigned queue = q->dp.port->queue;
    void *rule;

    if (!ops->flow_add)
        return;
    if (ops->flow_add(d->io, &flow, queue, &rule)) {
        flow.sport = t->sport;
        if (ops->flow_add(d->io, &flow, queue, &rule))
            return;
    }
    q->flow = rule;
    q->flow_sport = flow.sport;
    q->reason = STEER_RULE;
}

/* A running queue pair stays on its worker, also when the application requests a change that will
 * fail. */
static bool may_migrate(const struct qp_object *q)
{
    enum qp_state state = qp_current_state(q->dp.qp);

    return state == QPS_INIT || state == QPS_SQD;
}

void steer_connect(struct qp_object *q, const struct address_vector *av, const struct qp_attr *attr,
                   uint32_t mask)
{
    struct device *d = q->o.session->device;
    uint32_t dest_qpn = mask & QPA_DEST_QPN ? attr->dest_qpn : q->dest_qpn;
    struct worker_port *part;
    struct rss_tuple t;

    if (d->parts == 1 || !may_migrate(q))
        return;
    q->dest_qpn = dest_qpn;
    remove_rule(d, q);
    if (device_has_address(d, av)) {
        migrate(d, q, local_part(d, q, dest_qpn), STEER_LOCAL);
        return;
    }
    if (av->gid_type != GID_TYPE_ROCE_V2)
        return;
    predict_tuple(d, q, av, &t);
    part = predicted_part(d, &t);
    if (part) {
        migrate(d, q, part, STEER_PREDICTED);
        return;
    }
    add_rule(d, q, &t);
}

/* Two queue pairs of one port that are on different workers are both misplaced: the first report
 * migrates one to the other, and then the second report is out of date. */
void steer_misplaced(struct qp_object *q, uint32_t worker)
{
    struct device *d = q->o.session->device;
    struct worker_port *part = NULL;

    if (qp_object_get(q->o.session, q->o.handle) != q) /* it ends */
        return;
    for (unsigned i = 0; i < d->parts; i++)
        if (worker_index(d->workers[i]) == worker)
            part = d->port[i];
    if (device_has_address(d, qp_address_vector(q->dp.qp)))
        part = local_part(d, q, q->dest_qpn);
    if (part && part != q->dp.port && migrate(d, q, part, STEER_MISPLACED)) {
        remove_rule(d, q);
        d->moved_after_misplaced++;
    }
}
