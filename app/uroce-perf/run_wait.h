/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting while threads run: for their end, for time to pass, for signals. */
#ifndef UROCE_PERF_WATCH_H
#define UROCE_PERF_WATCH_H

#include "result.h"

/* When a run ends and when it is reported next. */
struct watch {
    ns_t limit;
    ns_t began, end, next; /* began 0: it did not yet; NS_NEVER: it does not */
    struct perf_result before;
};

/* limit: what a run without a duration or a number of messages takes; NS_NEVER: no end. */
void watch_begin(struct watch *w, ns_t limit);
/* How long to wait, in ms, until watch_look has something to do. */
int watch_timeout(const struct watch *w);
/* Reports a period that is over. True: the run is over. */
bool watch_look(struct watch *w, struct perf *p);

/* Until the run is over, or a signal comes. */
void watch_run(struct perf *p, int signal_fd);

#endif
