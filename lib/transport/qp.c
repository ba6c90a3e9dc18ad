/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs as objects: creation, destruction, what others may ask of them. */
#include <errno.h>
#include <stdlib.h>

#include "id_table.h"
#include "raw_internal.h"
#include "transport.h"

/* The service of a type, or -EOPNOTSUPP. */
static int service_of(uint32_t type)
{
    switch (type) {
    case QPT_RC:
        return PKT_RC;
    case QPT_UC:
        return PKT_UC;
    case QPT_UD:
        return PKT_UD;
    case QPT_XRC_SEND:
    case QPT_XRC_RECV:
        return PKT_XRC;
    case QPT_RAW_PACKET:
        return SERVICE_RAW;
    default:
        return -EOPNOTSUPP;
    }
}

/* A raw queue pair's receive side: a queue, or what leads to others. */
static int alloc_raw(struct qp *qp, const struct qp_init *init)
{
    if (init->type != QPT_RAW_PACKET)
        return 0;
    if (init->rx_hash)
        qp->spread = rx_spread_create(init->rx_hash, init->ind);
    else
        qp->raw_rq = wq_of_qp(qp, &init->rq);
    return qp->spread || qp->raw_rq ? 0 : -ENOMEM;
}

struct qp *qp_create(struct qp_table *t, const struct qp_init *init, int *err)
{
    struct qp *qp;

    int service = service_of(init->type);

    *err = service;
    if (service < 0)
        return NULL;
    *err = -ENOMEM;
    qp = qp_alloc(init);
    if (!qp)
        return NULL;
    qp->type = (uint8_t)init->type;
    qp->service = (uint8_t)service;
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
    qp->req.sq = init->sq;
    qp->resp.rq = init->rq;
    qp->timer.deadline = NS_NEVER;
    if (init->entropy) {
        qp->own_entropy = true;
        qp->entropy = *init->entropy;
    }
    *err = alloc_raw(qp, init);
    if (!*err)
        *err = id_table_insert((struct id_table *)t, qp, &qp->qpn);
    if (!*err)
        qp->table = t;
    else {
        qp_free(qp);
        return NULL;
    }
    if (qp->raw_rq)
        qp->raw_rq->number = qp->qpn;
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
    free(qp->spread);
    wq_free(qp->raw_rq);
    qp_memory_free(qp);
}

bool qp_completions_are_read(const struct qp *qp, uint32_t lane)
{
    if (qp->type == QPT_XRC_RECV) /* they are in queues of others */
        return qp->state < QPS_RTR;
    return (!qp->send_cq || cq_lane_is_empty(qp->send_cq, lane)) &&
           (!qp->recv_cq || cq_lane_is_empty(qp->recv_cq, lane));
}

uint32_t qp_number(const struct qp *qp)
{
    return qp->qpn;
}

void *qp_owner(const struct qp *qp)
{
    return qp->owner;
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
