/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting while threads run: for their end, for time to pass, for signals. */
#ifndef UROCE_PERF_RUN_WAIT_H
#define UROCE_PERF_RUN_WAIT_H

#include "result.h"

/* When a run ends and when it is reported next. */
struct run_wait {
    ns_t limit;
    ns_t began, end, next; /* began 0: it did not yet; NS_NEVER: it does not */
    struct perf_result before;
};

/* limit: what a run without a duration or a number of messages takes; NS_NEVER: no end. */
void run_wait_begin(struct run_wait *w, ns_t limit);
/* How long to wait, in ms, until run_wait_check has something to do. */
int run_wait_timeout(const struct run_wait *w);
/* Reports a period that is over. True: the run is over. */
bool run_wait_check(struct run_wait *w, struct perf *p);

/* Until the run is over, or a signal comes. */
void run_wait(struct perf *p, int signal_fd);

#endif
