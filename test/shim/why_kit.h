/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of why_cases.c have in common: two ends of a connection, and their requests. */
#ifndef UROCE_TEST_WHY_KIT_H
#define UROCE_TEST_WHY_KIT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define BYTES 65536u
#define WR_ID 4711u
#define ALL                                                                      \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

struct end {
    struct ibv_pd *pd;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buffer;
    int mr_access, qp_access;
    enum ibv_mtu mtu;
    uint8_t depth;      /* max_rd_atomic of a, max_dest_rd_atomic of b */
    uint32_t dest_qpn;  /* 0: the other end */
    bool other_gid;     /* the GID table's first of another IP version */
    bool stays_in_init; /* b */
    uint8_t sgid_index;
};

struct why_case {
    const char *name;
    void (*run)(void);
};

/* By file; the last one has no name. */
extern const struct why_case why_keys[], why_peers[], why_attributes[];

extern struct ibv_context *ctx;
extern struct ibv_cq *cq;
extern struct end a, b;
extern uint8_t timeout_code, retry_cnt, rnr_retry;
extern enum ibv_qp_type type;
extern int cqes;

/* Ends the program with errno's text unless `good`. */
void check(bool good, const char *what);

/* The first device, and a completion queue of `cqes`. */
void open_device(void);
/* e's domain, region and queue pair. */
void make_end(struct end *e);
/* To the next state: 0 or an errno. */
int to_init(struct end *e);
int to_rtr(struct end *e, uint32_t dest_qpn, const union ibv_gid *dgid);
int to_rts(struct end *e);
/* The first of the device. */
union ibv_gid own_gid(void);
/* a and b, connected as their fields say. */
void connect_both(void);
/* The first bytes of its buffer. */
struct ibv_sge piece(const struct end *e, uint32_t length);
/* Posts wr of a, with sge if there is one, as WR_ID. */
void post(struct ibv_send_wr *wr, struct ibv_sge *sge);
/* A request of a to an address. */
void post_remote(enum ibv_wr_opcode op, uint64_t remote, uint32_t rkey, uint32_t length);
/* One to b's region. */
void post_to_b(enum ibv_wr_opcode op, uint32_t length);
/* A SEND of a. */
void post_message(uint32_t length);
/* A receive of e. */
void post_receive(struct end *e, uint32_t length, uint32_t lkey);
/* The next completion. False: there is none for ten seconds. */
bool take(struct ibv_wc *wc);
/* It has to be a good one. */
void expect_success(void);
/* Prints the first completion with an error; those with success are passed over. */
void report(void);

#endif
