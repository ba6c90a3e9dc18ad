/* SPDX-License-Identifier: BSD-3-Clause */
/* Source port policies of individual queue pairs. */
#include <errno.h>

#include "objects/qp_object.h"

int entropy_from_ctl(const struct ctl_entropy *c, struct entropy_policy *policy)
{
    const uint32_t last = ENTROPY_PORT_MIN + ENTROPY_PORTS - 1;

    if (!c->rule) /* the port's */
        return c->port ? -EINVAL : 0;
    if (c->rule - 1 > ENTROPY_SPRAY)
        return -EINVAL;
    *policy = (struct entropy_policy){(enum entropy_rule)(c->rule - 1), c->port};
    if (policy->rule == ENTROPY_FIXED ? c->port < ENTROPY_PORT_MIN || c->port > last : c->port)
        return -EINVAL;
    return 1;
}

struct entropy_call {
    struct qp_object *q;
    const struct entropy_policy *policy;
    int err;
};

static void set_entropy(struct worker *w, void *arg)
{
    struct entropy_call *call = arg;
    struct dp_qp *dq = &call->q->dp;

    call->err = engine_qp_set_entropy(qp_object_engine(call->q), dq->qp, call->policy);
}

int qp_object_set_entropy(struct session *sn, struct ctl_call *call)
{
    const struct ctl_set_entropy *rq = &call->request->set_entropy;
    struct entropy_call set_call = {.q = qp_object_get(sn, rq->qpn)};
    struct entropy_policy policy;
    int given = entropy_from_ctl(&rq->entropy, &policy);

    if (!set_call.q)
        return -EINVAL;
    if (given < 0)
        return given;
    set_call.policy = given ? &policy : NULL;
    qp_object_call(set_call.q, set_entropy, &set_call);
    return set_call.err;
}
