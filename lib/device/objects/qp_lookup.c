/* SPDX-License-Identifier: BSD-3-Clause */
/* See qp_object.h. */
#include <string.h>

#include "control/session_state.h"
#include "objects/qp_object.h"

struct qp_object *qp_object_of(struct device *d, uint32_t qpn)
{
    struct qp *qp = qp_table_lookup(d->qps, qpn);

    return qp ? container_of((struct dp_qp *)qp_owner(qp), struct qp_object, dp) : NULL;
}

struct qp_object *qp_object_get(struct session *sn, uint32_t qpn)
{
    struct qp_object *q = qp_object_of(sn->device, qpn);

    return q && q->o.session == sn && !q->left ? q : NULL;
}

struct qp_object *qp_object_of_key(struct device *d, uint32_t qpn, const uint64_t key[2])
{
    struct qp_object *q = qp_object_of(d, qpn);

    return q && !q->left && session_has_key(q->o.session, key) ? q : NULL;
}

void qp_object_call(struct qp_object *q, worker_fn fn, void *arg)
{
    worker_call(q->dp.port->worker, fn, arg);
}

struct engine *qp_object_engine(struct qp_object *q)
{
    return q->dp.port->engine;
}

struct query_call {
    struct qp_object *q;
    struct qp_attr *attr;
};

static void query_attr(struct worker *w, void *arg)
{
    struct query_call *call = arg;

    engine_qp_query(call->q->dp.qp, call->attr);
}

void qp_object_attr(struct qp_object *q, struct qp_attr *attr)
{
    struct query_call call = {.q = q, .attr = attr};

    qp_object_call(q, query_attr, &call);
}

struct query_many {
    struct qp_object *const *q;
    unsigned n;
    struct qp_attr *attr;
};

/* Those that live on the worker. */
static void query_attrs(struct worker *w, void *arg)
{
    struct query_many *call = arg;

    for (unsigned i = 0; i < call->n; i++)
        if (!call->q[i]->ind && call->q[i]->dp.port->worker == w)
            engine_qp_query(call->q[i]->dp.qp, &call->attr[i]);
}

void qp_objects_attr(struct device *d, struct qp_object *const *q, unsigned n, struct qp_attr *attr)
{
    struct query_many call = {.q = q, .n = n, .attr = attr};

    memset(attr, 0, n * sizeof(*attr));
    for (unsigned i = 0; i < d->parts; i++)
        worker_call(d->workers[i], query_attrs, &call);
}
