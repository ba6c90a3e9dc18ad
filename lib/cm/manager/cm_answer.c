/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to messages of no connection: they leave no state. No REJ, DREP, APR or SIDR_REP is
 * answered, so that two ends cannot keep each other busy; and a port sends a limited number of them
 * in a second. */
#include "cm_state.h"

/* Whether it is sent. */
static bool answer(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                   enum cm_message message)
{
    if (!cm_limit_answer(cm, way))
        return false;
    cm_transmit(cm, way, mad, message);
    return true;
}

void cm_send_rej(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                 const struct cm_msg *msg, uint16_t reason, struct cm_private info)
{
    uint8_t rej[MAD_LEN];
    uint64_t local = 0, remote;

    if (msg->message == CM_REP) {
        local = cm_msg_get(msg, CM_REP_remote_comm_id);
        remote = cm_msg_get(msg, CM_REP_local_comm_id);
    } else if (msg->message == CM_RTU) {
        local = cm_msg_get(msg, CM_RTU_remote_comm_id);
        remote = cm_msg_get(msg, CM_RTU_local_comm_id);
    } else {
        remote = cm_msg_get(msg, CM_REQ_local_comm_id);
    }
    cm_msg_init(rej, CM_REJ, mad_get(mad, MAD_transaction_id));
    cm_msg_set(rej, CM_REJ_local_comm_id, local);
    cm_msg_set(rej, CM_REJ_remote_comm_id, remote);
    cm_msg_set(rej, CM_REJ_message_rejected,
               msg->message == CM_REP   ? CM_ANSWERED_REP
               : msg->message == CM_RTU ? CM_ANSWERED_OTHER
                                        : CM_ANSWERED_REQ);
    cm_msg_set(rej, CM_REJ_reason, reason);
    cm_msg_set(rej, CM_REJ_info_length, info.len);
    cm_msg_set_bytes(rej, CM_REJ_info, info.data, info.len);
    if (answer(cm, way, rej, CM_REJ) && msg->message == CM_REQ)
        cm->counters.refused++;
}

void cm_send_drep(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                  const struct cm_msg *msg)
{
    uint8_t drep[MAD_LEN];

    cm_msg_init(drep, CM_DREP, mad_get(mad, MAD_transaction_id));
    cm_msg_set(drep, CM_DREP_local_comm_id, cm_msg_get(msg, CM_DREQ_remote_comm_id));
    cm_msg_set(drep, CM_DREP_remote_comm_id, cm_msg_get(msg, CM_DREQ_local_comm_id));
    answer(cm, way, drep, CM_DREP);
}

void cm_send_apr(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                 const struct cm_msg *msg, uint8_t status)
{
    uint8_t apr[MAD_LEN];

    cm_msg_init(apr, CM_APR, mad_get(mad, MAD_transaction_id));
    cm_msg_set(apr, CM_APR_local_comm_id, cm_msg_get(msg, CM_LAP_remote_comm_id));
    cm_msg_set(apr, CM_APR_remote_comm_id, cm_msg_get(msg, CM_LAP_local_comm_id));
    cm_msg_set(apr, CM_APR_status, status);
    answer(cm, way, apr, CM_APR);
}

void cm_send_sidr_rep(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                      const struct cm_msg *msg, uint8_t status)
{
    uint8_t rep[MAD_LEN];

    cm_msg_init(rep, CM_SIDR_REP, mad_get(mad, MAD_transaction_id));
    cm_msg_set(rep, CM_SIDR_REP_request_id, cm_msg_get(msg, CM_SIDR_REQ_request_id));
    cm_msg_set(rep, CM_SIDR_REP_service_id, cm_msg_get(msg, CM_SIDR_REQ_service_id));
    cm_msg_set(rep, CM_SIDR_REP_status, status);
    if (answer(cm, way, rep, CM_SIDR_REP))
        cm->counters.refused++;
}
