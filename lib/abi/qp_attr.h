/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair attributes as values: used in control messages and by the engine. Numbers are those of
 * the verbs ABI (enum ibv_qp_state, ibv_qp_attr_mask, ibv_mtu, ibv_qp_type).
 */
#ifndef UROCE_QP_ATTR_H
#define UROCE_QP_ATTR_H

#include <stdint.h>

enum qp_type {
    QPT_RC = 2,
    QPT_UC = 3,
    QPT_UD = 4,
    QPT_RAW_PACKET = 8,
    QPT_XRC_SEND = 9,
    QPT_XRC_RECV = 10,
};

enum qp_state {
    QPS_RESET,
    QPS_INIT,
    QPS_RTR,
    QPS_RTS,
    QPS_SQD,
    QPS_SQE,
    QPS_ERR,
    QPS_COUNT,
};

enum qp_attr_mask {
    QPA_STATE = 1 << 0,
    QPA_CUR_STATE = 1 << 1,
    QPA_EN_SQD_ASYNC_NOTIFY = 1 << 2,
    QPA_ACCESS_FLAGS = 1 << 3,
    QPA_PKEY_INDEX = 1 << 4,
    QPA_PORT = 1 << 5,
    QPA_QKEY = 1 << 6,
    QPA_AV = 1 << 7,
    QPA_PATH_MTU = 1 << 8,
    QPA_TIMEOUT = 1 << 9,
    QPA_RETRY_CNT = 1 << 10,
    QPA_RNR_RETRY = 1 << 11,
    QPA_RQ_PSN = 1 << 12,
    QPA_MAX_RD_ATOMIC = 1 << 13,
    QPA_ALT_PATH = 1 << 14,
    QPA_MIN_RNR_TIMER = 1 << 15,
    QPA_SQ_PSN = 1 << 16,
    QPA_MAX_DEST_RD_ATOMIC = 1 << 17,
    QPA_PATH_MIG_STATE = 1 << 18,
    QPA_CAP = 1 << 19,
    QPA_DEST_QPN = 1 << 20,
    QPA_RATE_LIMIT = 1 << 25,
};

/* Work that completion counters count; numbers of enum ibv_qp_attach_comp_cntr_op. */
enum qp_count {
    QP_COUNT_SEND = 1 << 0,
    QP_COUNT_RECV = 1 << 1,
    QP_COUNT_READ = 1 << 2,
    QP_COUNT_PEER_READ = 1 << 3, /* the peer's, of this end's memory */
    QP_COUNT_WRITE = 1 << 4,
    QP_COUNT_PEER_WRITE = 1 << 5,
    QP_COUNT_ALL = (1 << 6) - 1,
};
#define QP_COUNTS 6

/* An address vector as the verbs API has it; the daemon resolves it to MACs. */
struct ah_attr {
    uint8_t dgid[16];
    uint32_t flow_label;
    uint8_t sgid_index, hop_limit, traffic_class;
    uint8_t sl, port_num, is_global, static_rate, reserved;
};

struct qp_caps {
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

/* The bit of controlled Q_Keys (volume 1, 3.5.3). */
#define QKEY_CONTROLLED 0x80000000u

struct qp_attr {
    uint32_t state, cur_state; /* enum qp_state */
    uint32_t path_mtu;         /* 1 to 5: 256 to 4096 bytes */
    uint32_t qkey, rq_psn, sq_psn, dest_qpn;
    uint32_t access_flags; /* enum mem_access */
    struct ah_attr ah;
    uint16_t pkey_index;
    uint8_t sq_draining, en_sqd_async_notify;
    uint8_t max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num;
    uint8_t timeout, retry_cnt, rnr_retry, path_mig_state;
    uint32_t rate_limit; /* 1000 bits per second; 0: none */
    uint32_t rate_burst; /* bytes that the program lets leave at once; 0: any */
};

/* INIT, RTR, RTS: the steps that lead a new queue pair to a connection. */
#define QP_STEPS 3

#endif
