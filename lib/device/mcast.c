/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of UD queue pairs. */
#include "object.h"

#include <errno.h>
#include <string.h>

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

static int change_on_worker(struct client *c, const struct ctl_mcast *rq, bool join)
{
    struct mcast_call m = {.q = qp_object_get(c, rq->qpn), .join = join};

    if (!m.q)
        return -EINVAL;
    memcpy(m.group.raw, rq->gid, sizeof(rq->gid));
    if (join && m.q->groups >= LIMIT_MCAST)
        return -ENOMEM;
    worker_call(c->device->worker, change, &m);
    if (m.err == -EEXIST) /* to attach twice is to attach once */
        return 0;
    if (!m.err)
        m.q->groups += join ? 1 : (uint32_t)-1;
    return m.err == -ENOENT ? -EINVAL : m.err;
}

int mcast_attach(struct client *c, struct ctl_call *call)
{
    return change_on_worker(c, &call->request->mcast, true);
}

int mcast_detach(struct client *c, struct ctl_call *call)
{
    return change_on_worker(c, &call->request->mcast, false);
}
