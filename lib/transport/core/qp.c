/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs as objects: creation, destruction, what others may ask of them. */
#include <errno.h>

#include "id_tables.h"
#include "lines.h"
#include "qp_memory.h"
#include "raw_private.h"
#include "service.h"

struct qp *qp_create(struct qp_table *t, const struct qp_init *init, int *err)
{
    int service = service_of_type(init->type);
    struct qp *qp;

    *err = service;
    if (service < 0)
        return NULL;
    *err = -ENOMEM;
    qp = qp_alloc(init);
    if (!qp)
        return NULL;
    qp->type = (uint8_t)init->type;
    qp->service = (uint8_t)service;
    qp->ops = service_ops_of(qp->service);
    qp->srq = init->srq;
    qp->xrcd = init->xrcd;
    qp->pd = init->pd;
    qp->sq_sig_all = init->sq_sig_all;
    qp->uidx = init->uidx;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->caps = init->caps;
    qp->owner = init->owner;
    qp->shared = init->shared;
    qp->shares = init->shares;
    qp->req.sq = init->sq;
    qp->resp.rq = init->rq;
    if (init->program)
        qp->why.program = *init->program;
    qp->timer.deadline = qp->pace.deadline = NS_NEVER;
    qp->rx_template.form = HDR_NONE;
    if (init->entropy) {
        qp->own_entropy = true;
        qp->entropy = *init->entropy;
    }
    *err = id_table_insert((struct id_table *)t, qp, &qp->qpn);
    if (!*err) {
        qp->table = t;
        if (qp->ops->create)
            *err = qp->ops->create(qp, init);
    }
    if (*err) {
        qp_free(qp);
        return NULL;
    }
    return qp;
}

void qp_unpublish(struct qp *qp)
{
    if (qp->table)
        id_table_remove((struct id_table *)qp->table, qp->qpn, qp);
    qp->table = NULL;
}

void qp_free(struct qp *qp)
{
    qp_unpublish(qp);
    if (qp->ops->destroy)
        qp->ops->destroy(qp);
    qp_memory_free(qp);
}

bool qp_has_late(const struct qp *qp)
{
    return qp->late || (qp->raw_rq && qp->raw_rq->late);
}

bool qp_completions_are_read(const struct qp *qp, uint32_t lane)
{
    if (qp_has_late(qp)) /* there will be more in this lane */
        return false;
    if (qp->type == QPT_XRC_RECV) /* they are in queues of others */
        return qp->state < QPS_RTR;
    return (!qp->send_cq || cq_lane_is_empty(qp->send_cq, lane)) &&
           (!qp->recv_cq || cq_lane_is_empty(qp->recv_cq, lane));
}

struct engine *qp_engine(const struct qp *qp)
{
    return qp_owner_engine(qp);
}

uint32_t qp_number(const struct qp *qp)
{
    return qp->qpn;
}

void engine_fetch_qp(const struct qp *qp)
{
    line_fetch(qp);
    line_fetch(&qp->share);
}

void *qp_owner(const struct qp *qp)
{
    return qp->owner;
}

bool qp_has_agreed(const struct qp *qp)
{
    return __atomic_load_n(&qp->selective, __ATOMIC_RELAXED);
}

uint32_t qp_type(const struct qp *qp)
{
    return qp->type;
}

uint32_t qp_uidx(const struct qp *qp)
{
    return qp->uidx;
}

enum qp_state qp_current_state(const struct qp *qp)
{
    return (enum qp_state)__atomic_load_n(&qp->state, __ATOMIC_RELAXED);
}

const struct address_vector *qp_address_vector(const struct qp *qp)
{
    return &qp->av;
}

const struct entropy_policy *qp_entropy(const struct qp *qp)
{
    return qp->own_entropy ? &qp->entropy : NULL;
}

uint16_t qp_udp_sport(const struct qp *qp)
{
    if (qp->service == PKT_UD || !qp->encap.len || !encap_template_has_udp(&qp->encap))
        return 0;
    return __atomic_load_n(&qp->av.udp_sport, __ATOMIC_RELAXED);
}

const struct qp_caps *qp_capabilities(const struct qp *qp)
{
    return &qp->caps;
}

const struct qp_counters *qp_counters(const struct qp *qp)
{
    return &qp->counters;
}
