/* SPDX-License-Identifier: BSD-3-Clause */
/* See run_wait.h. */
#include "run_wait.h"

#include <poll.h>

#define DEFAULT_DURATION (5 * NS_PER_SEC)
/* The threads do not signal their end, so this checks it periodically. */
#define CHECK_MS 10

void run_wait_begin(struct run_wait *w, ns_t limit)
{
    *w = (struct run_wait){.limit = limit, .end = NS_NEVER, .next = NS_NEVER};
}

/* Time counts from when all threads were ready. */
static void check_start(struct run_wait *w, struct perf *p)
{
    const struct perf_options *o = &p->opt;

    w->began = atomic_load(&p->began);
    if (!w->began)
        return;
    if (o->duration)
        w->end = w->began + o->duration;
    else if (!o->messages && w->limit != NS_NEVER)
        w->end = w->began + w->limit;
    if (o->stats_period)
        w->next = w->began + o->stats_period;
}

int run_wait_timeout(const struct run_wait *w)
{
    ns_t next = min_of(w->end, w->next), now = worker_time();
    ns_t left = next > now ? (next - now + NS_PER_MS - 1) / NS_PER_MS : 0;

    return (int)min_of(left, (ns_t)CHECK_MS);
}

static void report_last_period(struct run_wait *w, const struct perf *p)
{
    struct perf_result total, period;

    if (result_total(p, &total))
        return;
    period = total;
    result_since(&period, &w->before);
    w->before = total;
    report_period(p, &period, (double)(w->next - w->began) / 1e9);
}

bool run_wait_check(struct run_wait *w, struct perf *p)
{
    ns_t now = worker_time();

    if (!w->began)
        check_start(w, p);
    if (now >= w->next) {
        report_last_period(w, p);
        /* Skips periods that were missed. */
        while (w->next <= now)
            w->next += p->opt.stats_period;
    }
    return now >= w->end || run_is_over(p);
}

void run_wait(struct perf *p, int signal_fd)
{
    struct run_wait w;

    run_wait_begin(&w, DEFAULT_DURATION);
    do {
        struct pollfd pfd = {.fd = signal_fd, .events = POLLIN};

        if (poll(&pfd, 1, run_wait_timeout(&w)) > 0)
            break;
    } while (!run_wait_check(&w, p));
}
