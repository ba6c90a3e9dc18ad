/* SPDX-License-Identifier: BSD-3-Clause */
/* The application of fuzz_client.c, for the part of the API that has a file of its own. */
#ifndef UROCE_FUZZ_CLIENT_H
#define UROCE_FUZZ_CLIENT_H

#include <infiniband/verbs.h>

#include "fuzz_daemon.h"

#define OBJECTS 4 /* of each kind */
#define WRS     16

struct fuzz_app {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_mr *mr[OBJECTS];
    struct ibv_cq *cq[OBJECTS];
    struct ibv_srq *srq[OBJECTS];
    struct ibv_qp *qp[OBJECTS];
    struct ibv_ah *ah;
    struct ibv_mw *mw;
    /* Of fuzz_client_ex.c. */
    uint64_t
        read_flags[OBJECTS]; /* what cq[i], made by ibv_create_cq_ex, can be asked; 0: it was not */
    uint64_t send_ops[OBJECTS]; /* what qp[i], made by ibv_create_qp_ex, can send; 0: it was not */
    struct ibv_wq *wq[OBJECTS];
    struct ibv_rwq_ind_table *table;
    struct ibv_flow *flow;
    struct ibv_dm *dm;
    struct later_comp_cntr *counter;
    struct ibv_td *td;
    struct ibv_pd *parent;
    struct ibv_xrcd *xrcd;
};

extern struct fuzz_app app;

/* What destroying an object has returned: EIO, too, when it is gone. */
static inline bool is_gone(int err)
{
    return !err || err == EIO;
}

/* The next multi-byte operand, little endian. */
static inline uint32_t take_word(void)
{
    uint32_t low = take(&in);

    return low | (uint32_t)take(&in) << 8;
}

enum ex_action {
    EX_CQ,
    EX_READ,
    EX_RESIZE_CQ,
    EX_QP,
    EX_SEND,
    EX_WQ,
    EX_MODIFY_WQ,
    EX_TABLE,
    EX_RSS_QP,
    EX_FLOW,
    EX_DM,
    EX_PARENT,
    EX_XRCD,
    EX_REREG,
    EX_BIND,
    EX_AH,
    EX_BUF,
    EX_NAMES,
    EX_MCAST,
    EX_COUNTER,
    EX_COUNT
};

/* One action; its operands come from `in`. There is a device. */
void ex_act(enum ex_action action, uint8_t which);

/* Destroys what uses queue pairs; then what they, regions and shared receive queues have used, when
 * these are gone, too. */
void ex_drop_users(void);
void ex_drop_used(void);

#endif
