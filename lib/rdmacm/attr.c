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
    struct ibv_qp_attr all = {.qp_state = from->state,
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

    ah_from_ctl(&all.ah_attr, &from->ah);
    memcpy(to, &all, offsetof(struct ibv_qp_attr, rate_limit)); /* older programs' structure */
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

void qp_take_steps(struct cma_id *id, const struct ctl_cm_steps *steps)
{
    qp_attr_from_ctl(&id->steps, &steps->attr);
    for (unsigned i = 0; i < QP_STEPS; i++)
        id->steps_mask[i] = (int)steps->mask[i];
}

/* What the program wants in place of what the two ends have agreed on. */
static void set_depths(struct ibv_qp_attr *attr, int mask, uint8_t max_dest_rd_atomic,
                       uint8_t max_rd_atomic)
{
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && max_dest_rd_atomic != RDMA_MAX_RESP_RES)
        attr->max_dest_rd_atomic = max_dest_rd_atomic;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC && max_rd_atomic != RDMA_MAX_INIT_DEPTH)
        attr->max_rd_atomic = max_rd_atomic;
}

static int modify(struct cma_id *id, enum ibv_qp_state state, uint8_t max_dest_rd_atomic,
                  uint8_t max_rd_atomic)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask, err;

    err = id_qp_attr(id, &attr, &mask);
    if (err)
        return err;
    set_depths(&attr, mask, max_dest_rd_atomic, max_rd_atomic);
    return -ibv_modify_qp(id->base.qp, &attr, mask);
}

/* Whether nothing has been agreed on that INIT depends on. */
static bool is_early(const struct cma_id *id)
{
    return !id->begun && (id->base.ps == RDMA_PS_TCP || id->base.ps == RDMA_PS_IB);
}

static int init_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = id->base.port_num};
    *mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
    if (id->steps_mask[0]) {
        *attr = id->steps;
        attr->qp_state = IBV_QPS_INIT;
        *mask = id->steps_mask[0];
        return 0;
    }
    if (is_datagram(id->base.qp_type)) {
        attr->qkey = RDMA_UDP_QKEY;
        *mask |= IBV_QP_QKEY;
        return 0;
    }
    *mask |= IBV_QP_ACCESS_FLAGS;
    return is_early(id) ? 0 : id_qp_attr(id, attr, mask);
}

int qp_first_steps(struct cma_id *id, struct ibv_qp_attr *attr, struct uroce_qp_step *step)
{
    int mask, err = init_attr(id, attr, &mask);

    if (err)
        return err;
    step[0] = (struct uroce_qp_step){IBV_QPS_INIT, mask};
    if (!is_datagram(id->base.qp_type))
        return 1;
    step[1] = (struct uroce_qp_step){IBV_QPS_RTR, IBV_QP_STATE};
    step[2] = (struct uroce_qp_step){IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN};
    return 3;
}

static int qp_to_init(struct cma_id *id)
{
    struct ibv_qp_attr attr;
    int mask, err = init_attr(id, &attr, &mask);

    return err ? err : -ibv_modify_qp(id->base.qp, &attr, mask);
}

/* ---- with the connection, in one message ---- */

struct move {
    struct cma_id *id;
    enum ctl_type type;
    const struct ctl_msg *m;
    bool post;
    uint32_t steps, done;
};

static int send_move(void *arg, const uint64_t *key, struct ctl_modify_qp *modify)
{
    struct move *move = arg;
    struct ctl_msg m = {
        .cm_with_qp = {.call = move->m->cm_call, .type = move->type, .modify = *modify}};
    int err;

    if (!link_is_ours(move->id->link))
        return -EIO;
    m.cm_with_qp.call.id = move->id->entry.handle;
    memcpy(m.cm_with_qp.key, key, sizeof(m.cm_with_qp.key));
    if (move->post) {
        err = conn_post(&move->id->link->conn, CTL_CM_WITH_QP, &m);
        m.cm_with_qp.modify.done = err ? 0 : move->steps;
    } else {
        err = link_call(move->id->link, CTL_CM_WITH_QP, &m);
    }
    modify->done = move->done = m.cm_with_qp.modify.done;
    return err;
}

static int move_qp(struct cma_id *id, const struct ibv_qp_attr *attr,
                   const struct uroce_qp_step *step, unsigned steps, const struct id_call *c)
{
    struct move move = {.id = id, .type = c->type, .m = c->m, .post = c->post, .steps = steps};
    int err = uroce_modify_qp_by(id->base.qp, attr, step, steps, send_move, &move);

    *c->moved = move.done == steps;
    return err;
}

/* By INIT again: the access rights follow from the connection. */
static int connect_by_steps(struct cma_id *id, uint8_t max_dest_rd_atomic, uint8_t max_rd_atomic,
                            const struct id_call *c)
{
    const struct uroce_qp_step step[QP_STEPS] = {{IBV_QPS_INIT, id->steps_mask[0]},
                                                 {IBV_QPS_RTR, id->steps_mask[1]},
                                                 {IBV_QPS_RTS, id->steps_mask[2]}};
    struct ibv_qp_attr attr = id->steps;

    set_depths(&attr, step[1].mask | step[2].mask, max_dest_rd_atomic, max_rd_atomic);
    return move_qp(id, &attr, step, QP_STEPS, c);
}

/* A queue pair of datagrams is no part of a connection. */
static bool has_connected_qp(const struct cma_id *id)
{
    return id->base.qp && !is_datagram(id->base.qp_type);
}

/* What no event has brought is asked for, state by state. */
static int connect_by_questions(struct cma_id *id, uint8_t max_dest_rd_atomic,
                                uint8_t max_rd_atomic)
{
    int err = qp_to_init(id);

    if (!err)
        err = modify(id, IBV_QPS_RTR, max_dest_rd_atomic, RDMA_MAX_INIT_DEPTH);
    return err ? err : modify(id, IBV_QPS_RTS, RDMA_MAX_RESP_RES, max_rd_atomic);
}

int qp_connect(struct cma_id *id, uint8_t responder_resources, uint8_t initiator_depth,
               const struct id_call *c)
{
    int err = 0;

    if (has_connected_qp(id) && id->steps_mask[0])
        return connect_by_steps(id, responder_resources, initiator_depth, c);
    if (has_connected_qp(id))
        err = connect_by_questions(id, responder_resources, initiator_depth);
    *c->moved = !err;
    return err ? err : id_call(id, c->type, c->m);
}

int qp_begin(struct cma_id *id, const struct id_call *c)
{
    static const struct uroce_qp_step stay = {IBV_QPS_INIT, 0};
    static const struct ibv_qp_attr none;

    return move_qp(id, &none, &stay, 1, c);
}

int qp_disconnect(struct cma_id *id, const struct id_call *c)
{
    static const struct uroce_qp_step step = {IBV_QPS_ERR, IBV_QP_STATE};
    static const struct ibv_qp_attr none;

    if (has_connected_qp(id))
        return move_qp(id, &none, &step, 1, c);
    *c->moved = true;
    return c->post ? id_post(id, c->type, c->m) : id_call(id, c->type, c->m);
}

int qp_to_error(struct cma_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (!has_connected_qp(id))
        return 0;
    return -ibv_modify_qp(id->base.qp, &attr, IBV_QP_STATE);
}
