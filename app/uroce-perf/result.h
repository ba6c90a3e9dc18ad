/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run has measured so far, and how it is told. */
#ifndef UROCE_PERF_RESULT_H
#define UROCE_PERF_RESULT_H

#include "perf.h"

#define QUANTILES 5
extern const struct quantile {
    uint32_t parts;     /* millionths of all messages */
    const char *name;   /* per cent */
    const char *member; /* in JSON */
} quantiles[QUANTILES];

struct perf_result {
    uint64_t messages, bytes, received, lost, wrong;
    double active_s; /* on traffic: without setting up, and without the floor's share */
    double cpu_s;    /* the threads' CPU time of that */
    double messages_per_s, gigabytes_per_s;
    double ns_per_message, cycles_per_message; /* of CPU time, all workers' */
    uint64_t latencies;
    double min_ns, mean_ns, max_ns, quantile_ns[QUANTILES];
    unsigned floor_samples; /* 0: there is no floor */
    double floor_messages_per_s, floor_gigabytes_per_s, floor_ns_per_message, floor_ratio;
};

/* Of all workers, or of one. May run while they do. 0 or -ENOMEM. */
int result_total(const struct perf *p, struct perf_result *r);
int result_of_worker(const struct perf *p, unsigned worker, struct perf_result *r);

/* What happened since `before`, an earlier total, in so many seconds. */
void result_since(struct perf_result *r, const struct perf_result *before);

/* ---- report.c: by --format ---- */

/* A line about a period, `at` seconds from the start. */
void report_period(const struct perf *p, const struct perf_result *r, double at);
/* What came out of it. */
void report_result(const struct perf *p);
/* The same in words, whatever the format: for the prompt. */
void report_table(const struct perf *p);
void report_latency(const struct perf *p);

/* ---- show.c ---- */

void show_qps(const struct perf *p);
void show_xstats(const struct perf *p);
void show_config(const struct perf_options *o);

/* ---- prompt.c ---- */

/* Takes commands until quit, the end of the input, or a signal. signal_fd: readable when there is
 * one. The program's exit status. */
int prompt_run(struct perf_options *o, struct perf_ports *ports, int signal_fd);

#endif
