/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received REQs and SIDR_REQs: which connection or listener they are for. Only a request that a
 * listener takes makes an id; everything before that looks and answers without a trace.
 */
#include <string.h>

#include "cm_state.h"

/* SIDR requests have no CA GUID; this one keeps them apart from connections. */
#define SIDR_GUID UINT64_MAX

/* What a request says of addresses. */
struct request {
    const struct cm_path *way;
    const uint8_t *mad;
    const struct cm_msg *msg;
    uint64_t service_id;
    enum ip_cm_port_space ps;
    struct ip_cm_header ip;
};

/* A wrong GID is answered with the right one: that by which the request came (12.6.7.2). */
static void reject(struct cm *cm, const struct request *r, uint16_t reason)
{
    struct cm_private info = {0};

    if (reason == CM_REJ_INVALID_GID)
        info = (struct cm_private){&r->way->sgid, sizeof(r->way->sgid)};
    cm_send_rej(cm, r->way, r->mad, r->msg, reason, info);
}

/* Reads the addresses. False: they are not those of the packet, or there are none. */
static bool read_addresses(struct request *r)
{
    const uint8_t *data;
    size_t len;

    r->ps = ip_cm_port_space_of(r->service_id);
    if (r->ps == IP_CM_PS_NONE)
        return true;
    data = cm_msg_private_data(r->msg, &len);
    return ip_cm_parse(&r->ip, data, len) &&
           !memcmp(r->ip.src_addr, r->way->dgid.raw, sizeof(r->ip.src_addr)) &&
           !memcmp(r->ip.dst_addr, r->way->sgid.raw, sizeof(r->ip.dst_addr));
}

/* ---- a new id ---- */

/* Whether the listener takes one request more; otherwise the peer repeats it later. */
static bool has_room(struct cm *cm, const struct cm_id *listener)
{
    if (listener->waiting >= listener->backlog) {
        cm->counters.backlog_full++;
        return false;
    }
    if (listener->half_open >= cm->config.half_open) {
        cm->counters.half_open_full++;
        return false;
    }
    return true;
}

static struct cm_id *new_request(struct cm *cm, struct cm_id *listener, const struct request *r)
{
    struct cm_id *id;
    int err;

    if (!has_room(cm, listener))
        return NULL;
    id = cm_ids_new(cm, &err);
    if (!id) {
        cm->counters.ids_full++;
        return NULL;
    }
    id->ps = r->ps;
    id->service_id = r->service_id;
    id->src = (struct cm_addr){.gid = r->way->sgid, .vlan = r->way->vlan, .port = r->way->port};
    id->dst = (struct cm_addr){.gid = r->way->dgid, .vlan = r->way->vlan, .port = r->way->port};
    if (r->ps != IP_CM_PS_NONE) {
        id->src.number = (uint16_t)r->service_id;
        id->dst.number = r->ip.src_port;
    }
    cm_user_join(id, listener->user);
    id->listener = listener;
    LIST_INSERT_HEAD(&listener->requests, id, in_requests);
    return id;
}

/* ---- REQ ---- */

/* Whether the sender of a REQ is the active side of a connection that both ends ask for: the one
 * with the larger CA GUID, then the larger QPN (12.10.4). */
static bool peer_is_active(const struct cm_id *id, const struct cm_msg *msg)
{
    uint64_t guid = cm_msg_get(msg, CM_REQ_local_ca_guid);

    if (guid != id->path.ca_guid)
        return guid > id->path.ca_guid;
    return cm_msg_get(msg, CM_REQ_local_qpn) > id->conn.qpn;
}

/* The first reason to reject a REQ, or 0. */
static uint16_t fault_of(const struct request *r)
{
    uint64_t mtu = cm_msg_get(r->msg, CM_REQ_path_mtu);
    enum cm_qp_type type = cm_req_qp_type(r->msg);

    if (!type || ((r->ps == IP_CM_PS_UDP || r->ps == IP_CM_PS_IPOIB)))
        return CM_REJ_INVALID_TRANSPORT;
    if (memcmp(cm_msg_bytes(r->msg, CM_REQ_primary_local_gid), r->way->dgid.raw, 16) ||
        memcmp(cm_msg_bytes(r->msg, CM_REQ_primary_remote_gid), r->way->sgid.raw, 16))
        return CM_REJ_INVALID_GID;
    return mtu < 1 || mtu > r->way->mtu ? CM_REJ_INVALID_MTU : 0;
}

/* A REQ for a connection that this end asks for, too. */
static bool is_peers(struct cm *cm, const struct request *r, ns_t now)
{
    struct cm_id *id = cm_remote_find_peer(cm, r->way, r->service_id,
                                           (uint32_t)cm_msg_get(r->msg, CM_REQ_local_comm_id));
    uint16_t fault = fault_of(r);

    if (!id)
        return false;
    if (!fault && cm_req_qp_type(r->msg) != id->conn.qp_type)
        fault = CM_REJ_INVALID_TRANSPORT;
    if (fault) {
        reject(cm, r, fault);
        return true;
    }
    if (!peer_is_active(id, r->msg)) {
        cm->counters.ignored++; /* the peer becomes passive by this end's REQ */
        return true;
    }
    if (cm_cell(id, CM_IN_RX_PEER_REQ) == CM_DO_per)
        cm_take_req(id, r->msg, r->way, mad_get(r->mad, MAD_transaction_id));
    cm_step(id, CM_IN_RX_PEER_REQ, r->msg, now);
    return true;
}

/* Answers a repeated REQ, which may be forged like the first one. */
static void repeat(struct cm *cm, struct cm_id *id, const struct request *r, ns_t now)
{
    bool answers = cm_outcomes[cm_cell(id, CM_IN_RX_REQ)].sends != CM_SEND_NONE;

    if (!answers || cm_limit_answer(cm, r->way))
        cm_step(id, CM_IN_RX_REQ, r->msg, now);
}

/* A repeated REQ, or one that shows another connection to be stale (12.9.8.3). */
static bool is_known(struct cm *cm, const struct request *r, ns_t now)
{
    uint64_t guid = cm_msg_get(r->msg, CM_REQ_local_ca_guid);
    struct cm_id *id =
        cm_remote_find_id(cm, r->way, guid, (uint32_t)cm_msg_get(r->msg, CM_REQ_local_comm_id));

    if (id) {
        repeat(cm, id, r, now);
        return true;
    }
    id = cm_remote_find_qpn(cm, r->way, guid, (uint32_t)cm_msg_get(r->msg, CM_REQ_local_qpn));
    if (!id || cm_ids_give_up(id))
        return false;
    reject(cm, r, CM_REJ_STALE_CONNECTION);
    cm_step(id, CM_IN_RX_STALE, NULL, now);
    return true;
}

/* late: it has waited for a listener. */
static void take_req(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                     const struct cm_msg *msg, bool late, ns_t now)
{
    struct request r = {
        .way = way, .mad = mad, .msg = msg, .service_id = cm_msg_get(msg, CM_REQ_service_id)};
    struct cm_id *listener, *id;
    uint16_t fault;

    if (!read_addresses(&r)) {
        cm->counters.malformed++;
        reject(cm, &r, CM_REJ_CONSUMER);
        return;
    }
    if (is_known(cm, &r, now) || is_peers(cm, &r, now))
        return;
    fault = fault_of(&r);
    listener = cm_ports_find(cm, r.service_id, &way->sgid, way);
    if (!listener && !late && cm_early_keep(cm, way, mad, r.service_id, now))
        return;
    if (!listener || fault) {
        reject(cm, &r, listener ? fault : CM_REJ_INVALID_SERVICE_ID);
        return;
    }
    id = new_request(cm, listener, &r);
    if (!id)
        return;
    cm_take_req(id, msg, way, mad_get(mad, MAD_transaction_id));
    cm_enter(id, CM_REQ_RCVD, now);
    cm_report_request(id, msg);
}

void cm_rx_req(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
               const struct cm_msg *msg, ns_t now)
{
    take_req(cm, way, mad, msg, false, now);
}

/* ---- SIDR_REQ ---- */

static void take_sidr_req(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                          const struct cm_msg *msg, bool late, ns_t now)
{
    struct request r = {
        .way = way, .mad = mad, .msg = msg, .service_id = cm_msg_get(msg, CM_SIDR_REQ_service_id)};
    uint32_t request_id = (uint32_t)cm_msg_get(msg, CM_SIDR_REQ_request_id);
    struct cm_id *id = cm_remote_find_id(cm, way, SIDR_GUID, request_id), *listener;

    if (id) {
        cm_step(id, CM_IN_RX_SIDR_REQ, msg, now);
        return;
    }
    if (!read_addresses(&r) || r.ps == IP_CM_PS_TCP) {
        cm->counters.malformed++;
        cm_send_sidr_rep(cm, way, mad, msg, CM_SIDR_REJECTED);
        return;
    }
    listener = cm_ports_find(cm, r.service_id, &way->sgid, way);
    if (!listener && !late && cm_early_keep(cm, way, mad, r.service_id, now))
        return;
    if (!listener) {
        cm_send_sidr_rep(cm, way, mad, msg, CM_SIDR_UNSUPPORTED);
        return;
    }
    id = new_request(cm, listener, &r);
    if (!id)
        return;
    id->role = CM_PASSIVE;
    id->path = *way;
    id->path.pkey = (uint16_t)cm_msg_get(msg, CM_SIDR_REQ_partition_key);
    id->conn.qp_type = CM_QP_UD;
    id->transaction_id = mad_get(mad, MAD_transaction_id);
    id->remote_comm_id = request_id;
    id->remote_ca_guid = SIDR_GUID;
    cm_remote_add_id(id);
    cm_enter(id, CM_SIDR_REQ_RCVD, now);
    cm_report_request(id, msg);
}

void cm_rx_sidr_req(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                    const struct cm_msg *msg, ns_t now)
{
    take_sidr_req(cm, way, mad, msg, false, now);
}

/* ---- what has waited for a listener ---- */

void cm_rx_early(struct cm *cm, ns_t now)
{
    struct cm_early e;
    struct cm_msg msg;

    cm->rx_time = now;
    while (cm_early_take(cm, &e, now)) {
        if (!cm_msg_parse(&msg, e.mad, sizeof(e.mad)))
            continue;
        if (msg.message == CM_REQ)
            take_req(cm, &e.way, e.mad, &msg, true, now);
        else
            take_sidr_req(cm, &e.way, e.mad, &msg, true, now);
    }
}
