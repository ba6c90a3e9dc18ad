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

static void leave_group(struct qp_object *q, struct membership *ms)
{
    net_leave(q->o.session->device, &ms->net);
    LIST_REMOVE(ms, link);
    q->group_count--;
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
    struct membership *ms = NULL;

    if (m->q->group_count < LIMIT_MCAST)
        ms = malloc(sizeof(*ms));
    if (!ms)
        return -ENOMEM;
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
