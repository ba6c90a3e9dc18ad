/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's calls: each checks the state and its parameters, writes its message, and steps. */
#include <errno.h>

#include "cm_state.h"
#include "ece.h"
#include "psn.h"

#define QPN_MAX        0xFFFFFFu
#define RETRY_MAX      7
#define CODE_MAX       31
#define INFO_MAX       72

static size_t front_of(const struct cm_id *id)
{
    return id->ps == IP_CM_PS_NONE ? 0 : IP_CM_HEADER;
}

/* ---- listening ---- */

static int bind_by_itself(struct cm_id *id)
{
    struct cm_addr any = {
        .gid = gid_from_ipv4((const uint8_t[4]){0}), .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};

    return id->row ? 0 : cm_bind(id, &any, NULL, 0);
}

int cm_listen(struct cm_id *id, uint32_t backlog)
{
    uint32_t max = id->cm->config.backlog;
    int err = cm_check_call(id, CM_IN_LISTEN);

    err = err ? err : bind_by_itself(id);
    err = err ? err : cm_ports_listen(id);
    if (err)
        return err;
    id->bind_flags &= (uint8_t)~CM_BIND_REUSE;
    id->backlog = backlog ? min_of(backlog, max) : max;
    err = cm_step(id, CM_IN_LISTEN, NULL, 0);
    if (!err)
        cm_early_listen(id->cm, id->service_id);
    return err;
}

/* ---- the active side ---- */

static bool ece_is_valid(const struct cm_ece *ece)
{
    return ece->vendor_id <= ECE_VENDOR_MAX;
}

static bool conn_is_valid(const struct cm_conn_param *conn)
{
    return conn->qpn <= QPN_MAX && conn->retry_count <= RETRY_MAX &&
           conn->rnr_retry_count <= RETRY_MAX && conn->flow_control <= 1 && conn->srq <= 1;
}

static bool path_is_valid(const struct cm_path *path)
{
    return path->mtu >= 1 && path->mtu <= 5 && path->packet_life_time <= CODE_MAX &&
           path->ack_delay <= CODE_MAX && path->sl <= 15;
}

/* What REQ and SIDR_REQ have in common. The id keeps its number, and a wildcard becomes the path's
 * address. */
static int prepare_request(struct cm_id *id, const struct cm_path *path,
                           const struct cm_connect_param *param, enum cm_message message)
{
    if (!path_is_valid(path) || param->response_timeout > CODE_MAX || !ece_is_valid(&param->ece) ||
        !cm_private_fits(param->private, message, front_of(id)))
        return -EINVAL;
    if (id->ps != IP_CM_PS_NONE &&
        (!id->row || gid_is_ipv4(&param->dst.gid) != gid_is_ipv4(&path->sgid)))
        return -EINVAL;
    cm_ids_renumber(id);
    id->path = *path;
    id->role = CM_ACTIVE;
    id->remote_comm_id = id->remote_qpn = 0;
    id->remote_ca_guid = 0;
    id->src.gid = path->sgid;
    id->src.vlan = path->vlan;
    id->src.port = path->port;
    id->dst = param->dst;
    id->service_id =
        id->ps == IP_CM_PS_NONE ? param->service_id : ip_cm_service_id(id->ps, param->dst.number);
    id->response_timeout = param->response_timeout ? param->response_timeout : CM_RESPONSE_TIMEOUT;
    id->max_cm_retries = min_of(param->max_cm_retries, (uint8_t)CM_MAX_RETRIES);
    cm_new_transaction(id);
    return 0;
}

int cm_connect(struct cm_id *id, const struct cm_path *path, const struct cm_connect_param *param,
               ns_t now)
{
    uint8_t type = param->conn.qp_type;
    int err = cm_check_call(id, CM_IN_CONNECT);

    if (!err && (!conn_is_valid(&param->conn) ||
                 (type != CM_QP_RC && type != CM_QP_UC && type != CM_QP_XRC_SEND)))
        err = -EINVAL;
    err = err ? err : prepare_request(id, path, param, CM_REQ);
    if (err)
        return err;
    id->conn = param->conn;
    id->rq_psn = cm_random(id->cm) & PSN_MASK;
    id->ack_timeout = (uint8_t)min_of(path->packet_life_time + 1u, (unsigned)CODE_MAX);
    id->peer_to_peer = param->peer_to_peer;
    if (id->peer_to_peer)
        cm_remote_add_peer(id);
    cm_build_req(id, param);
    return cm_step(id, CM_IN_CONNECT, NULL, now);
}

int cm_sidr_request(struct cm_id *id, const struct cm_path *path,
                    const struct cm_connect_param *param, ns_t now)
{
    int err = cm_check_call(id, CM_IN_SIDR_REQUEST);

    err = err ? err : prepare_request(id, path, param, CM_SIDR_REQ);
    if (err)
        return err;
    id->conn = (struct cm_conn_param){.qp_type = CM_QP_UD};
    cm_build_sidr_req(id, param);
    return cm_step(id, CM_IN_SIDR_REQUEST, NULL, now);
}

int cm_establish(struct cm_id *id, struct cm_private private, ns_t now)
{
    int err = cm_check_call(id, CM_IN_RTU);

    if (err || !cm_private_fits(private, CM_RTU, 0))
        return -EINVAL;
    cm_build_plain(id, id->mad, CM_RTU, private);
    return cm_step(id, CM_IN_RTU, NULL, now);
}

/* ---- the passive side ---- */

int cm_accept(struct cm_id *id, const struct cm_conn_param *param, const struct cm_ece *ece,
              struct cm_private private, ns_t now)
{
    static const struct cm_ece no_ece = {0};
    int err = cm_check_call(id, CM_IN_ACCEPT);

    ece = ece ? ece : &no_ece;
    if (err || !conn_is_valid(param) || !ece_is_valid(ece) || !cm_private_fits(private, CM_REP, 0))
        return -EINVAL;
    id->conn.qpn = param->qpn;
    id->conn.responder_resources = param->responder_resources;
    id->conn.initiator_depth = param->initiator_depth;
    cm_build_rep(id, param, ece, private);
    return cm_step(id, CM_IN_ACCEPT, NULL, now);
}

int cm_notify(struct cm_id *id, ns_t now)
{
    return cm_step(id, CM_IN_NOTIFY, NULL, now);
}

int cm_sidr_reply(struct cm_id *id, const struct cm_sidr_answer *answer, ns_t now)
{
    int err = cm_check_call(id, CM_IN_SIDR_REPLY);

    if (err || answer->qpn > QPN_MAX || !ece_is_valid(&answer->ece) ||
        !cm_private_fits(answer->private, CM_SIDR_REP, 0))
        return -EINVAL;
    cm_build_sidr_rep(id, answer);
    return cm_step(id, CM_IN_SIDR_REPLY, NULL, now);
}

/* ---- both ---- */

int cm_delay(struct cm_id *id, uint8_t service_timeout, ns_t now)
{
    int err = cm_check_call(id, CM_IN_MRA);

    if (err || service_timeout > CODE_MAX)
        return -EINVAL;
    cm_build_mra(id, id->state == CM_REQ_RCVD ? CM_REQ : CM_REP, service_timeout);
    return cm_step(id, CM_IN_MRA, NULL, now);
}

int cm_reject(struct cm_id *id, uint16_t reason, struct cm_private info, struct cm_private private,
              ns_t now)
{
    int err = cm_check_call(id, CM_IN_REJECT);

    if (err || info.len > INFO_MAX || !cm_private_fits(private, CM_REJ, 0))
        return -EINVAL;
    cm_build_rej(id, id->mad, reason, info, private);
    return cm_step(id, CM_IN_REJECT, NULL, now);
}

int cm_disconnect(struct cm_id *id, struct cm_private private, ns_t now)
{
    enum cm_message message = id->state == CM_DREQ_RCVD ? CM_DREP : CM_DREQ;
    int err = cm_check_call(id, CM_IN_DISCONNECT);

    if (err || !cm_private_fits(private, message, 0))
        return -EINVAL;
    cm_build_plain(id, id->mad, message, private);
    return cm_step(id, CM_IN_DISCONNECT, NULL, now);
}

/* The step frees the id, or leaves it lingering; then the user's oldest one makes room. */
void cm_id_destroy(struct cm_id *id, ns_t now)
{
    struct cm_user *user = id->user;
    struct cm_id *oldest;

    id->owner = NULL;
    cm_ports_unbind(id);
    cm_linger_begin(id);
    cm_user_hold(user);
    cm_step(id, CM_IN_DESTROY, NULL, now);
    while ((oldest = cm_linger_excess(user)))
        cm_ids_give_up(oldest);
    cm_user_release(user);
}
