/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On which of its port's workers a queue pair lives: where its packets arrive, as far as that can
 * be known. The port's hash decides by addresses and UDP ports, and the peer's source port follows
 * from a rule that both ends know (entropy.h). Where nobody can tell, where the fewest are; a flow
 * rule brings the packets there if the port takes any; and what arrives elsewhere all the same is
 * handed over, until the queue pair goes there.
 */
#include "object.h"

#include <stdlib.h>

struct worker_port *device_next_port(struct device *d)
{
    unsigned best = 0;

    for (unsigned i = 1; i < d->parts; i++)
        if (d->placed[i] < d->placed[best])
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
    sn->device->placed[p->queue]++;
    atomic_store(&shared->slot_worker[q->dp.slot], (uint8_t)worker_index(p->worker));
}

static void remove_rule(struct device *d, struct qp_object *q)
{
    if (q->flow)
        d->io->ops->flow_remove(d->io, q->flow);
    q->flow = NULL;
}

void steer_end(struct session *sn, struct qp_object *q)
{
    remove_rule(sn->device, q);
    sn->device->placed[q->dp.port->queue]--;
}

static bool move(struct device *d, struct qp_object *q, struct worker_port *to,
                 enum steer_reason reason)
{
    struct worker_port *from = q->dp.port;

    if (!worker_migrate_qp(&q->dp, to))
        return false;
    d->placed[from->queue]--;
    d->placed[to->queue]++;
    q->reason = reason;
    return true;
}

/* ---- where packets will arrive ---- */

/* The peer is on this port. */
static bool is_own(const struct device *d, const struct address_vector *av)
{
    return gid_table_find(&d->gids, &av->dgid, av->gid_type, av->vlan) >= 0;
}

/*
 * Packets between two queue pairs of one port come back on the queue that sends them, so both
 * should be on one worker: who gets to know the other's address last follows. The peer's part, or
 * the own one if the peer will follow.
 */
static struct worker_port *local_part(struct device *d, struct qp_object *q, uint32_t dest_qpn)
{
    struct qp *peer = qp_table_lookup(d->qps, dest_qpn);

    if (!peer || qp_current_state(peer) < QPS_RTR)
        return q->dp.port;
    return ((struct dp_qp *)qp_owner(peer))->port;
}

/* The peer's packets, if it follows the rule that we follow. */
static void expect(const struct device *d, const struct qp_object *q,
                   const struct address_vector *av, struct rss_tuple *t)
{
    struct entropy_flow flow = {
        .src_qpn = q->dest_qpn, .dest_qpn = q->o.handle, .flow_label = av->flow_label};

    *t = (struct rss_tuple){.src = av->dgid,
                            .dst = av->sgid,
                            .sport = entropy_port(&d->entropy, &flow),
                            .dport = ROCE_UDP_PORT};
}

bool steer_expect(const struct qp_object *q, struct rss_tuple *t)
{
    const struct address_vector *av = qp_address_vector(q->dp.qp);
    const struct device *d = q->o.session->device;

    if (qp_type(q->dp.qp) == QPT_UD || qp_current_state(q->dp.qp) < QPS_RTR ||
        av->gid_type != GID_TYPE_ROCE_V2 || is_own(d, av))
        return false;
    expect(d, q, av, t);
    return true;
}

/* Asked anew: a port whose packets arrived elsewhere tells nothing any more. */
static const struct rss *told_rss(struct device *d, unsigned version)
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
    const struct rss *rss = told_rss(d, !rss_is_ipv4(t));
    uint16_t queue;

    if (!rss)
        return NULL;
    queue = rss_queue(rss, t);
    return queue < d->parts ? d->port[queue] : NULL;
}

/* By the queue pair's number if the port knows that, else by addresses and ports. */
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

/* A queue pair that runs keeps its place whatever an application asks for in vain. */
static bool may_be_placed(const struct qp_object *q)
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

    if (d->parts == 1 || !may_be_placed(q))
        return;
    q->dest_qpn = dest_qpn;
    remove_rule(d, q);
    if (is_own(d, av)) {
        move(d, q, local_part(d, q, dest_qpn), STEER_LOCAL);
        return;
    }
    if (av->gid_type != GID_TYPE_ROCE_V2)
        return;
    expect(d, q, av, &t);
    part = predicted_part(d, &t);
    if (part) {
        move(d, q, part, STEER_PREDICTED);
        return;
    }
    add_rule(d, q, &t);
}

/* Two queue pairs of one port that are on different workers are strays for each other: one goes to
 * the other, and then the second report is out of date. */
void steer_stray(struct session *sn, uint32_t qpn, uint32_t worker)
{
    struct device *d = sn->device;
    struct qp_object *q = d ? qp_object_get(sn, qpn) : NULL;
    struct worker_port *part = NULL;

    if (!q)
        return;
    for (unsigned i = 0; i < d->parts; i++)
        if (worker_index(d->workers[i]) == worker)
            part = d->port[i];
    if (is_own(d, qp_address_vector(q->dp.qp)))
        part = local_part(d, q, q->dest_qpn);
    if (part && part != q->dp.port && move(d, q, part, STEER_MISPLACED)) {
        remove_rule(d, q);
        d->strays++;
    }
}
