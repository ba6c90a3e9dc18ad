/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of tests. */
#include "verify.h"

/* clang-format off */
#define RC(op)  IBV_QPT_RC, IBV_WR_##op
#define UC(op)  IBV_QPT_UC, IBV_WR_##op
#define UD(op)  IBV_QPT_UD, IBV_WR_##op
#define XRC(op) IBV_QPT_XRC_SEND, IBV_WR_##op

/* Effects: states of the two queue pairs, statuses of the requests and of the receives. */
#define ST(x)         IBV_WC_##x
#define FLUSHED       {ST(WR_FLUSH_ERR), ST(WR_FLUSH_ERR)}
#define FIRST(x)      {ST(x), ST(WR_FLUSH_ERR)}
#define BOTH_ERR      IBV_QPS_ERR, IBV_QPS_ERR
#define SENDER_ERR    IBV_QPS_ERR, IBV_QPS_RTS
#define ALL_WELL      {IBV_QPS_RTS, IBV_QPS_RTS, {0}, {0}}
#define ONE_RECEIVED  {IBV_QPS_RTS, IBV_QPS_RTS, {0}, FIRST(SUCCESS)}
#define REFUSED(x)    {BOTH_ERR, FIRST(x), FLUSHED}
#define ACCESS        REFUSED(REM_ACCESS_ERR)
#define INVALID       REFUSED(REM_INV_REQ_ERR)
#define LOCAL(x)      {SENDER_ERR, FIRST(x), FLUSHED}

const struct test tests[] = {
    {"rc_send",             RC(SEND),                 0,                   transfers},
    {"rc_send_imm",         RC(SEND_WITH_IMM),        0,                   transfers},
    {"rc_send_inv",         RC(SEND_WITH_INV),        WINDOW_2,            transfers},
    {"rc_write",            RC(RDMA_WRITE),           0,                   transfers},
    {"rc_write_imm",        RC(RDMA_WRITE_WITH_IMM),  0,                   transfers},
    {"rc_read",             RC(RDMA_READ),            0,                   transfers},
    {"rc_fetch_add",        RC(ATOMIC_FETCH_AND_ADD), 0,                   atomics},
    {"rc_cmp_swap",         RC(ATOMIC_CMP_AND_SWP),   0,                   atomics},
    {"rc_send_inline",      RC(SEND),                 INLINE,              transfers},
    {"rc_write_inline",     RC(RDMA_WRITE),           INLINE,              transfers},
    {"rc_write_imm_inline", RC(RDMA_WRITE_WITH_IMM),  INLINE | SGES,       transfers},
    {"rc_send_sge",         RC(SEND),                 SGES,                transfers},
    {"rc_write_sge",        RC(RDMA_WRITE),           SGES,                transfers},
    {"rc_read_sge",         RC(RDMA_READ),            SGES,                transfers},
    {"rc_send_psn_wrap",    RC(SEND),                 PSN_WRAP,            transfers},
    {"rc_write_psn_wrap",   RC(RDMA_WRITE),           PSN_WRAP,            transfers},
    {"rc_read_psn_wrap",    RC(RDMA_READ),            PSN_WRAP,            transfers},
    {"rc_atomic_psn_wrap",  RC(ATOMIC_FETCH_AND_ADD), PSN_WRAP,            atomics},
    {"rc_fence",            RC(RDMA_READ),            0,                   fence},
    {"rc_solicited",        RC(SEND),                 0,                   solicited},
    {"rc_chain",            RC(RDMA_WRITE),           0,                   chain},
    {"rc_chain_psn_wrap",   RC(RDMA_WRITE),           PSN_WRAP,            chain},
    {"rc_mixed",            RC(SEND),                 0,                   mixed},
    {"rc_mixed_psn_wrap",   RC(SEND),                 PSN_WRAP,            mixed},
    {"rc_srq_send",         RC(SEND),                 SHARED,              transfers},
    {"rc_srq_send_imm_sge", RC(SEND_WITH_IMM),        SHARED | SGES,       transfers},
    {"rc_srq_write_imm",    RC(RDMA_WRITE_WITH_IMM),  SHARED,              transfers},
    {"rc_srq_mixed",        RC(SEND),                 SHARED,              mixed},
    {"rc_mw1_write",        RC(RDMA_WRITE),           WINDOW_1,            transfers},
    {"rc_mw1_read",         RC(RDMA_READ),            WINDOW_1,            transfers},
    {"rc_mw2_write",        RC(RDMA_WRITE),           WINDOW_2,            transfers},
    {"rc_mw2_write_imm",    RC(RDMA_WRITE_WITH_IMM),  WINDOW_2,            transfers},
    {"rc_mw2_read",         RC(RDMA_READ),            WINDOW_2,            transfers},
    {"rc_mw2_fetch_add",    RC(ATOMIC_FETCH_AND_ADD), WINDOW_2,            atomics},

    {"uc_send",             UC(SEND),                 0,                   transfers},
    {"uc_send_imm",         UC(SEND_WITH_IMM),        0,                   transfers},
    {"uc_write",            UC(RDMA_WRITE),           0,                   transfers},
    {"uc_write_imm",        UC(RDMA_WRITE_WITH_IMM),  0,                   transfers},
    {"uc_send_inline",      UC(SEND),                 INLINE,              transfers},
    {"uc_send_sge",         UC(SEND_WITH_IMM),        SGES,                transfers},
    {"uc_send_psn_wrap",    UC(SEND),                 PSN_WRAP,            transfers},

    {"ud_send",             UD(SEND),                 0,                   transfers},
    {"ud_send_imm",         UD(SEND_WITH_IMM),        0,                   transfers},
    {"ud_send_inline",      UD(SEND),                 INLINE,              transfers},
    {"ud_send_sge",         UD(SEND_WITH_IMM),        SGES,                transfers},
    {"ud_srq_send",         UD(SEND),                 SHARED,              transfers},

    {"xrc_send",            XRC(SEND),                0,                   transfers},
    {"xrc_send_imm_sge",    XRC(SEND_WITH_IMM),       SGES,                transfers},
    {"xrc_write",           XRC(RDMA_WRITE),          0,                   transfers},
    {"xrc_write_imm",       XRC(RDMA_WRITE_WITH_IMM), 0,                   transfers},
    {"xrc_read",            XRC(RDMA_READ),           0,                   transfers},
    {"xrc_fetch_add",       XRC(ATOMIC_FETCH_AND_ADD), 0,                  atomics},
    {"xrc_cmp_swap",        XRC(ATOMIC_CMP_AND_SWP),  0,                   atomics},
    {"xrc_mixed",           XRC(SEND),                0,                   mixed},
    {"xrc_send_psn_wrap",   XRC(SEND),                PSN_WRAP,            transfers},

    {"fault_write_bad_rkey",        RC(RDMA_WRITE),           0, faulty, BAD_RKEY, ACCESS},
    {"fault_read_bad_rkey",         RC(RDMA_READ),            0, faulty, BAD_RKEY, ACCESS},
    {"fault_atomic_bad_rkey",       RC(ATOMIC_FETCH_AND_ADD), 0, faulty, BAD_RKEY, ACCESS},
    {"fault_write_stale_rkey",      RC(RDMA_WRITE),           0, faulty, STALE_RKEY, ACCESS},
    {"fault_write_zero_bad_rkey",   RC(RDMA_WRITE),           0, faulty, ZERO_RKEY, ONE_RECEIVED},
    {"fault_read_zero_bad_rkey",    RC(RDMA_READ),            0, faulty, ZERO_RKEY, ONE_RECEIVED},
    {"fault_write_out_of_bounds",   RC(RDMA_WRITE),           0, faulty, OUT_OF_BOUNDS, ACCESS},
    {"fault_read_out_of_bounds",    RC(RDMA_READ),            0, faulty, OUT_OF_BOUNDS, ACCESS},
    {"fault_atomic_out_of_bounds",  RC(ATOMIC_CMP_AND_SWP),   0, faulty, OUT_OF_BOUNDS, ACCESS},
    {"fault_write_no_mr_rights",    RC(RDMA_WRITE),           0, faulty, NO_MR_RIGHTS, ACCESS},
    {"fault_read_no_mr_rights",     RC(RDMA_READ),            0, faulty, NO_MR_RIGHTS, ACCESS},
    {"fault_atomic_no_mr_rights",   RC(ATOMIC_FETCH_AND_ADD), 0, faulty, NO_MR_RIGHTS, ACCESS},
    {"fault_write_no_qp_rights",    RC(RDMA_WRITE),           0, faulty, NO_QP_RIGHTS, INVALID},
    {"fault_read_no_qp_rights",     RC(RDMA_READ),            0, faulty, NO_QP_RIGHTS, INVALID},
    {"fault_atomic_no_qp_rights",   RC(ATOMIC_FETCH_AND_ADD), 0, faulty, NO_QP_RIGHTS, INVALID},
    {"fault_write_other_pd",        RC(RDMA_WRITE),           0, faulty, OTHER_PD, ACCESS},
    {"fault_read_other_pd",         RC(RDMA_READ),            0, faulty, OTHER_PD, ACCESS},
    {"fault_atomic_misaligned",     RC(ATOMIC_FETCH_AND_ADD), 0, faulty, MISALIGNED, INVALID},
    {"fault_write_invalidated_mw",  RC(RDMA_WRITE),           0, faulty, INVALIDATED_WINDOW, ACCESS},
    {"fault_read_invalidated_mw",   RC(RDMA_READ),            0, faulty, INVALIDATED_WINDOW, ACCESS},
    {"fault_write_beyond_mw",       RC(RDMA_WRITE),           0, faulty, BEYOND_WINDOW, ACCESS,
        RESPONDER, ONE_RECEIVED},
    {"fault_send_inv_no_mw",        RC(SEND_WITH_INV),        0, faulty, BAD_INVALIDATE,
        {BOTH_ERR, FIRST(RETRY_EXC_ERR), FIRST(REM_INV_REQ_ERR)},
        RESPONDER, {BOTH_ERR, {ST(SUCCESS), ST(RETRY_EXC_ERR)}, FIRST(REM_INV_REQ_ERR)}},
    {"fault_send_bad_lkey",         RC(SEND),                 0, faulty, BAD_SEND_LKEY,
        LOCAL(LOC_PROT_ERR), REQUESTER, LOCAL(LOC_QP_OP_ERR), LOCAL(WR_FLUSH_ERR)},
    {"fault_write_bad_lkey",        RC(RDMA_WRITE),           0, faulty, BAD_SEND_LKEY,
        LOCAL(LOC_PROT_ERR), REQUESTER, LOCAL(LOC_QP_OP_ERR), LOCAL(WR_FLUSH_ERR)},
    {"fault_recv_bad_lkey",         RC(SEND),                 0, faulty, BAD_RECV_LKEY,
        {BOTH_ERR, FIRST(REM_OP_ERR), FIRST(LOC_PROT_ERR)},
        RESPONDER, {BOTH_ERR, FIRST(REM_OP_ERR), FIRST(LOC_QP_OP_ERR)}},
    {"fault_send_too_long",         RC(SEND),                 0, faulty, TOO_LONG,
        {BOTH_ERR, FIRST(REM_INV_REQ_ERR), FIRST(LOC_LEN_ERR)},
        RESPONDER, {BOTH_ERR, FIRST(REM_OP_ERR), FIRST(LOC_QP_OP_ERR)}},
    {"fault_rnr_recovered",         RC(SEND),                 0, faulty, LATE_RECEIVE, ALL_WELL},
    {"fault_rnr_exceeded",          RC(SEND),                 0, faulty, NO_RECEIVE,
        {SENDER_ERR, FIRST(RNR_RETRY_EXC_ERR)}},
    {"fault_retry_exceeded",        RC(RDMA_WRITE),           0, faulty, PEER_GONE,
        {IBV_QPS_ERR, -1, FIRST(RETRY_EXC_ERR)}},
    {"fault_peer_in_error",         RC(SEND),                 0, faulty, PEER_IN_ERROR,
        REFUSED(RETRY_EXC_ERR)},
};
/* clang-format on */

const unsigned test_count = sizeof(tests) / sizeof(tests[0]);
