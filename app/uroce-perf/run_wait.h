/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting while the threads run: for their end, for a period to pass, for signals. */
#ifndef UROCE_PERF_RUN_WAIT_H
#define UROCE_PERF_RUN_WAIT_H

#include "result.h"

/* The end of a run, and its next report. */
struct run_wait {
    ns_t limit;
    ns_t began, end, next; /* began 0: not all threads are ready; NS_NEVER: no end, no report */
    struct perf_result before;
};

/* limit: the time of a run that has neither a duration nor a number of messages; NS_NEVER: no
 * limit. */
void run_wait_begin(struct run_wait *w, ns_t limit);
/* The time until the next call of run_wait_check, in ms. */
int run_wait_timeout(const struct run_wait *w);
/* Reports a period that has passed. True: the run is over. */
bool run_wait_check(struct run_wait *w, struct perf *p);

/* Waits until the run is over, or for a signal. */
void run_wait(struct perf *p, int signal_fd);

#endif
