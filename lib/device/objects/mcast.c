/* SPDX-License-Identifier: BSD-3-Clause */
/* See mcast.h. */
#include "objects/mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/session_state.h"
#include "objects/qp_object.h"

struct membership {
    LIST_ENTRY(membership) link;
    struct net_membership net;
};

/* A group that queue pairs of a session are in. */
struct session_group {
    LIST_ENTRY(session_group) link;
    union gid group;
    unsigned members;
};

struct mcast_call {
    struct qp_object *q;
    union gid group;
    struct engine *engine;
    bool join;
    int err;
};

static void change_membership(struct worker *w, void *arg)
{
    struct mcast_call *m = arg;

    m->err = m->join ? engine_mcast_join(m->engine, m->q->dp.qp, &m->group)
                     : engine_mcast_leave(m->engine, m->q->dp.qp, &m->group);
}

/* Every engine knows every member, to forward packets to the members of other engines. */
static int change_all(struct device *d, struct mcast_call *m)
{
    for (unsigned i = 0; i < d->parts; i++) {
        m->engine = d->port[i]->engine;
        worker_call(d->port[i]->worker, change_membership, m);
        if (m->err && m->join) {
            struct mcast_call undo = {.q = m->q, .group = m->group};

            while (i-- > 0) {
                undo.engine = d->port[i]->engine;
                worker_call(d->port[i]->worker, change_membership, &undo);
            }
            return m->err;
        }
    }
    return 0;
}

static struct membership *find_membership(struct qp_object *q, const union gid *group)
{
    struct membership *ms;

    LIST_FOREACH(ms, &q->groups, link)
    {
        if (gid_eq(&ms->net.group, group))
            return ms;
    }
    return NULL;
}

/* ---- what the session is charged ---- */

static struct session_group *find_group(struct session *sn, const union gid *group)
{
    struct session_group *g;

    LIST_FOREACH(g, &sn->groups, link)
    {
        if (gid_eq(&g->group, group))
            return g;
    }
    return NULL;
}

/* Each engine has a record of the membership. */
static struct quota_cost cost_of(const struct session *sn, bool first)
{
    uint64_t bytes = sizeof(struct membership) + (sn->device->parts + 1) * 64;

    return (struct quota_cost){{[QUOTA_JOIN] = 1,
                                [QUOTA_GROUP] = first,
                                [QUOTA_MEMORY] = bytes + first * sizeof(struct session_group)}};
}

/* Whether the user may have one more queue pair in the group, by any connection. */
static bool group_has_room(struct session *sn, const union gid *group)
{
    unsigned members = 0;

    if (sn->account.user->owner)
        return true;
    for (struct session *s = session_next(sn->device, NULL); s; s = session_next(sn->device, s)) {
        const struct session_group *g = s->peer.uid == sn->peer.uid ? find_group(s, group) : NULL;

        members += g ? g->members : 0;
    }
    return members < LIMIT_USER_GROUP_QPS;
}

static int charge_membership(struct session *sn, const union gid *group)
{
    struct session_group *g = find_group(sn, group);
    struct quota_cost cost = cost_of(sn, !g);
    int err = group_has_room(sn, group) ? quota_charge(&sn->account, &cost) : -ENOMEM;

    if (!err && !g) {
        g = calloc(1, sizeof(*g));
        if (!g) {
            quota_uncharge(&sn->account, &cost);
            return -ENOMEM;
        }
        g->group = *group;
        LIST_INSERT_HEAD(&sn->groups, g, link);
    }
    if (!err)
        g->members++;
    return err;
}

static void uncharge_membership(struct session *sn, const union gid *group)
{
    struct session_group *g = find_group(sn, group);
    struct quota_cost cost = cost_of(sn, !--g->members);

    quota_uncharge(&sn->account, &cost);
    if (g->members)
        return;
    LIST_REMOVE(g, link);
    free(g);
}

/* ---- joining and leaving ---- */

static void leave_group(struct qp_object *q, struct membership *ms)
{
    net_leave(q->o.session->device, &ms->net);
    LIST_REMOVE(ms, link);
    q->group_count--;
    uncharge_membership(q->o.session, &ms->net.group);
    free(ms);
}

void mcast_leave_all(struct qp_object *q)
{
    while (!LIST_EMPTY(&q->groups))
        leave_group(q, LIST_FIRST(&q->groups));
}

/* If there is no room for a group in a VLAN, its packets are missed until a queue pair attaches
 * again. */
void mcast_follow_addresses(struct device *d)
{
    struct membership *ms;
    struct object *o;

    for (struct session *sn = session_next(d, NULL); sn; sn = session_next(d, sn)) {
        TAILQ_FOREACH (o, &sn->objects[OBJ_QP], link) {
            LIST_FOREACH(ms, &container_of(o, struct qp_object, o)->groups, link)
            net_join(d, &ms->net);
        }
    }
}

static int join_group(struct device *d, struct mcast_call *m)
{
    struct membership *ms;
    int err = charge_membership(m->q->o.session, &m->group);

    if (err)
        return err;
    ms = malloc(sizeof(*ms));
    if (!ms) {
        uncharge_membership(m->q->o.session, &m->group);
        return -ENOMEM;
    }
    ms->net = (struct net_membership){.group = m->group};
    if (!change_all(d, m)) {
        m->err = net_join(d, &ms->net);
        if (m->err) {
            struct mcast_call undo = {.q = m->q, .group = m->group};

            net_leave(d, &ms->net);
            change_all(d, &undo);
        }
    }
    if (m->err) {
        free(ms);
        uncharge_membership(m->q->o.session, &m->group);
        return m->err == -ENOSPC ? -ENOMEM : m->err;
    }
    LIST_INSERT_HEAD(&m->q->groups, ms, link);
    m->q->group_count++;
    return 0;
}

static int read_request(struct session *sn, const struct ctl_mcast *rq, struct mcast_call *m)
{
    *m = (struct mcast_call){.q = qp_object_get(sn, rq->qpn)};
    memcpy(m->group.raw, rq->gid, sizeof(rq->gid));
    return m->q ? 0 : -EINVAL;
}

int mcast_attach(struct session *sn, struct ctl_call *call)
{
    struct mcast_call m;
    int err = read_request(sn, &call->request->mcast, &m);

    if (err)
        return err;
    if (find_membership(m.q, &m.group)) /* attached already: no error */
        return 0;
    m.join = true;
    return join_group(sn->device, &m);
}

int mcast_detach(struct session *sn, struct ctl_call *call)
{
    struct membership *ms;
    struct mcast_call m;
    int err = read_request(sn, &call->request->mcast, &m);

    if (err)
        return err;
    ms = find_membership(m.q, &m.group);
    if (!ms)
        return -EINVAL;
    change_all(sn->device, &m);
    leave_group(m.q, ms);
    return 0;
}
