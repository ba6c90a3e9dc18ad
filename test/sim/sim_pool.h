/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers of one size behind a shared receive queue, or behind one queue pair: posted
 * repeatedly, in any order, and each completed exactly once per posting.
 */
#ifndef UROCE_SIM_POOL_H
#define UROCE_SIM_POOL_H

#include "kit.h"

#define POOL_SLOTS 16

struct pool {
    struct kit_srq *srq; /* or */
    struct kit_qp *qp;
    struct kit_cq *cq; /* an XRC queue's own */
    struct kit_mr *mr;
    uint32_t slot_len;
    uint32_t serial;
    uint64_t wr_id[POOL_SLOTS]; /* 0: not posted */
    unsigned posted, taken;
    ns_t at; /* the application's next turn */
    bool closed;
};

/* srq or qp; the pool's memory is at its node. */
void pool_init(struct pool *p, struct kit_srq *srq, struct kit_qp *qp, uint32_t slot_len);

/* Lets the application post as much as its turn allows. */
void pool_post(struct pool *p, struct random *r);

/* The buffer of a receive completion, which leaves the pool until it is posted again. */
const uint8_t *pool_take(struct pool *p, const struct cqe *e);

/* Checks that the WQEs of a shared queue are in it or have completed. */
void pool_check(const struct pool *p);

/* A rule of the simulation is broken: prints it and ends the program. */
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
