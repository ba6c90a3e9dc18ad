/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of one side of a queue pair, decided before the run, and their results: a model of
 * all memories, advanced one work request at a time in program order. No engine is involved.
 *
 * A flow's requests touch three kinds of memory: `local` regions of the requester (sources, READ
 * and atomic results), `inbox` regions of the responder (receive buffers) and one `target` region
 * of the responder (for WRITE, READ and atomics). Slices of local and inbox are used once; target
 * offsets are random, so requests overlap there, and a fence stands where the order of requests
 * would otherwise not decide the result (volume 1, table 79).
 */
#ifndef UROCE_SIM_PLAN_H
#define UROCE_SIM_PLAN_H

#include "queue_abi.h"
#include "random.h"

#define PLAN_BANKS   2 /* regions of the same kind, so that one list mixes them */
#define PLAN_MAX_SGE 4
#define PLAN_INLINE  128
#define PLAN_MAX_LEN 65536

/* The bytes of a memory before the run and, as far as planned, after it. */
struct image {
    uint8_t *before, *after;
    uint32_t len, room;
};

struct piece {
    uint8_t bank;
    uint32_t off, len;
};

struct plan_op {
    uint8_t op, flags; /* enum sqe_op, sqe_flag */
    bool on_counter;   /* FETCH_ADD of the counter that all queue pairs share */
    bool fresh_source; /* no other request uses its source slices */
    uint32_t imm, len;
    uint32_t target_off;
    uint64_t compare_add, swap;
    uint64_t old; /* atomics on the target: the value that must come back */
    unsigned pieces;
    struct piece piece[PLAN_MAX_SGE]; /* of local */
    int recv;                         /* the receive it consumes, or -1 */
};

struct plan_recv {
    unsigned pieces;
    struct piece piece[PLAN_MAX_SGE]; /* of inbox */
    unsigned op;                      /* its consumer */
};

struct plan {
    struct image local[PLAN_BANKS], inbox[PLAN_BANKS], target;
    struct plan_op *op;
    struct plan_recv *recv;
    unsigned ops, recvs, counter_adds;
};

struct plan_params {
    unsigned ops;
    uint32_t mtu;
    uint32_t max_len;        /* of a message; 0: PLAN_MAX_LEN */
    bool extended;           /* FLUSH and ATOMIC WRITE too */
    bool no_counter;         /* no request for the shared counter */
    unsigned max_unsignaled; /* at least every n-th request is signaled */
};

void plan_make(struct plan *p, const struct plan_params *params, struct random *r);
/* The first len bytes of the pieces as planned. */
void plan_gather(const struct image *bank, const struct piece *piece, unsigned n, uint8_t *out,
                 uint32_t len);
void plan_free(struct plan *p);

#endif
