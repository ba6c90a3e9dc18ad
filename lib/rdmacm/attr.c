/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of queue pairs: the daemon says which an id's queue pair needs for its next state. */
#include "cma.h"

void ah_from_ctl(struct ibv_ah_attr *to, const struct ah_attr *from)
{
    *to = (struct ibv_ah_attr){.grh = {.flow_label = from->flow_label,
                                       .sgid_index = from->sgid_index,
                                       .hop_limit = from->hop_limit,
                                       .traffic_class = from->traffic_class},
                               .sl = from->sl,
                               .static_rate = from->static_rate,
                               .is_global = from->is_global,
                               .port_num = from->port_num};
    memcpy(to->grh.dgid.raw, from->dgid, sizeof(to->grh.dgid.raw));
}

void qp_attr_from_ctl(struct ibv_qp_attr *to, const struct qp_attr *from)
{
    *to = (struct ibv_qp_attr){.qp_state = from->state,
                               .cur_qp_state = from->cur_state,
                               .path_mtu = from->path_mtu,
                               .path_mig_state = from->path_mig_state,
                               .qkey = from->qkey,
                               .rq_psn = from->rq_psn,
                               .sq_psn = from->sq_psn,
                               .dest_qp_num = from->dest_qpn,
                               .qp_access_flags = from->access_flags,
                               .pkey_index = from->pkey_index,
                               .en_sqd_async_notify = from->en_sqd_async_notify,
                               .sq_draining = from->sq_draining,
                               .max_rd_atomic = from->max_rd_atomic,
                               .max_dest_rd_atomic = from->max_dest_rd_atomic,
                               .min_rnr_timer = from->min_rnr_timer,
                               .port_num = from->port_num,
                               .timeout = from->timeout,
                               .retry_cnt = from->retry_cnt,
                               .rnr_retry = from->rnr_retry};
    ah_from_ctl(&to->ah_attr, &from->ah);
}

int id_qp_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
    struct ctl_msg m = {.cm_qp_attr = {.id = id->entry.handle, .attr = {.state = attr->qp_state}}};
    int err = link_call(id->link, CTL_CM_QP_ATTR, &m);

    if (err)
        return err;
    qp_attr_from_ctl(attr, &m.cm_qp_attr.attr);
    *mask = (int)m.cm_qp_attr.mask;
    return 0;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return cma_result(attr && mask ? id_qp_attr(to_id(id), attr, mask) : -EINVAL);
}

static int modify(struct cma_id *id, enum ibv_qp_state state, uint8_t max_dest_rd_atomic,
                  uint8_t max_rd_atomic)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask, err;

    err = id_qp_attr(id, &attr, &mask);
    if (err)
        return err;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && max_dest_rd_atomic != RDMA_MAX_RESP_RES)
        attr.max_dest_rd_atomic = max_dest_rd_atomic;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC && max_rd_atomic != RDMA_MAX_INIT_DEPTH)
        attr.max_rd_atomic = max_rd_atomic;
    return -ibv_modify_qp(id->base.qp, &attr, mask);
}

int qp_to_init(struct cma_id *id)
{
    return modify(id, IBV_QPS_INIT, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
}

/* By INIT again: the access rights follow from the connection. */
int qp_to_rtr(struct cma_id *id, uint8_t responder_resources)
{
    int err = qp_to_init(id);

    return err ? err : modify(id, IBV_QPS_RTR, responder_resources, RDMA_MAX_INIT_DEPTH);
}

int qp_to_rts(struct cma_id *id, uint8_t initiator_depth)
{
    return modify(id, IBV_QPS_RTS, RDMA_MAX_RESP_RES, initiator_depth);
}

/* A queue pair of datagrams is no part of a connection. */
int qp_to_error(struct cma_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (!id->base.qp || is_datagram(id->base.qp_type))
        return 0;
    return -ibv_modify_qp(id->base.qp, &attr, IBV_QP_STATE);
}

/* It needs no peer to send. */
int qp_to_datagrams(struct cma_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int err = qp_to_init(id);

    if (err)
        return err;
    err = -ibv_modify_qp(id->base.qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    return err ? err : -ibv_modify_qp(id->base.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}
