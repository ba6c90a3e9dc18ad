/* SPDX-License-Identifier: BSD-3-Clause */
/* Events for the host. Nothing touches an id after its event: the host may have destroyed it. */
#include <errno.h>

#include "cm_state.h"

/* ECE of a message: the vendor lies in different fields, the options in the MAD's header. */
static struct cm_ece ece_of(const struct cm_msg *msg)
{
    struct cm_ece ece = {.options =
                             (uint32_t)mad_get(msg->data - MAD_HEADER, MAD_attribute_modifier)};

    if (msg->message == CM_REQ)
        ece.vendor_id = (uint32_t)cm_msg_get(msg, CM_REQ_vendor_id);
    else if (msg->message == CM_REP)
        ece.vendor_id = (uint32_t)(cm_msg_get(msg, CM_REP_vendor_id_high) << 16 |
                                   cm_msg_get(msg, CM_REP_vendor_id_middle) << 8 |
                                   cm_msg_get(msg, CM_REP_vendor_id_low));
    else
        ece.vendor_id = (uint32_t)(cm_msg_get(msg, CM_SIDR_REP_vendor_id_high) << 8 |
                                   cm_msg_get(msg, CM_SIDR_REP_vendor_id_low));
    return ece;
}

static void add_private(struct cm_event *e, const struct cm_msg *msg)
{
    e->private.data = cm_msg_private_data(msg, &e->private.len);
}

static void add_rep(struct cm_event *e, const struct cm_id *id, const struct cm_msg *msg)
{
    e->conn = id->conn;
    e->conn.qpn = id->remote_qpn;
    e->conn.srq = (uint8_t)cm_msg_get(msg, CM_REP_srq);
    e->ece = ece_of(msg);
}

static void add_rej(struct cm_event *e, const struct cm_msg *msg)
{
    size_t room = cm_field_info(CM_REJ_info)->field.bits / 8u;

    e->status = (int)cm_msg_get(msg, CM_REJ_reason);
    e->info.data = cm_msg_bytes(msg, CM_REJ_info);
    e->info.len = min_of((size_t)cm_msg_get(msg, CM_REJ_info_length), room);
}

static void add_sidr_rep(struct cm_event *e, const struct cm_msg *msg)
{
    size_t room = cm_field_info(CM_SIDR_REP_info)->field.bits / 8u;

    e->status = (int)cm_msg_get(msg, CM_SIDR_REP_status);
    e->info.data = cm_msg_bytes(msg, CM_SIDR_REP_info);
    e->info.len = min_of((size_t)cm_msg_get(msg, CM_SIDR_REP_info_length), room);
    e->conn.qpn = (uint32_t)cm_msg_get(msg, CM_SIDR_REP_qpn);
    e->conn.qp_type = CM_QP_UD;
    e->qkey = (uint32_t)cm_msg_get(msg, CM_SIDR_REP_qkey);
    e->ece = ece_of(msg);
}

static void give(struct cm_event *e)
{
    struct cm *cm = e->id->cm;

    cm->config.ops->event(cm->config.ctx, e);
}

void cm_report(struct cm_id *id, enum cm_event_type type, enum cm_input input,
               const struct cm_msg *msg)
{
    struct cm_event e = {.type = type, .id = id};

    if (id->lingers)
        return;
    if (msg) {
        add_private(&e, msg);
        if (msg->message == CM_REP)
            add_rep(&e, id, msg);
        else if (msg->message == CM_REJ)
            add_rej(&e, msg);
        else if (msg->message == CM_SIDR_REP)
            add_sidr_rep(&e, msg);
    }
    if (input == CM_IN_EXPIRED && type != CM_EVENT_TIMEWAIT_EXIT)
        e.status = -ETIMEDOUT;
    e.by_peer = type == CM_EVENT_DISCONNECTED && id->state == CM_DREQ_RCVD;
    give(&e);
}

/* Behind the header of RDMA IP CM, which the host has as addresses. */
void cm_report_request(struct cm_id *id, const struct cm_msg *msg)
{
    struct cm_event e = {.type = msg->message == CM_REQ ? CM_EVENT_CONNECT_REQUEST
                                                        : CM_EVENT_SIDR_REQUEST,
                         .id = id,
                         .listener = id->listener};

    add_private(&e, msg);
    if (id->ps != IP_CM_PS_NONE) {
        e.private.data = (const uint8_t *)e.private.data + IP_CM_HEADER;
        e.private.len -= IP_CM_HEADER;
    }
    if (msg->message == CM_REQ) {
        e.conn = id->conn;
        e.conn.qpn = id->remote_qpn;
        e.ece = ece_of(msg);
    } else {
        e.conn.qp_type = CM_QP_UD;
    }
    give(&e);
}
