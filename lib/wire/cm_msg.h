/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the communication manager: MADs of class 0x07 to queue pair 1 (volume 1, chapter 12
 * and 16.7). Each message and each field is one row of a table, which reading, writing, dissection
 * and tests share. Pure; any thread.
 */
#ifndef UROCE_CM_MSG_H
#define UROCE_CM_MSG_H

#include <stddef.h>

#include "mad.h"

#define CM_CLASS_VERSION 2                      /* 16.7.1 */
#define CM_MSG_LEN       (MAD_LEN - MAD_HEADER) /* of every message, unused bytes included */

/*
 * X(message, attribute, private data). The attribute ID (16.7.2) says which message a MAD carries;
 * the private data begins at this byte and takes the rest of the message.
 */
#define CM_MESSAGES(X)                    \
    X(REQ, 0x0010, 140)     /* 12.6.5 */  \
    X(MRA, 0x0011, 10)      /* 12.6.6 */  \
    X(REJ, 0x0012, 84)      /* 12.6.7 */  \
    X(REP, 0x0013, 36)      /* 12.6.8 */  \
    X(RTU, 0x0014, 8)       /* 12.6.9 */  \
    X(DREQ, 0x0015, 12)     /* 12.6.10 */ \
    X(DREP, 0x0016, 8)      /* 12.6.11 */ \
    X(SIDR_REQ, 0x0017, 16) /* 12.11.1 */ \
    X(SIDR_REP, 0x0018, 96) /* 12.11.2 */ \
    X(LAP, 0x0019, 64)      /* 12.8.1 */  \
    X(APR, 0x001A, 84)      /* 12.8.2 */

enum cm_message {
#define X(message, attribute, private_data) CM_##message,
    CM_MESSAGES(X)
#undef X
        CM_MESSAGE_COUNT
};

/*
 * X(message, field, byte, bit, bits): positions as in the message's table in chapter 12, from the
 * start of the message; see bit_field.h. The vendor ID of extended connection establishment (ECE)
 * lies in what were reserved bytes; its options are the MAD's attribute modifier.
 */
#define CM_FIELDS(X)                               \
    X(REQ, local_comm_id, 0, 0, 32)                \
    X(REQ, vendor_id, 5, 0, 24)                    \
    X(REQ, service_id, 8, 0, 64)                   \
    X(REQ, local_ca_guid, 16, 0, 64)               \
    X(REQ, local_qkey, 28, 0, 32)                  \
    X(REQ, local_qpn, 32, 0, 24)                   \
    X(REQ, responder_resources, 35, 0, 8)          \
    X(REQ, local_eecn, 36, 0, 24)                  \
    X(REQ, initiator_depth, 39, 0, 8)              \
    X(REQ, remote_eecn, 40, 0, 24)                 \
    X(REQ, remote_cm_response_timeout, 43, 0, 5)   \
    X(REQ, transport_service_type, 43, 5, 2)       \
    X(REQ, end_to_end_flow_control, 43, 7, 1)      \
    X(REQ, starting_psn, 44, 0, 24)                \
    X(REQ, local_cm_response_timeout, 47, 0, 5)    \
    X(REQ, retry_count, 47, 5, 3)                  \
    X(REQ, partition_key, 48, 0, 16)               \
    X(REQ, path_mtu, 50, 0, 4)                     \
    X(REQ, rdc_exists, 50, 4, 1)                   \
    X(REQ, rnr_retry_count, 50, 5, 3)              \
    X(REQ, max_cm_retries, 51, 0, 4)               \
    X(REQ, srq, 51, 4, 1)                          \
    X(REQ, extended_transport_type, 51, 5, 3)      \
    X(REQ, primary_local_lid, 52, 0, 16)           \
    X(REQ, primary_remote_lid, 54, 0, 16)          \
    X(REQ, primary_local_gid, 56, 0, 128)          \
    X(REQ, primary_remote_gid, 72, 0, 128)         \
    X(REQ, primary_flow_label, 88, 0, 20)          \
    X(REQ, primary_packet_rate, 91, 2, 6)          \
    X(REQ, primary_traffic_class, 92, 0, 8)        \
    X(REQ, primary_hop_limit, 93, 0, 8)            \
    X(REQ, primary_sl, 94, 0, 4)                   \
    X(REQ, primary_subnet_local, 94, 4, 1)         \
    X(REQ, primary_local_ack_timeout, 95, 0, 5)    \
    X(REQ, alternate_local_lid, 96, 0, 16)         \
    X(REQ, alternate_remote_lid, 98, 0, 16)        \
    X(REQ, alternate_local_gid, 100, 0, 128)       \
    X(REQ, alternate_remote_gid, 116, 0, 128)      \
    X(REQ, alternate_flow_label, 132, 0, 20)       \
    X(REQ, alternate_packet_rate, 135, 2, 6)       \
    X(REQ, alternate_traffic_class, 136, 0, 8)     \
    X(REQ, alternate_hop_limit, 137, 0, 8)         \
    X(REQ, alternate_sl, 138, 0, 4)                \
    X(REQ, alternate_subnet_local, 138, 4, 1)      \
    X(REQ, alternate_local_ack_timeout, 139, 0, 5) \
    X(MRA, local_comm_id, 0, 0, 32)                \
    X(MRA, remote_comm_id, 4, 0, 32)               \
    X(MRA, message_mraed, 8, 0, 2)                 \
    X(MRA, service_timeout, 9, 0, 5)               \
    X(REJ, local_comm_id, 0, 0, 32)                \
    X(REJ, remote_comm_id, 4, 0, 32)               \
    X(REJ, message_rejected, 8, 0, 2)              \
    X(REJ, info_length, 9, 0, 7)                   \
    X(REJ, reason, 10, 0, 16)                      \
    X(REJ, info, 12, 0, 576)                       \
    X(REP, local_comm_id, 0, 0, 32)                \
    X(REP, remote_comm_id, 4, 0, 32)               \
    X(REP, local_qkey, 8, 0, 32)                   \
    X(REP, local_qpn, 12, 0, 24)                   \
    X(REP, vendor_id_high, 15, 0, 8)               \
    X(REP, local_eecn, 16, 0, 24)                  \
    X(REP, vendor_id_middle, 19, 0, 8)             \
    X(REP, starting_psn, 20, 0, 24)                \
    X(REP, vendor_id_low, 23, 0, 8)                \
    X(REP, responder_resources, 24, 0, 8)          \
    X(REP, initiator_depth, 25, 0, 8)              \
    X(REP, target_ack_delay, 26, 0, 5)             \
    X(REP, failover_accepted, 26, 5, 2)            \
    X(REP, end_to_end_flow_control, 26, 7, 1)      \
    X(REP, rnr_retry_count, 27, 0, 3)              \
    X(REP, srq, 27, 3, 1)                          \
    X(REP, local_ca_guid, 28, 0, 64)               \
    X(RTU, local_comm_id, 0, 0, 32)                \
    X(RTU, remote_comm_id, 4, 0, 32)               \
    X(DREQ, local_comm_id, 0, 0, 32)               \
    X(DREQ, remote_comm_id, 4, 0, 32)              \
    X(DREQ, remote_qpn, 8, 0, 24)                  \
    X(DREP, local_comm_id, 0, 0, 32)               \
    X(DREP, remote_comm_id, 4, 0, 32)              \
    X(SIDR_REQ, request_id, 0, 0, 32)              \
    X(SIDR_REQ, partition_key, 4, 0, 16)           \
    X(SIDR_REQ, service_id, 8, 0, 64)              \
    X(SIDR_REP, request_id, 0, 0, 32)              \
    X(SIDR_REP, status, 4, 0, 8)                   \
    X(SIDR_REP, info_length, 5, 0, 8)              \
    X(SIDR_REP, vendor_id_high, 6, 0, 16)          \
    X(SIDR_REP, qpn, 8, 0, 24)                     \
    X(SIDR_REP, vendor_id_low, 11, 0, 8)           \
    X(SIDR_REP, service_id, 12, 0, 64)             \
    X(SIDR_REP, qkey, 20, 0, 32)                   \
    X(SIDR_REP, info, 24, 0, 576)                  \
    X(LAP, local_comm_id, 0, 0, 32)                \
    X(LAP, remote_comm_id, 4, 0, 32)               \
    X(LAP, remote_qpn, 12, 0, 24)                  \
    X(LAP, remote_cm_response_timeout, 15, 0, 5)   \
    X(LAP, alternate_local_lid, 20, 0, 16)         \
    X(LAP, alternate_remote_lid, 22, 0, 16)        \
    X(LAP, alternate_local_gid, 24, 0, 128)        \
    X(LAP, alternate_remote_gid, 40, 0, 128)       \
    X(LAP, alternate_flow_label, 56, 0, 20)        \
    X(LAP, alternate_traffic_class, 59, 0, 8)      \
    X(LAP, alternate_hop_limit, 60, 0, 8)          \
    X(LAP, alternate_packet_rate, 61, 2, 6)        \
    X(LAP, alternate_sl, 62, 0, 4)                 \
    X(LAP, alternate_subnet_local, 62, 4, 1)       \
    X(LAP, alternate_local_ack_timeout, 63, 0, 5)  \
    X(APR, local_comm_id, 0, 0, 32)                \
    X(APR, remote_comm_id, 4, 0, 32)               \
    X(APR, info_length, 8, 0, 8)                   \
    X(APR, status, 9, 0, 8)                        \
    X(APR, info, 12, 0, 576)

enum cm_field {
#define X(message, field, byte, bit, bits) CM_##message##_##field,
    CM_FIELDS(X)
#undef X
        CM_FIELD_COUNT
};

/* Values of message_mraed and message_rejected (12.7.12, 12.7.20). */
enum cm_answered {
    CM_ANSWERED_REQ = 0,
    CM_ANSWERED_REP = 1,
    CM_ANSWERED_OTHER = 2,
};

/* Values of transport_service_type and extended_transport_type (12.7.6, A14). */
enum cm_transport {
    CM_TRANSPORT_RC = 0,
    CM_TRANSPORT_UC = 1,
    CM_TRANSPORT_EXTENDED = 3,
    CM_EXTENDED_XRC = 1,
};

/* What a row says: the field's message and position. */
struct cm_field_info {
    enum cm_message message;
    struct bit_field field;
};
const struct cm_field_info *cm_field_info(enum cm_field field);

/* "REQ" and so on. */
const char *cm_message_name(enum cm_message message);

/* A message in place: `data` points into the MAD that was parsed. */
struct cm_msg {
    enum cm_message message;
    const uint8_t *data; /* CM_MSG_LEN bytes */
};

/*
 * Finds the message in a MAD of len bytes, the payload of a packet to queue pair 1. False if it is
 * too short, of another class or version of MADs, no MAD of the method Send, or has an unknown
 * attribute.
 */
bool cm_msg_parse(struct cm_msg *m, const uint8_t *mad, size_t len);

/* The value of a field of this message; 0 if the field is of another message, or no number. */
uint64_t cm_msg_get(const struct cm_msg *m, enum cm_field field);

/* The first byte of a field of this message that is no number; NULL for any other field. */
const uint8_t *cm_msg_bytes(const struct cm_msg *m, enum cm_field field);

/* The private data, of *len bytes; all of it, as a message does not say how much is in use. */
const uint8_t *cm_msg_private_data(const struct cm_msg *m, size_t *len);

/* How many bytes of private data a message has. */
size_t cm_msg_private_data_max(enum cm_message message);

/* ---- writing: a message in a MAD of MAD_LEN bytes ---- */

/* Writes the header, and zeros into everything else. */
void cm_msg_init(uint8_t *mad, enum cm_message message, uint64_t transaction_id);

/* Writes a number of the message with which the MAD was begun. */
void cm_msg_set(uint8_t *mad, enum cm_field field, uint64_t value);

/* Writes the first len bytes of a field that is no number; at most as many as it has. */
void cm_msg_set_bytes(uint8_t *mad, enum cm_field field, const void *bytes, size_t len);

/* Where the private data of the message begins: cm_msg_private_data_max() bytes. */
uint8_t *cm_msg_private_room(uint8_t *mad, enum cm_message message);

#endif
