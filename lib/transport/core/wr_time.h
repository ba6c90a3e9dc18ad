/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests whose stages are timed (latency.h). The application's library chooses them, one of
 * a queue pair at a time, and marks their WQEs (SQE_TIMED); these take the general path. So all
 * others cost nothing.
 */
#ifndef UROCE_WR_TIME_H
#define UROCE_WR_TIME_H

#include "common.h"
#include "psn.h"

struct engine;
struct qp;

enum wr_time_state {
    WR_TIME_NONE,
    WR_TIME_TAKEN,
    WR_TIME_SENT,
    WR_TIME_DONE, /* the program has not yet told when it got the completion */
};

struct wr_time {
    uint8_t state; /* enum wr_time_state */
    uint32_t slot; /* its slot's count */
    ns_t since;    /* when the present stage began */
    ns_t queued, sending, answer;
};

/* A marked WQE was taken into this slot. */
void wr_time_taken(struct engine *e, struct qp *qp, uint32_t slot);

/* A packet that asks for an answer, at PSN p, is being sent for the first time. */
void wr_time_sent(struct engine *e, struct qp *qp, psn_t p);

/* The work requests in the slots from `tail` to `end` are done. */
void wr_time_done(struct engine *e, struct qp *qp, uint32_t tail, uint32_t end);

/* The queue pair is reset: a work request that was being timed is none any more. */
void wr_time_forget(struct qp *qp);

#endif
