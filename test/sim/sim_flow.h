/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flow at run time: one plan, the queue pair that executes it and its peer. Posts some work at a
 * time and checks every completion against the plan.
 */
#ifndef UROCE_SIM_FLOW_H
#define UROCE_SIM_FLOW_H

#include "kit.h"
#include "sim_plan.h"
#include "sim_pool.h"

struct sim;

struct flow {
    struct sim *sim;
    unsigned id;
    struct kit_qp *qp, *peer;
    struct plan plan;
    struct kit_mr *local[PLAN_BANKS], *inbox[PLAN_BANKS], *target, *counter;
    bool sig_all;
    struct pool *pool;    /* the peer's shared receive queue; it posts its own entries */
    unsigned extra_recvs; /* posted behind the consumed ones; flushed at the end */
    unsigned posted, completed, failures, recvs_posted, recvs_done;
    ns_t send_at, recv_at; /* the application's next turn */
    uint64_t last_count;   /* value the last FETCH_ADD of the shared counter returned, plus 1 */
    bool flushing;
    /* The losses may use up all retries: the flow then fails, and is done. */
    bool may_break, broken;
    /* Both ends are in the error state: unfinished requests are flushed. */
    bool stopped, recvs_flushed;
};

/* Registers the flow's memory with the plan's first contents. */
void flow_register(struct flow *f);

/* Lets the application post as much as its turn allows. */
void flow_post(struct flow *f, struct random *r);

/* A completion of the flow's queue pair: of a request, or of a receive at its peer. */
void flow_sent(struct flow *f, const struct cqe *e);
void flow_received(struct flow *f, const struct cqe *e);

bool flow_done(const struct flow *f);

/* Checks that all requests of a stopped flow have completed. */
void flow_check_flushed(const struct flow *f);

/* The flow's keys are invalid from now on. */
void flow_deregister(struct flow *f);

/* Compares all bytes of the flow's memory with the model, when all is done. */
void flow_verify(struct flow *f);

/* ---- the run ---- */

/* Reports and ends the program unless cond. */
#define expect(f, cond, ...)                    \
    do {                                        \
        if (!(cond))                            \
            flow_failed(f, #cond, __VA_ARGS__); \
    } while (0)
_Noreturn void flow_failed(const struct flow *f, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The value that one FETCH_ADD of a node's shared counter returned. */
void sim_counted(struct sim *s, const struct flow *f, uint64_t value);

#endif
