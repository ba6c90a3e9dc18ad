/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packets through the public API alone: a queue pair that sends frames on the first device, and
 * the objects to receive them by work queues.
 */
#ifndef UROCE_TEST_RAW_KIT_H
#define UROCE_TEST_RAW_KIT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "uroce.h"

#define RAW_WR      256 /* entries of each queue */
#define RAW_ROOM    256 /* bytes of each receive entry */
#define RAW_KEY_LEN 40
#define RAW_IPV4    0x0800
#define RAW_IPV6    0x86DD
#define RAW_TCP     6
#define RAW_UDP     17

/* The headers of a frame; ports in host order, IPv4 addresses at the end. */
struct raw_frame {
    uint8_t dmac[6], smac[6];
    uint16_t ether_type; /* RAW_IPV4, RAW_IPV6, or another: then only the id follows */
    uint16_t vlan;       /* 0: no tag */
    uint8_t src[16], dst[16];
    uint8_t protocol, tos, ttl;
    uint16_t sport, dport;
    uint32_t id; /* in the payload */
};

struct raw {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *cq; /* cq: of all receive queues */
    struct ibv_qp *sender;
    uint8_t *memory; /* RAW_WR slots of RAW_ROOM bytes to send from, then the same number to receive
                        into */
    struct ibv_mr *mr;
    unsigned next_send, next_recv;
};

void raw_open(struct raw *r);
void raw_close(struct raw *r);

/* An IPv4 UDP frame to the port, with addresses and ports unique to its number. After raw_open. */
struct raw_frame raw_flow(uint32_t number);
/* Writes the frame; returns its length. */
unsigned raw_build(uint8_t out[RAW_ROOM], const struct raw_frame *f);

/* Sends it, and waits until it is sent. */
void raw_send(struct raw *r, const struct raw_frame *f);
/* The same for the bytes of a frame, at most RAW_ROOM. */
void raw_send_bytes(struct raw *r, const uint8_t *bytes, unsigned len);

struct ibv_qp *raw_qp(struct raw *r, struct ibv_cq *recv_cq); /* in RTS */
struct ibv_wq *raw_wq(struct raw *r, enum ibv_wq_state state);
int raw_wq_state(struct ibv_wq *wq, enum ibv_wq_state state);
struct ibv_rwq_ind_table *raw_table(struct raw *r, struct ibv_wq **wq, unsigned log_size);
/* A queue pair with receive-side scaling by this table; NULL with errno. */
struct ibv_qp *raw_rss_qp(struct raw *r, struct ibv_rwq_ind_table *table, uint8_t function,
                          uint64_t fields);
extern uint8_t raw_key[RAW_KEY_LEN]; /* Microsoft's key, with which it hashes */

/* Posts one entry; raw_id finds the bytes by its wr_id. */
int raw_post_wq(struct raw *r, struct ibv_wq *wq);
int raw_post_qp(struct raw *r, struct ibv_qp *qp);
int raw_post_srq(struct raw *r, struct ibv_srq *srq);
/* The id of the frame that a completion is of. */
uint32_t raw_id(const struct raw *r, const struct ibv_wc *wc);

/* The next completion of cq, which must come and be successful. */
struct ibv_wc raw_await(struct ibv_cq *cq);
/* Sends a frame that must arrive next, which proves that no earlier one arrived. */
void raw_expect_only(struct raw *r, const struct raw_frame *f);
/*
 * Sends a frame that must arrive. Frames sent before it to no receiver, of the ids from `first` on
 * and of the same flow, may still have been on their way to another worker: they come first, and
 * each takes a WQE.
 */
void raw_expect_last(struct raw *r, const struct raw_frame *f, uint32_t first);

/* A rule with n specifications (struct ibv_flow_spec_..., in order); NULL with errno. */
struct ibv_flow *raw_rule(struct ibv_qp *qp, enum ibv_flow_attr_type type, uint16_t priority,
                          unsigned n, const void *const spec[]);

#endif
