/* SPDX-License-Identifier: BSD-3-Clause */
/* Received MADs: which id a message is for, and which input it is. */
#include "cm_state.h"

#include "bytes.h"
#include "gsi.h"

#define APR_INVALID_COMM_ID 1

/* A received message. */
struct received {
    struct cm *cm;
    const struct cm_path *way;
    const uint8_t *mad;
    struct cm_msg msg;
    ns_t now;
};

static uint32_t comm_id(const struct received *r, enum cm_field field)
{
    return (uint32_t)cm_msg_get(&r->msg, field);
}

/* The id of a message's remote_comm_id field (our own) with its local_comm_id field (the peer's).
 * early: it may come before the peer's ID is known. */
static struct cm_id *find(const struct received *r, enum cm_field ours, enum cm_field theirs,
                          bool early)
{
    struct cm_id *id = cm_ids_find(r->cm, comm_id(r, ours));

    if (!id || (id->remote_comm_id ? id->remote_comm_id != comm_id(r, theirs) : !early))
        return NULL;
    return id;
}

/* Steps the id, if the message came from where the connection goes to. */
static void step(const struct received *r, struct cm_id *id, enum cm_input input)
{
    if (!gid_eq(&id->path.dgid, &r->way->dgid) || !gid_eq(&id->path.sgid, &r->way->sgid) ||
        id->path.port != r->way->port || id->path.vlan != r->way->vlan) {
        r->cm->counters.wrong_source++;
        return;
    }
    /* A REJ may come without the id's number. */
    if (input != CM_IN_RX_REJ && input != CM_IN_RX_REJ_STALE)
        cm_limit_proven(id);
    cm_step(id, input, &r->msg, r->now);
}

static void step_or_count(const struct received *r, struct cm_id *id, enum cm_input input)
{
    if (id)
        step(r, id, input);
    else
        r->cm->counters.unmatched++;
}

static void rx_mra(const struct received *r)
{
    uint64_t of = cm_msg_get(&r->msg, CM_MRA_message_mraed);
    struct cm_id *id = find(r, CM_MRA_remote_comm_id, CM_MRA_local_comm_id, of == CM_ANSWERED_REQ);

    if (of == CM_ANSWERED_REQ || of == CM_ANSWERED_REP)
        step_or_count(r, id, of == CM_ANSWERED_REQ ? CM_IN_RX_MRA_REQ : CM_IN_RX_MRA_REP);
    else
        r->cm->counters.ignored++; /* of a LAP: none are sent */
}

/* A peer that got no answer may not know this end's ID, and says its CA GUID instead. */
static struct cm_id *find_timed_out(const struct received *r)
{
    uint32_t ours = comm_id(r, CM_REJ_remote_comm_id);
    struct cm_id *id;

    if (cm_msg_get(&r->msg, CM_REJ_info_length) < 8)
        return NULL;
    id = cm_remote_find_id(r->cm, r->way, get_be64(cm_msg_bytes(&r->msg, CM_REJ_info)),
                           comm_id(r, CM_REJ_local_comm_id));
    return id && (!ours || ours == id->local_comm_id) ? id : NULL;
}

static void rx_rej(const struct received *r)
{
    uint64_t reason = cm_msg_get(&r->msg, CM_REJ_reason);
    struct cm_id *id = reason == CM_REJ_TIMEOUT ? find_timed_out(r) : NULL;

    if (!id)
        id = find(r, CM_REJ_remote_comm_id, CM_REJ_local_comm_id, true);
    if (id && id->peer_to_peer && reason == CM_REJ_INVALID_SERVICE_ID && !id->remote_comm_id)
        r->cm->counters.ignored++; /* the peer is about to ask, too */
    else
        step_or_count(r, id, reason == CM_REJ_STALE_CONNECTION ? CM_IN_RX_REJ_STALE : CM_IN_RX_REJ);
}

/* The other end of a REP or RTU has a connection that this end has not: it ends there, too. */
static void answer_unmatched(const struct received *r)
{
    r->cm->counters.unmatched++;
    cm_send_rej(r->cm, r->way, r->mad, &r->msg, CM_REJ_INVALID_COMM_ID, (struct cm_private){0});
}

/* Whether another connection has the peer's ID, which names one of them. Many that share one would
 * make each of their ends a search. */
static bool is_named_twice(const struct received *r, uint64_t guid)
{
    struct cm_id *other = cm_remote_find_id(r->cm, r->way, guid, comm_id(r, CM_REP_local_comm_id));

    return other && !cm_ids_give_up(other);
}

/* The first REP of a connection. */
static void rx_first_rep(const struct received *r, struct cm_id *id)
{
    uint64_t guid = cm_msg_get(&r->msg, CM_REP_local_ca_guid);
    struct cm_id *other;

    if (is_named_twice(r, guid)) {
        r->cm->counters.malformed++;
        return;
    }
    other = cm_remote_find_qpn(r->cm, r->way, guid, cm_rep_qpn(id, &r->msg));
    if (!other || cm_ids_give_up(other)) {
        step(r, id, CM_IN_RX_REP);
        return;
    }
    cm_send_rej(r->cm, r->way, r->mad, &r->msg, CM_REJ_STALE_CONNECTION, (struct cm_private){0});
    cm_step(other, CM_IN_RX_STALE, NULL, r->now);
}

static void rx_rep(const struct received *r)
{
    struct cm_id *id = find(r, CM_REP_remote_comm_id, CM_REP_local_comm_id, true);

    if (!id || id->role != CM_ACTIVE)
        answer_unmatched(r);
    else if (cm_cell(id, CM_IN_RX_REP) == CM_DO_rep)
        rx_first_rep(r, id);
    else
        step(r, id, CM_IN_RX_REP);
}

static void rx_rtu(const struct received *r)
{
    struct cm_id *id = find(r, CM_RTU_remote_comm_id, CM_RTU_local_comm_id, false);

    if (id && id->role == CM_PASSIVE)
        step(r, id, CM_IN_RX_RTU);
    else
        answer_unmatched(r);
}

static void rx_dreq(const struct received *r)
{
    struct cm_id *id = find(r, CM_DREQ_remote_comm_id, CM_DREQ_local_comm_id, false);

    if (!id) {
        r->cm->counters.unmatched++;
        cm_send_drep(r->cm, r->way, r->mad, &r->msg);
    } else if (cm_msg_get(&r->msg, CM_DREQ_remote_qpn) != id->conn.qpn) {
        r->cm->counters.malformed++;
    } else {
        step(r, id, CM_IN_RX_DREQ);
    }
}

static void rx_lap(const struct received *r)
{
    struct cm_id *id = find(r, CM_LAP_remote_comm_id, CM_LAP_local_comm_id, false);

    if (id) {
        step(r, id, CM_IN_RX_LAP);
        return;
    }
    r->cm->counters.unmatched++;
    cm_send_apr(r->cm, r->way, r->mad, &r->msg, APR_INVALID_COMM_ID);
}

static void rx_sidr_rep(const struct received *r)
{
    step_or_count(r, cm_ids_find(r->cm, comm_id(r, CM_SIDR_REP_request_id)), CM_IN_RX_SIDR_REP);
}

static void rx_message(const struct received *r)
{
    switch (r->msg.message) {
    case CM_REQ:
        cm_rx_req(r->cm, r->way, r->mad, &r->msg, r->now);
        break;
    case CM_MRA:
        rx_mra(r);
        break;
    case CM_REJ:
        rx_rej(r);
        break;
    case CM_REP:
        rx_rep(r);
        break;
    case CM_RTU:
        rx_rtu(r);
        break;
    case CM_DREQ:
        rx_dreq(r);
        break;
    case CM_DREP:
        step_or_count(r, find(r, CM_DREP_remote_comm_id, CM_DREP_local_comm_id, false),
                      CM_IN_RX_DREP);
        break;
    case CM_SIDR_REQ:
        cm_rx_sidr_req(r->cm, r->way, r->mad, &r->msg, r->now);
        break;
    case CM_SIDR_REP:
        rx_sidr_rep(r);
        break;
    case CM_LAP:
        rx_lap(r);
        break;
    case CM_APR:
        step_or_count(r, find(r, CM_APR_remote_comm_id, CM_APR_local_comm_id, false), CM_IN_RX_APR);
        break;
    case CM_MESSAGE_COUNT:
        break;
    }
}

/* Whether it is sent. */
static bool send_answer(const struct received *r, const uint8_t *answer)
{
    if (!cm_limit_answer(r->cm, r->way))
        return false;
    r->cm->config.ops->send(r->cm->config.ctx, r->way, answer);
    return true;
}

/* Anything but a message: of another class, or a REQ of another version of the class. */
static void rx_other(const struct received *r, size_t len)
{
    struct cm_msg req = {.message = CM_REQ, .data = r->mad + MAD_HEADER};
    uint8_t answer[MAD_LEN];
    enum gsi_verdict verdict = gsi_classes_rx(&r->cm->classes, r->way, answer, r->mad, len);

    if (verdict != GSI_NOT_MINE) {
        r->cm->counters.gsi_taken++;
        if (verdict == GSI_ANSWER)
            send_answer(r, answer);
        return;
    }
    if (gsi_answer(answer, r->mad, len)) {
        r->cm->counters.gsi_answered += send_answer(r, answer);
        return;
    }
    r->cm->counters.malformed++;
    if (gsi_is_req_of_another_version(r->mad, len))
        cm_send_rej(r->cm, r->way, r->mad, &req, CM_REJ_INVALID_CLASS_VERSION,
                    (struct cm_private){0});
}

void cm_rx(struct cm *cm, const struct cm_path *way, const uint8_t *mad, size_t len, ns_t now)
{
    struct received r = {.cm = cm, .way = way, .mad = mad, .now = now};

    cm->rx_time = now;
    if (!cm_msg_parse(&r.msg, mad, len)) {
        rx_other(&r, len);
        return;
    }
    cm->counters.rx[r.msg.message]++;
    rx_message(&r);
}

int cm_class_register(struct cm *cm, uint8_t mgmt_class, const struct gsi_handler *handler)
{
    return gsi_classes_add(&cm->classes, mgmt_class, handler);
}

void cm_class_unregister(struct cm *cm, uint8_t mgmt_class)
{
    gsi_classes_remove(&cm->classes, mgmt_class);
}
