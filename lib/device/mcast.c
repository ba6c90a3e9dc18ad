/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of UD queue pairs: the engine delivers by them, the port is a member for each.
 */
#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct membership {
    LIST_ENTRY(membership) link;
    union gid group;
};

struct mcast_call {
    struct qp_object *q;
    union gid group;
    bool join;
    int err;
};

static void change(struct worker *w, void *arg)
{
    struct mcast_call *m = arg;
    struct dp_qp *dq = &m->q->dp;

    m->err = m->join ? engine_mcast_join(dq->port->engine, dq->qp, &m->group)
                     : engine_mcast_leave(dq->port->engine, dq->qp, &m->group);
}

static struct membership *find(struct qp_object *q, const union gid *group)
{
    struct membership *ms;

    LIST_FOREACH(ms, &q->groups, link)
    {
        if (gid_eq(&ms->group, group))
            return ms;
    }
    return NULL;
}

static void forget(struct qp_object *q, struct membership *ms)
{
    net_leave(q->o.client->device, &ms->group);
    LIST_REMOVE(ms, link);
    q->group_count--;
    free(ms);
}

void mcast_forget_all(struct qp_object *q)
{
    while (!LIST_EMPTY(&q->groups))
        forget(q, LIST_FIRST(&q->groups));
}

static int join(struct device *d, struct mcast_call *m)
{
    struct membership *ms = NULL;

    if (m->q->group_count < LIMIT_MCAST)
        ms = malloc(sizeof(*ms));
    if (!ms)
        return -ENOMEM;
    ms->group = m->group;
    worker_call(d->worker, change, m);
    if (!m->err) {
        m->err = net_join(d, &m->group);
        if (m->err) {
            struct mcast_call undo = {.q = m->q, .group = m->group};

            worker_call(d->worker, change, &undo);
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

static int prepare(struct client *c, const struct ctl_mcast *rq, struct mcast_call *m)
{
    *m = (struct mcast_call){.q = qp_object_get(c, rq->qpn)};
    memcpy(m->group.raw, rq->gid, sizeof(rq->gid));
    return m->q ? 0 : -EINVAL;
}

int mcast_attach(struct client *c, struct ctl_call *call)
{
    struct mcast_call m;
    int err = prepare(c, &call->request->mcast, &m);

    if (err)
        return err;
    if (find(m.q, &m.group)) /* to attach twice is to attach once */
        return 0;
    m.join = true;
    return join(c->device, &m);
}

int mcast_detach(struct client *c, struct ctl_call *call)
{
    struct membership *ms;
    struct mcast_call m;
    int err = prepare(c, &call->request->mcast, &m);

    if (err)
        return err;
    ms = find(m.q, &m.group);
    if (!ms)
        return -EINVAL;
    worker_call(c->device->worker, change, &m);
    forget(m.q, ms);
    return 0;
}
