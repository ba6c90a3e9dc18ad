/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency against load: for each load more messages are due than can be sent, which shows what the
 * highest rate is at the moment, and then that part of it is. A machine's speed changes, and a rate
 * above the highest has no latency.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "result.h"
#include "run_wait.h"

#define DEFAULT_DURATION (2 * NS_PER_SEC)
#define PROBE_PART       4 /* of the duration, to find the highest rate */
#define RATE_MAX         1000000000

/* 0; 1: a signal has ended it; -1: it has failed. */
static int run_once(struct perf *p, const struct perf_options *o, struct perf_ports *ports,
                    int signal_fd)
{
    char error[ERROR_MAX];
    struct pollfd pfd = {.fd = signal_fd, .events = POLLIN};

    if (run_start(p, o, ports, error, sizeof(error))) {
        fprintf(stderr, "uroce-perf: %s\n", error);
        return -1;
    }
    run_wait(p, signal_fd);
    run_stop(p);
    if (!atomic_load(&p->failed))
        return poll(&pfd, 1, 0) > 0;
    fprintf(stderr, "uroce-perf: %s\n", p->error);
    return -1;
}

/* In messages a second. Returns as run_once. */
static int highest_rate(struct perf *p, struct perf_options o, struct perf_ports *ports,
                        int signal_fd, double *rate)
{
    struct perf_result r;
    int ended;

    o.duration /= PROBE_PART;
    o.rate = RATE_MAX;
    o.stats_period = 0;
    ended = run_once(p, &o, ports, signal_fd);
    if (!ended && result_total(p, &r))
        ended = -1;
    if (!ended)
        *rate = r.messages_per_s;
    run_close(p);
    return ended;
}

/* One load. Returns as run_once. */
static int run_load(struct perf *p, struct perf_options o, struct perf_ports *ports, int signal_fd,
                    unsigned load)
{
    double highest;
    int ended;

    o.duration = o.duration ? o.duration : DEFAULT_DURATION;
    ended = highest_rate(p, o, ports, signal_fd, &highest);
    if (ended)
        return ended;
    o.rate = (uint64_t)max_of(highest * load / 100, 1.0);
    ended = run_once(p, &o, ports, signal_fd);
    if (p->threads) /* it has started */
        report_load(p, load, highest);
    run_close(p);
    return ended;
}

int loads_run(const struct perf_options *o, struct perf_ports *ports, int signal_fd)
{
    static struct perf p;
    char error[ERROR_MAX];
    int load, ended = 0;

    if (ports && perf_ports_open(ports, o, error, sizeof(error))) {
        fprintf(stderr, "uroce-perf: %s\n", error);
        return EXIT_FAILURE;
    }
    for (unsigned i = 0; !ended && (load = options_load(o->loads, i)) > 0; i++)
        ended = run_load(&p, *o, ports, signal_fd, (unsigned)load);
    return ended < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
