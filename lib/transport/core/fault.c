/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault.h"
#include "engine.h"
#include "pkt.h"

#define NAK(code)     (AETH_NAK | NAK_##code)
#define COUNTER(name) offsetof(struct qp_counters, name)

/* clang-format off */
const struct fault_rule fault_rules[FAULT_COUNT] = {
    /*                        syndrome               fatal  own    receive entry       event                   counter */
    [FAULT_PSN_SEQUENCE]   = {NAK(PSN_SEQUENCE),      false, false, 0,                  -1,                     COUNTER(seq_nak_sent)},
    [FAULT_RNR]            = {AETH_RNR,               false, false, 0,                  -1,                     COUNTER(rnr_nak_sent)},
    [FAULT_OPCODE_SEQUENCE]= {NAK(INVALID_REQUEST),   true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR,    COUNTER(remote_invalid_request)},
    [FAULT_UNSUPPORTED]    = {NAK(INVALID_REQUEST),   true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR,    COUNTER(remote_invalid_request)},
    [FAULT_QP_ACCESS]      = {NAK(INVALID_REQUEST),   true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR,    COUNTER(remote_invalid_request)},
    [FAULT_LENGTH]         = {NAK(INVALID_REQUEST),   true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR,    COUNTER(remote_invalid_request)},
    [FAULT_TOO_MANY_READS] = {NAK(INVALID_REQUEST),   true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR,    COUNTER(remote_invalid_request)},
    [FAULT_MISALIGNED]     = {NAK(INVALID_REQUEST),   true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR,    COUNTER(remote_invalid_request)},
    [FAULT_INVALIDATE]     = {FAULT_SILENT,           true,  false, WC_REM_INV_REQ_ERR, QP_EVENT_QP_ACCESS_ERR, COUNTER(remote_access_err)},
    [FAULT_RECV_TOO_SMALL] = {NAK(INVALID_REQUEST),   true,  false, WC_LOC_LEN_ERR,     -1,                     COUNTER(remote_invalid_request)},
    [FAULT_REMOTE_ACCESS]  = {NAK(REMOTE_ACCESS),     true,  false, WC_LOC_ACCESS_ERR,  QP_EVENT_QP_ACCESS_ERR, COUNTER(remote_access_err)},
    [FAULT_RECV_PROTECTION]= {NAK(REMOTE_OPERATIONAL),true,  true,  WC_LOC_PROT_ERR,    -1,                     COUNTER(local_protection_err)},
    [FAULT_RECV_MALFORMED] = {NAK(REMOTE_OPERATIONAL),true,  true,  WC_LOC_QP_OP_ERR,   -1,                     COUNTER(remote_operational_err)},
    [FAULT_QUEUE_INDEX]    = {NAK(REMOTE_OPERATIONAL),true,  true,  WC_FATAL_ERR,       QP_EVENT_QP_FATAL,      COUNTER(remote_operational_err)},
    [FAULT_MEMORY]         = {NAK(REMOTE_OPERATIONAL),true,  true,  WC_LOC_PROT_ERR,    QP_EVENT_QP_FATAL,      COUNTER(remote_operational_err)},
    [FAULT_CQ_OVERRUN]     = {FAULT_SILENT,           true,  true,  WC_FATAL_ERR,       QP_EVENT_QP_FATAL,      COUNTER(remote_operational_err)},
};
/* clang-format on */

const char *fault_name(uint32_t fault)
{
    static const char *const name[FAULT_COUNT] = {
        [FAULT_NONE] = "none",
        [FAULT_PSN_SEQUENCE] = "PSN sequence",
        [FAULT_RNR] = "receiver not ready",
        [FAULT_OPCODE_SEQUENCE] = "opcode sequence",
        [FAULT_UNSUPPORTED] = "unsupported operation",
        [FAULT_QP_ACCESS] = "not allowed by the queue pair",
        [FAULT_LENGTH] = "length",
        [FAULT_TOO_MANY_READS] = "too many reads",
        [FAULT_MISALIGNED] = "misaligned",
        [FAULT_INVALIDATE] = "invalidate",
        [FAULT_RECV_TOO_SMALL] = "receive buffer too small",
        [FAULT_REMOTE_ACCESS] = "remote access",
        [FAULT_RECV_PROTECTION] = "receive buffer protection",
        [FAULT_RECV_MALFORMED] = "receive entry malformed",
        [FAULT_QUEUE_INDEX] = "queue index",
        [FAULT_MEMORY] = "memory",
        [FAULT_CQ_OVERRUN] = "completion queue overrun",
        [FAULT_SUSPENDED] = "suspended",
    };

    return fault < FAULT_COUNT ? name[fault] : "?";
}
