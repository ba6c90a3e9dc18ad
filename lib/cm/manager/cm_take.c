/* SPDX-License-Identifier: BSD-3-Clause */
/* What the messages of a peer say, as an id keeps it. */
#include <string.h>

#include "cm_state.h"
#include "psn.h"

enum cm_qp_type cm_req_qp_type(const struct cm_msg *msg)
{
    switch (cm_msg_get(msg, CM_REQ_transport_service_type)) {
    case CM_TRANSPORT_RC:
        return CM_QP_RC;
    case CM_TRANSPORT_UC:
        return CM_QP_UC;
    case CM_TRANSPORT_EXTENDED:
        return cm_msg_get(msg, CM_REQ_extended_transport_type) == CM_EXTENDED_XRC
                   ? CM_QP_XRC_RECV
                   : (enum cm_qp_type)0;
    default:
        return (enum cm_qp_type)0;
    }
}

uint32_t cm_rep_qpn(const struct cm_id *id, const struct cm_msg *msg)
{
    return (uint32_t)cm_msg_get(msg, id->conn.qp_type == CM_QP_XRC_SEND ? CM_REP_local_eecn
                                                                        : CM_REP_local_qpn);
}

/* The local ACK timeout that the peer names. One that names none would keep this end from noticing
 * that it is gone: this end's own holds then. */
static uint8_t ack_timeout_of(const struct cm_msg *msg, const struct cm_path *way)
{
    uint8_t ack = (uint8_t)cm_msg_get(msg, CM_REQ_primary_local_ack_timeout);

    return ack ? ack : cm_ack_timeout(way->ack_delay, way->packet_life_time);
}

/* The peer's path, from this end. */
static void take_path(struct cm_id *id, const struct cm_msg *msg, const struct cm_path *way)
{
    uint8_t ack = ack_timeout_of(msg, way);
    uint8_t hops = (uint8_t)cm_msg_get(msg, CM_REQ_primary_hop_limit);

    id->path = *way;
    id->path.flow_label = (uint32_t)cm_msg_get(msg, CM_REQ_primary_flow_label);
    id->path.traffic_class = (uint8_t)cm_msg_get(msg, CM_REQ_primary_traffic_class);
    if (hops)
        id->path.hop_limit = hops;
    id->path.sl = (uint8_t)cm_msg_get(msg, CM_REQ_primary_sl);
    id->path.rate = (uint8_t)cm_msg_get(msg, CM_REQ_primary_packet_rate);
    id->path.mtu = (uint8_t)cm_msg_get(msg, CM_REQ_path_mtu);
    id->path.pkey = (uint16_t)cm_msg_get(msg, CM_REQ_partition_key);
    id->path.packet_life_time = min_of((uint8_t)(ack - (ack > 0)), (uint8_t)CM_LIFE_CODE_MAX);
    id->ack_timeout = ack;
}

void cm_take_req(struct cm_id *id, const struct cm_msg *msg, const struct cm_path *way,
                 uint64_t transaction_id)
{
    uint8_t response = (uint8_t)cm_msg_get(msg, CM_REQ_local_cm_response_timeout);

    id->role = CM_PASSIVE;
    id->transaction_id = transaction_id;
    id->remote_comm_id = (uint32_t)cm_msg_get(msg, CM_REQ_local_comm_id);
    id->remote_ca_guid = cm_msg_get(msg, CM_REQ_local_ca_guid);
    id->remote_qpn = (uint32_t)cm_msg_get(msg, CM_REQ_local_qpn);
    id->sq_psn = (uint32_t)cm_msg_get(msg, CM_REQ_starting_psn);
    id->rq_psn = cm_random(id->cm) & PSN_MASK; /* the queue pair is at RTR before the REP */
    id->conn = (struct cm_conn_param){
        .qp_type = cm_req_qp_type(msg),
        .responder_resources = (uint8_t)cm_msg_get(msg, CM_REQ_initiator_depth),
        .initiator_depth = (uint8_t)cm_msg_get(msg, CM_REQ_responder_resources),
        .flow_control = (uint8_t)cm_msg_get(msg, CM_REQ_end_to_end_flow_control),
        .retry_count = (uint8_t)cm_msg_get(msg, CM_REQ_retry_count),
        .rnr_retry_count = (uint8_t)cm_msg_get(msg, CM_REQ_rnr_retry_count),
        .srq = (uint8_t)cm_msg_get(msg, CM_REQ_srq),
    };
    id->max_cm_retries = (uint8_t)cm_msg_get(msg, CM_REQ_max_cm_retries);
    id->response_timeout = min_of(response, (uint8_t)CM_RESPONSE_CODE_MAX);
    id->failover = cm_msg_get(msg, CM_REQ_alternate_local_lid) != 0;
    take_path(id, msg, way);
    cm_remote_add_id(id);
    cm_remote_add_qpn(id);
}

void cm_take_rep(struct cm_id *id, const struct cm_msg *msg)
{
    uint8_t life = id->path.packet_life_time;

    id->remote_comm_id = (uint32_t)cm_msg_get(msg, CM_REP_local_comm_id);
    id->remote_ca_guid = cm_msg_get(msg, CM_REP_local_ca_guid);
    id->remote_qpn = cm_rep_qpn(id, msg);
    id->sq_psn = (uint32_t)cm_msg_get(msg, CM_REP_starting_psn);
    id->conn.initiator_depth = (uint8_t)cm_msg_get(msg, CM_REP_responder_resources);
    id->conn.responder_resources = (uint8_t)cm_msg_get(msg, CM_REP_initiator_depth);
    id->conn.rnr_retry_count = (uint8_t)cm_msg_get(msg, CM_REP_rnr_retry_count);
    id->conn.flow_control = (uint8_t)cm_msg_get(msg, CM_REP_end_to_end_flow_control);
    id->ack_timeout = cm_ack_timeout((uint8_t)cm_msg_get(msg, CM_REP_target_ack_delay), life);
    cm_remote_add_id(id);
    cm_remote_add_qpn(id);
}
