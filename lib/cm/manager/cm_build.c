/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that the manager sends. */
#include <string.h>

#include "cm_state.h"

#define LID_PERMISSIVE       0xFFFF
#define FAILOVER_UNSUPPORTED 1
#define APR_UNSUPPORTED      2

/* ---- sending ---- */

void cm_transmit(struct cm *cm, const struct cm_path *path, const uint8_t *mad,
                 enum cm_message message)
{
    cm->counters.tx[message]++;
    cm->config.ops->send(cm->config.ctx, path, mad);
}

static void send_last(struct cm_id *id)
{
    struct cm_msg msg;

    if (cm_msg_parse(&msg, id->mad, sizeof(id->mad)))
        cm_transmit(id->cm, &id->path, id->mad, msg.message);
}

static bool last_is(const struct cm_id *id, enum cm_message message)
{
    struct cm_msg msg;

    return cm_msg_parse(&msg, id->mad, sizeof(id->mad)) && msg.message == message;
}

/* ---- parts ---- */

bool cm_private_fits(struct cm_private private, enum cm_message message, size_t front)
{
    return front + private.len <= cm_msg_private_data_max(message);
}

static void put_private(uint8_t *mad, enum cm_message message, struct cm_private private)
{
    if (private.len)
        memcpy(cm_msg_private_room(mad, message), private.data, private.len);
}

/* The header of RDMA IP CM, and the private data behind it. */
static void put_ip_cm_private(const struct cm_id *id, uint8_t *mad, enum cm_message message,
                              struct cm_private private)
{
    struct ip_cm_header h = {.ip_version = gid_is_ipv4(&id->dst.gid) ? 4 : 6,
                             .src_port = id->src.number};
    uint8_t *room = cm_msg_private_room(mad, message);

    if (id->ps == IP_CM_PS_NONE) {
        put_private(mad, message, private);
        return;
    }
    memcpy(h.src_addr, id->src.gid.raw, sizeof(h.src_addr));
    memcpy(h.dst_addr, id->dst.gid.raw, sizeof(h.dst_addr));
    ip_cm_build(room, &h);
    if (private.len)
        memcpy(room + IP_CM_HEADER, private.data, private.len);
}

void cm_new_transaction(struct cm_id *id)
{
    id->transaction_id = (uint64_t)cm_random(id->cm) << 32 | id->local_comm_id;
}

/* ---- REQ ---- */

static void put_req_connection(uint8_t *mad, const struct cm_id *id,
                               const struct cm_connect_param *param)
{
    const struct cm_conn_param *conn = &param->conn;
    bool xrc = conn->qp_type == CM_QP_XRC_SEND;

    cm_msg_set(mad, CM_REQ_local_comm_id, id->local_comm_id);
    cm_msg_set(mad, CM_REQ_vendor_id, param->ece.vendor_id);
    cm_msg_set(mad, CM_REQ_service_id, id->service_id);
    cm_msg_set(mad, CM_REQ_local_ca_guid, id->path.ca_guid);
    cm_msg_set(mad, CM_REQ_local_qpn, conn->qpn);
    cm_msg_set(mad, CM_REQ_initiator_depth, conn->initiator_depth);
    cm_msg_set(mad, CM_REQ_remote_cm_response_timeout, id->response_timeout);
    cm_msg_set(mad, CM_REQ_local_cm_response_timeout, id->response_timeout);
    cm_msg_set(mad, CM_REQ_transport_service_type,
               xrc                         ? CM_TRANSPORT_EXTENDED
               : conn->qp_type == CM_QP_UC ? CM_TRANSPORT_UC
                                           : CM_TRANSPORT_RC);
    cm_msg_set(mad, CM_REQ_extended_transport_type, xrc ? CM_EXTENDED_XRC : 0);
    cm_msg_set(mad, CM_REQ_end_to_end_flow_control, conn->flow_control);
    cm_msg_set(mad, CM_REQ_starting_psn, id->rq_psn);
    cm_msg_set(mad, CM_REQ_partition_key, id->path.pkey);
    cm_msg_set(mad, CM_REQ_path_mtu, id->path.mtu);
    cm_msg_set(mad, CM_REQ_max_cm_retries, id->max_cm_retries);
    if (xrc) /* the sending end has no receive queue */
        return;
    cm_msg_set(mad, CM_REQ_responder_resources, conn->responder_resources);
    cm_msg_set(mad, CM_REQ_retry_count, conn->retry_count);
    cm_msg_set(mad, CM_REQ_rnr_retry_count, conn->rnr_retry_count);
    cm_msg_set(mad, CM_REQ_srq, conn->srq);
}

static void put_req_path(uint8_t *mad, const struct cm_path *path)
{
    bool local = path->hop_limit <= 1;

    cm_msg_set(mad, CM_REQ_primary_local_lid, local ? 0 : LID_PERMISSIVE);
    cm_msg_set(mad, CM_REQ_primary_remote_lid, local ? 0 : LID_PERMISSIVE);
    cm_msg_set_bytes(mad, CM_REQ_primary_local_gid, path->sgid.raw, sizeof(path->sgid));
    cm_msg_set_bytes(mad, CM_REQ_primary_remote_gid, path->dgid.raw, sizeof(path->dgid));
    cm_msg_set(mad, CM_REQ_primary_flow_label, path->flow_label);
    cm_msg_set(mad, CM_REQ_primary_packet_rate, path->rate);
    cm_msg_set(mad, CM_REQ_primary_traffic_class, path->traffic_class);
    cm_msg_set(mad, CM_REQ_primary_hop_limit, path->hop_limit);
    cm_msg_set(mad, CM_REQ_primary_sl, path->sl);
    cm_msg_set(mad, CM_REQ_primary_subnet_local, local);
    cm_msg_set(mad, CM_REQ_primary_local_ack_timeout,
               cm_ack_timeout(path->ack_delay, path->packet_life_time));
}

void cm_build_req(struct cm_id *id, const struct cm_connect_param *param)
{
    cm_msg_init(id->mad, CM_REQ, id->transaction_id);
    mad_set(id->mad, MAD_attribute_modifier, param->ece.options);
    put_req_connection(id->mad, id, param);
    put_req_path(id->mad, &id->path);
    put_ip_cm_private(id, id->mad, CM_REQ, param->private);
}

void cm_build_sidr_req(struct cm_id *id, const struct cm_connect_param *param)
{
    cm_msg_init(id->mad, CM_SIDR_REQ, id->transaction_id);
    cm_msg_set(id->mad, CM_SIDR_REQ_request_id, id->local_comm_id);
    cm_msg_set(id->mad, CM_SIDR_REQ_partition_key, id->path.pkey);
    cm_msg_set(id->mad, CM_SIDR_REQ_service_id, id->service_id);
    put_ip_cm_private(id, id->mad, CM_SIDR_REQ, param->private);
}

/* ---- REP ---- */

void cm_build_rep(struct cm_id *id, const struct cm_conn_param *param, const struct cm_ece *ece,
                  struct cm_private private)
{
    bool xrc = id->conn.qp_type == CM_QP_XRC_RECV;
    uint8_t *mad = id->mad;

    cm_msg_init(mad, CM_REP, id->transaction_id);
    mad_set(mad, MAD_attribute_modifier, ece->options);
    cm_msg_set(mad, CM_REP_local_comm_id, id->local_comm_id);
    cm_msg_set(mad, CM_REP_remote_comm_id, id->remote_comm_id);
    cm_msg_set(mad, xrc ? CM_REP_local_eecn : CM_REP_local_qpn, param->qpn);
    cm_msg_set(mad, CM_REP_vendor_id_high, ece->vendor_id >> 16);
    cm_msg_set(mad, CM_REP_vendor_id_middle, ece->vendor_id >> 8);
    cm_msg_set(mad, CM_REP_vendor_id_low, ece->vendor_id);
    cm_msg_set(mad, CM_REP_starting_psn, id->rq_psn);
    cm_msg_set(mad, CM_REP_responder_resources, param->responder_resources);
    cm_msg_set(mad, CM_REP_initiator_depth, xrc ? 0 : param->initiator_depth);
    cm_msg_set(mad, CM_REP_target_ack_delay, id->path.ack_delay);
    cm_msg_set(mad, CM_REP_failover_accepted, id->failover ? FAILOVER_UNSUPPORTED : 0);
    cm_msg_set(mad, CM_REP_end_to_end_flow_control, xrc ? 0 : param->flow_control);
    cm_msg_set(mad, CM_REP_rnr_retry_count, param->rnr_retry_count);
    cm_msg_set(mad, CM_REP_srq, xrc ? 1 : param->srq);
    cm_msg_set(mad, CM_REP_local_ca_guid, id->path.ca_guid);
    put_private(mad, CM_REP, private);
}

static void put_sidr_rep(uint8_t *mad, uint64_t transaction_id, uint32_t request_id,
                         uint64_t service_id, const struct cm_sidr_answer *answer)
{
    cm_msg_init(mad, CM_SIDR_REP, transaction_id);
    mad_set(mad, MAD_attribute_modifier, answer->ece.options);
    cm_msg_set(mad, CM_SIDR_REP_request_id, request_id);
    cm_msg_set(mad, CM_SIDR_REP_status, answer->status);
    cm_msg_set(mad, CM_SIDR_REP_vendor_id_high, answer->ece.vendor_id >> 8);
    cm_msg_set(mad, CM_SIDR_REP_vendor_id_low, answer->ece.vendor_id);
    cm_msg_set(mad, CM_SIDR_REP_qpn, answer->qpn);
    cm_msg_set(mad, CM_SIDR_REP_service_id, service_id);
    cm_msg_set(mad, CM_SIDR_REP_qkey, answer->qkey);
    put_private(mad, CM_SIDR_REP, answer->private);
}

void cm_build_sidr_rep(struct cm_id *id, const struct cm_sidr_answer *answer)
{
    put_sidr_rep(id->mad, id->transaction_id, id->remote_comm_id, id->service_id, answer);
}

/* ---- the others ---- */

void cm_build_plain(struct cm_id *id, uint8_t *mad, enum cm_message message,
                    struct cm_private private)
{
    static const enum cm_field local[] = {[CM_RTU] = CM_RTU_local_comm_id,
                                          [CM_DREQ] = CM_DREQ_local_comm_id,
                                          [CM_DREP] = CM_DREP_local_comm_id},
                               remote[] = {[CM_RTU] = CM_RTU_remote_comm_id,
                                           [CM_DREQ] = CM_DREQ_remote_comm_id,
                                           [CM_DREP] = CM_DREP_remote_comm_id};

    if (message == CM_DREQ)
        cm_new_transaction(id);
    cm_msg_init(mad, message, id->transaction_id);
    cm_msg_set(mad, local[message], id->local_comm_id);
    cm_msg_set(mad, remote[message], id->remote_comm_id);
    if (message == CM_DREQ)
        cm_msg_set(mad, CM_DREQ_remote_qpn, id->remote_qpn);
    put_private(mad, message, private);
}

void cm_build_mra(struct cm_id *id, enum cm_message of, uint8_t service_timeout)
{
    cm_msg_init(id->mad, CM_MRA, id->transaction_id);
    cm_msg_set(id->mad, CM_MRA_local_comm_id, id->local_comm_id);
    cm_msg_set(id->mad, CM_MRA_remote_comm_id, id->remote_comm_id);
    cm_msg_set(id->mad, CM_MRA_message_mraed, of == CM_REQ ? CM_ANSWERED_REQ : CM_ANSWERED_REP);
    cm_msg_set(id->mad, CM_MRA_service_timeout, service_timeout);
}

/* What a REJ in a state rejects. Of a REQ without an answer yet, the peer knows no ID. */
static unsigned rejected_in(const struct cm_id *id)
{
    switch (id->state) {
    case CM_REQ_RCVD:
    case CM_MRA_REQ_SENT:
        return CM_ANSWERED_REQ;
    case CM_REP_RCVD:
    case CM_MRA_REP_SENT:
        return CM_ANSWERED_REP;
    default:
        return CM_ANSWERED_OTHER;
    }
}

void cm_build_rej(struct cm_id *id, uint8_t *mad, uint16_t reason, struct cm_private info,
                  struct cm_private private)
{
    cm_msg_init(mad, CM_REJ, id->transaction_id);
    cm_msg_set(mad, CM_REJ_local_comm_id, id->state == CM_REQ_RCVD ? 0 : id->local_comm_id);
    cm_msg_set(mad, CM_REJ_remote_comm_id, id->remote_comm_id);
    cm_msg_set(mad, CM_REJ_message_rejected, rejected_in(id));
    cm_msg_set(mad, CM_REJ_reason, reason);
    cm_msg_set(mad, CM_REJ_info_length, info.len);
    cm_msg_set_bytes(mad, CM_REJ_info, info.data, info.len);
    put_private(mad, CM_REJ, private);
}

/* ---- what a step sends by itself ---- */

static void put_rej_timeout(struct cm_id *id, uint8_t *mad)
{
    uint8_t guid[8];

    /* The peer may not know this end's ID; then it finds the connection by the GUID (12.7.21). */
    for (unsigned i = 0; i < sizeof(guid); i++)
        guid[i] = (uint8_t)(id->path.ca_guid >> (56 - 8 * i));
    cm_build_rej(id, mad, CM_REJ_TIMEOUT, (struct cm_private){guid, sizeof(guid)},
                 (struct cm_private){0});
}

static void send_rej_gone(struct cm_id *id)
{
    uint8_t mad[MAD_LEN];

    put_rej_timeout(id, mad);
    cm_transmit(id->cm, &id->path, mad, CM_REJ);
}

/* Of a repeated message, when the connection is over. */
static void send_rej_late(struct cm_id *id, uint16_t reason, unsigned message)
{
    uint8_t mad[MAD_LEN];

    cm_build_rej(id, mad, reason, (struct cm_private){0}, (struct cm_private){0});
    cm_msg_set(mad, CM_REJ_message_rejected, message);
    cm_transmit(id->cm, &id->path, mad, CM_REJ);
}

static void send_apr(struct cm_id *id)
{
    uint8_t mad[MAD_LEN];

    cm_msg_init(mad, CM_APR, id->transaction_id);
    cm_msg_set(mad, CM_APR_local_comm_id, id->local_comm_id);
    cm_msg_set(mad, CM_APR_remote_comm_id, id->remote_comm_id);
    cm_msg_set(mad, CM_APR_status, APR_UNSUPPORTED);
    cm_transmit(id->cm, &id->path, mad, CM_APR);
}

/* With the private data of the lost one, if that was the last message. */
static void send_drep_again(struct cm_id *id)
{
    uint8_t mad[MAD_LEN];

    if (last_is(id, CM_DREP)) {
        send_last(id);
        return;
    }
    cm_build_plain(id, mad, CM_DREP, (struct cm_private){0});
    cm_transmit(id->cm, &id->path, mad, CM_DREP);
}

void cm_send(struct cm_id *id, enum cm_send what)
{
    static const struct cm_private none = {0};

    switch (what) {
    case CM_SEND_NONE:
    case CM_SEND_COUNT:
        return;
    case CM_SEND_REJ_STALE:
        send_rej_late(id, CM_REJ_STALE_CONNECTION, CM_ANSWERED_REQ);
        return;
    case CM_SEND_REJ_UNKNOWN:
        send_rej_late(id, CM_REJ_INVALID_COMM_ID, CM_ANSWERED_REP);
        return;
    case CM_SEND_APR:
        send_apr(id);
        return;
    case CM_SEND_DREP_AGAIN:
        send_drep_again(id);
        return;
    case CM_SEND_REJ_AGAIN:
        if (last_is(id, CM_REJ))
            break;
        send_rej_late(id, CM_REJ_INVALID_COMM_ID, CM_ANSWERED_REP);
        return;
    case CM_SEND_REJ_GONE:
        send_rej_gone(id);
        return;
    case CM_SEND_REJ_TIMEOUT:
        put_rej_timeout(id, id->mad);
        break;
    case CM_SEND_MAD:
    case CM_SEND_AGAIN:
        break;
    case CM_SEND_MRA_REQ:
        cm_build_mra(id, CM_REQ, CM_SERVICE_TIMEOUT);
        break;
    case CM_SEND_MRA_REP:
        cm_build_mra(id, CM_REP, CM_SERVICE_TIMEOUT);
        break;
    case CM_SEND_REJ_CONSUMER:
        cm_build_rej(id, id->mad, CM_REJ_CONSUMER, none, none);
        break;
    case CM_SEND_DREQ:
        cm_build_plain(id, id->mad, CM_DREQ, none);
        break;
    case CM_SEND_DREP:
        cm_build_plain(id, id->mad, CM_DREP, none);
        break;
    case CM_SEND_SIDR_REJECT:
        cm_build_sidr_rep(id, &(struct cm_sidr_answer){.status = CM_SIDR_REJECTED});
        break;
    }
    send_last(id);
}
