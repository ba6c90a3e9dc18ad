/* SPDX-License-Identifier: BSD-3-Clause */
/* The time that a thread spends on traffic, and the pauses in it. */
#ifndef UROCE_PERF_METER_H
#define UROCE_PERF_METER_H

#include "perf.h"

struct meter {
    ns_t last, cpu; /* accounted for up to then */
    ns_t cpu_read;  /* when the CPU time was read */
};

/* All of these: the thread itself. */
void meter_begin(struct meter *m);
/* Once in each turn. */
void meter_turn(struct perf_thread *t, struct meter *m, ns_t now);
void meter_end(struct perf_thread *t, struct meter *m);

/* Clears the thread's statistics. */
void meter_clear(struct perf_thread *t);
/* The same if that was requested, and then returns true. */
bool meter_check_clear(struct perf_thread *t);

#endif
