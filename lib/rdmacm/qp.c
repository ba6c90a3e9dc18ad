/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs and shared receive queues of ids, with their completion queues. */
#include "cma.h"
#include "common.h"

/* ---- completion queues ---- */

static int cq_create(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel,
                     struct ibv_cq **cq)
{
    *channel = ibv_create_comp_channel(id->verbs);
    if (!*channel)
        return cma_errno();
    *cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
    return *cq ? 0 : cma_errno();
}

/* They stay while something else uses them. */
static void cq_destroy(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
    if (*cq && is_gone(ibv_destroy_cq(*cq)))
        *cq = NULL;
    if (!*cq && *channel && is_gone(ibv_destroy_comp_channel(*channel)))
        *channel = NULL;
}

void cqs_destroy(struct rdma_cm_id *id)
{
    cq_destroy(&id->recv_cq_channel, &id->recv_cq);
    cq_destroy(&id->send_cq_channel, &id->send_cq);
}

/* 0: none. */
int cqs_create(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
    int err = 0;

    if (send)
        err = cq_create(id, send, &id->send_cq_channel, &id->send_cq);
    if (!err && recv)
        err = cq_create(id, recv, &id->recv_cq_channel, &id->recv_cq);
    if (err)
        cqs_destroy(id);
    return err;
}

/* ---- queue pairs ---- */

static uint32_t cq_size(const struct ibv_cq *has, uint32_t entries)
{
    return has ? 0 : entries ? entries : 1;
}

/* The completion queues that the program does not name and the type needs. */
static int complete_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    uint32_t send = cq_size(attr->send_cq ? attr->send_cq : id->send_cq, attr->cap.max_send_wr);
    uint32_t recv = cq_size(attr->recv_cq ? attr->recv_cq : id->recv_cq, attr->cap.max_recv_wr);
    int err;

    if (attr->qp_type == IBV_QPT_XRC_RECV)
        return 0;
    err = cqs_create(id, send, attr->qp_type == IBV_QPT_XRC_SEND ? 0 : recv);
    if (err)
        return err;
    if (!attr->send_cq)
        attr->send_cq = id->send_cq;
    if (!attr->recv_cq)
        attr->recv_cq = id->recv_cq;
    return 0;
}

static int complete_attr(struct cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
    int err = 0;

    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = id->base.pd;
    } else if (attr->pd->context != id->base.verbs) {
        return -EINVAL;
    }
    if (attr->qp_type == IBV_QPT_XRC_RECV && !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
        attr->xrcd = device_xrcd(id->device, &err);
        attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    }
    if (id->base.srq && !attr->srq)
        attr->srq = id->base.srq;
    return err ? err : complete_cqs(&id->base, attr);
}

static int create_qp(struct cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
    struct uroce_qp_step step[QP_STEPS];
    struct ibv_qp_attr first;
    int err, steps;

    if (!id->device || id->base.qp)
        return -EINVAL;
    err = complete_attr(id, attr);
    if (err)
        return err;
    steps = qp_first_steps(id, &first, step);
    err = min_of(steps, 0);
    if (!err) {
        id->base.qp = uroce_create_qp_in(id->base.verbs, attr, &first, step, (unsigned)steps);
        err = id->base.qp ? 0 : cma_errno();
    }
    if (!err) {
        if (id->base.qp->pd) /* an XRC receive side has none */
            id->base.pd = id->base.qp->pd;
        return 0;
    }
    rdma_destroy_qp(&id->base);
    return err;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    return cma_result(attr ? create_qp(to_id(id), attr) : -EINVAL);
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {0};
    int err;

    if (!attr)
        return cma_result(-EINVAL);
    memcpy(&ex, attr, sizeof(*attr));
    ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    ex.pd = pd;
    err = create_qp(to_id(id), &ex);
    if (!err)
        memcpy(attr, &ex, sizeof(*attr));
    return cma_result(err);
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
    struct ibv_qp *qp = id_take_qp(to_id(id));

    if (qp) {
        mcast_detach_all(to_id(id), qp);
        ibv_destroy_qp(qp);
    }
    cqs_destroy(id);
}

/* ---- shared receive queues ---- */

static int complete_xrc(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
    int err = 0;

    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD)) {
        attr->xrcd = device_xrcd(id->device, &err);
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    }
    if (!err && !(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ)) {
        err = cqs_create(&id->base, 0, cq_size(id->base.recv_cq, attr->attr.max_wr));
        attr->cq = id->base.recv_cq;
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    }
    return err;
}

static int create_srq(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
    bool xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
    int err = 0;

    if (!id->device || id->base.srq)
        return -EINVAL;
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
        attr->pd = id->base.pd;
    } else if (attr->pd->context != id->base.verbs) {
        return -EINVAL;
    }
    if (xrc)
        err = complete_xrc(id, attr);
    if (err)
        return err;
    id->base.srq = ibv_create_srq_ex(id->base.verbs, attr);
    if (id->base.srq) {
        id->base.pd = attr->pd;
        return 0;
    }
    err = cma_errno();
    if (xrc)
        cqs_destroy(&id->base);
    return err;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    return cma_result(attr ? create_srq(to_id(id), attr) : -EINVAL);
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex ex = {0};
    int err;

    if (!attr)
        return cma_result(-EINVAL);
    ex.srq_context = attr->srq_context;
    ex.attr = attr->attr;
    ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    ex.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
    ex.pd = pd;
    err = create_srq(to_id(id), &ex);
    if (!err)
        attr->attr = ex.attr;
    return cma_result(err);
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
    if (!id->srq)
        return;
    ibv_destroy_srq(id->srq);
    id->srq = NULL;
    if (!id->qp)
        cqs_destroy(id);
}
