/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connected RC queue pairs on the first device, through the public API alone. */
#ifndef UROCE_TEST_VERBS_PAIR_H
#define UROCE_TEST_VERBS_PAIR_H

#include <infiniband/verbs.h>

#define PAIR_WR    64
#define PAIR_BYTES 65536
#define PAIR_QKEY  0x1234

struct side {
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buffer;
};

struct pair {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq; /* of both sides, on the channel */
    struct side a, b;
    uint32_t psn; /* the first one of each direction */
};

/* Opens the first device, or fails the test. */
struct ibv_context *open_first(void);

void pair_open(struct pair *p);
void pair_close(struct pair *p);

/*
 * Connects both sides, which are in RESET, with PSNs that no packet of their connection before has.
 * Such packets may still be under way: a connection manager waits for them (TimeWait) before a
 * queue pair is used again. A test that reuses one at once takes other PSNs instead, or they may be
 * accepted, and the new connection's own packets are then duplicates.
 */
void pair_reconnect(struct pair *p);

struct ibv_qp *make_qp(struct pair *p, struct ibv_cq *cq);

/* A queue pair of UD in RTS, with room for `wr` work requests each way and the Q_Key PAIR_QKEY. */
struct ibv_qp *make_datagram_qp(struct pair *p, struct ibv_cq *cq, uint32_t wr);
/* The address of the device itself. */
struct ibv_ah *make_own_ah(struct pair *p);

/* From RESET to RTS, towards the other queue pair of the same device. */
void connect_qp(struct ibv_qp *qp, uint32_t dest_qpn);

/* The same with room for `depth` READs and atomics each way: 0, or the errno of RTR or RTS. */
int try_connect_qp(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t depth);
void modify_state(struct ibv_qp *qp, enum ibv_qp_state state);

int post_send(struct side *from, enum ibv_wr_opcode op, struct side *to, uint32_t offset,
              uint32_t length, uint64_t wr_id);
int post_recv(struct side *s, uint32_t offset, uint32_t length, uint64_t wr_id);

/* Polls until n completions are there, at most some seconds. */
void await(struct ibv_cq *cq, struct ibv_wc *wc, int n);

#endif
