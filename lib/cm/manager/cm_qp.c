/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes of a queue pair by what the two ends have agreed on. */
#include <errno.h>
#include <string.h>

#include "cm_state.h"

/* enum ibv_access_flags */
#define ACCESS_REMOTE_WRITE  (1u << 1)
#define ACCESS_REMOTE_READ   (1u << 2)
#define ACCESS_REMOTE_ATOMIC (1u << 3)

/* States in which a connection is being made or exists; the active side's first ones know nothing
 * of the peer. */
static bool may_init(const struct cm_id *id)
{
    return id->state >= CM_REQ_SENT && id->state <= CM_ESTABLISHED;
}

static bool may_connect(const struct cm_id *id)
{
    return id->state >= CM_REQ_RCVD && id->state <= CM_ESTABLISHED;
}

static bool answers_reads(const struct cm_id *id)
{
    return id->conn.qp_type == CM_QP_RC || id->conn.qp_type == CM_QP_XRC_RECV;
}

static bool sends_reads(const struct cm_id *id)
{
    return id->conn.qp_type == CM_QP_RC || id->conn.qp_type == CM_QP_XRC_SEND;
}

static void fill_init(const struct cm_id *id, struct qp_attr *attr, uint32_t *mask)
{
    *mask = QPA_STATE | QPA_ACCESS_FLAGS | QPA_PKEY_INDEX | QPA_PORT;
    attr->access_flags = ACCESS_REMOTE_WRITE;
    if (id->conn.responder_resources)
        attr->access_flags |= ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;
    attr->port_num = id->path.port_num;
}

static void fill_rtr(const struct cm_id *id, struct qp_attr *attr, uint32_t *mask)
{
    const struct cm_path *path = &id->path;

    *mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
    attr->ah = (struct ah_attr){.flow_label = path->flow_label,
                                .sgid_index = path->sgid_index,
                                .hop_limit = path->hop_limit,
                                .traffic_class = path->traffic_class,
                                .sl = path->sl,
                                .port_num = path->port_num,
                                .is_global = 1,
                                .static_rate = path->rate};
    memcpy(attr->ah.dgid, path->dgid.raw, sizeof(attr->ah.dgid));
    attr->path_mtu = path->mtu;
    attr->dest_qpn = id->remote_qpn;
    attr->rq_psn = id->rq_psn;
    if (!answers_reads(id))
        return;
    *mask |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
    attr->max_dest_rd_atomic = id->conn.responder_resources;
}

static void fill_rts(const struct cm_id *id, struct qp_attr *attr, uint32_t *mask)
{
    *mask = QPA_STATE | QPA_SQ_PSN;
    attr->sq_psn = id->sq_psn;
    if (sends_reads(id)) {
        *mask |= QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC;
        attr->retry_cnt = id->conn.retry_count;
        attr->rnr_retry = id->conn.rnr_retry_count;
        attr->max_rd_atomic = id->conn.initiator_depth;
    }
    if (id->conn.qp_type != CM_QP_UC) {
        *mask |= QPA_TIMEOUT;
        attr->timeout = id->ack_timeout;
    }
}

int cm_qp_steps(const struct cm_id *id, struct qp_attr *attr, uint32_t mask[QP_STEPS])
{
    if (!may_connect(id))
        return -EINVAL;
    memset(attr, 0, sizeof(*attr));
    fill_init(id, attr, &mask[0]);
    fill_rtr(id, attr, &mask[1]);
    fill_rts(id, attr, &mask[2]);
    return 0;
}

int cm_qp_attr(const struct cm_id *id, enum qp_state state, struct qp_attr *attr, uint32_t *mask)
{
    if (state == QPS_INIT ? !may_init(id) : !may_connect(id))
        return -EINVAL;
    memset(attr, 0, sizeof(*attr));
    attr->state = state;
    switch (state) {
    case QPS_INIT:
        fill_init(id, attr, mask);
        return 0;
    case QPS_RTR:
        fill_rtr(id, attr, mask);
        return 0;
    case QPS_RTS:
        fill_rts(id, attr, mask);
        return 0;
    default:
        return -EINVAL;
    }
}
