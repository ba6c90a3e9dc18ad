/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements of a run up to now, and their output. */
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
    double active_s; /* in traffic, without setting up and without the floor */
    double cpu_s;    /* the threads' CPU time in traffic */
    double messages_per_s, gigabytes_per_s;
    double ns_per_message, cycles_per_message; /* of CPU time, all workers' */
    uint64_t pauses;                           /* turns in which a thread was interrupted: PAUSE */
    double pause_ms, longest_pause_ms;
    uint64_t latencies;
    double min_ns, mean_ns, max_ns, quantile_ns[QUANTILES];
    unsigned floor_samples; /* 0: there is no floor */
    double floor_messages_per_s, floor_gigabytes_per_s, floor_ns_per_message, floor_ratio;
};

/* The result of all workers, or of one. The workers may be running. 0 or -ENOMEM. */
int result_total(const struct perf *p, struct perf_result *r);
int result_of_worker(const struct perf *p, unsigned worker, struct perf_result *r);

/* Reduces r to the changes since `before`, an earlier total. */
void result_since(struct perf_result *r, const struct perf_result *before);

/* ---- report.c: by --format ---- */

/* Prints a line about a period, `at` seconds after the start. */
void report_period(const struct perf *p, const struct perf_result *r, double at);
/* Prints the result of the run. */
void report_result(const struct perf *p);
/* Prints the result of a run at `load` per cent of `highest` messages a second. */
void report_load(const struct perf *p, unsigned load, double highest);
/* Prints the result as text, whatever the format: for the prompt. */
void report_table(const struct perf *p);
void report_latency(const struct perf *p);

/* ---- show.c ---- */

void show_qps(const struct perf *p);
void show_xstats(const struct perf *p);
void show_config(const struct perf_options *o);

/* ---- loads.c ---- */

/* Runs each of the loads in o->loads; ports: NULL for a client. Returns the program's exit status.
 */
int loads_run(const struct perf_options *o, struct perf_ports *ports, int signal_fd);

/* ---- prompt.c ---- */

/* Executes commands until quit, the end of the input, or a signal. signal_fd becomes readable with
 * a signal. Returns the program's exit status. */
int prompt_run(struct perf_options *o, struct perf_ports *ports, int signal_fd);

#endif
