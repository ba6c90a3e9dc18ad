/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's thread: the dataplane's worker, and the application of its queue pairs, in turn, so
 * that no other thread needs a CPU. Traffic runs in slices. Between two slices, while nothing is
 * outstanding, the floor is measured on the same core.
 */
#include "perf.h"

#include <sched.h>
#include <string.h>

#define LOST_AFTER (20 * NS_PER_MS)
#define RTS_LIMIT  NS_PER_SEC
#define IDLE_MAX   256

static void clear_statistics(struct perf_thread *t, unsigned request)
{
    memset(&t->stats, 0, sizeof(t->stats));
    memset(&t->latency, 0, sizeof(t->latency));
    t->ratios = 0;
    atomic_store(&t->cleared, request);
}

bool thread_check_clear(struct perf_thread *t)
{
    unsigned request = atomic_load_explicit(&t->perf->clear, memory_order_relaxed);

    if (likely(request == atomic_load_explicit(&t->cleared, memory_order_relaxed)))
        return false;
    clear_statistics(t, request);
    return true;
}

static bool is_stopped(const struct perf_thread *t)
{
    return atomic_load_explicit(&t->perf->stop, memory_order_relaxed);
}

/* The time of traffic, and the time since its last progress. */
struct meter {
    ns_t last, cpu;           /* accounted for up to then */
    ns_t cpu_read;            /* when the CPU time was read */
    uint64_t progress;        /* the counter's last value */
    unsigned idle;            /* consecutive polls without work */
    ns_t progressed, gave_up; /* when there was progress; when lost datagrams were given up */
};

static void account_cpu(struct perf_thread *t, struct meter *m)
{
    ns_t cpu = thread_cpu_time();

    counter_add(&t->stats.active_cpu_ns, cpu - m->cpu);
    m->cpu = cpu;
    m->cpu_read = m->last;
}

static void count_pause(struct perf_thread *t, ns_t pause)
{
    ns_t longest = counter_get(&t->stats.pause_longest);

    counter_inc(&t->stats.pauses);
    counter_add(&t->stats.pause_ns, pause);
    counter_set(&t->stats.pause_longest, max_of(longest, pause));
}

/* Reading the CPU time is a system call, so it is read once per millisecond. */
static void account_time(struct perf_thread *t, struct meter *m, ns_t now)
{
    if (unlikely(thread_check_clear(t))) {
        m->last = m->cpu_read = now;
        m->cpu = thread_cpu_time();
    }
    if (unlikely(now - m->last > PAUSE))
        count_pause(t, now - m->last);
    counter_add(&t->stats.active_ns, now - m->last);
    m->last = now;
    if (unlikely(now - m->cpu_read > NS_PER_MS))
        account_cpu(t, m);
}

static void check_progress(struct perf_thread *t, struct meter *m, ns_t now)
{
    uint64_t progress = counter_get(&t->stats.progress);

    if (likely(progress != m->progress)) {
        m->progress = progress;
        m->progressed = m->gave_up = now;
        return;
    }
    if (now - m->gave_up > LOST_AFTER) {
        m->gave_up = now;
        traffic_forget_lost(t);
        if (t->posting)
            traffic_fill(t);
    }
    if (now - m->progressed > STALL && t->outstanding)
        run_fail(t->perf, "no message has completed for %u s", (unsigned)(STALL / NS_PER_SEC));
}

static bool is_out_of_messages(const struct perf_thread *t)
{
    for (unsigned i = 0; i < t->senders; i++)
        if (t->sender[i]->quota)
            return false;
    return true;
}

/* Whether nothing is outstanding, including datagrams that were sent and have not arrived. */
static bool is_quiet(const struct perf_thread *t)
{
    if (t->outstanding)
        return false;
    for (unsigned i = 0; i < t->senders && t->perf->opt.mode == MODE_UD; i++)
        if (t->sender[i]->prod != atomic_load(&t->sender[i]->peer->recv_done))
            return false;
    return true;
}

/* A thread that waits for another one yields, in case they share a CPU. */
static void poll_once(struct perf_thread *t, struct meter *m, ns_t now)
{
    bool work = worker_poll(t->worker, now);

    work |= traffic_poll(t) > 0;
    m->idle = work ? 0 : m->idle + 1;
    if (unlikely(m->idle == IDLE_MAX)) {
        sched_yield();
        m->idle = 0;
    }
}

static void poll_and_account(struct perf_thread *t, struct meter *m)
{
    ns_t now = worker_time();

    account_time(t, m, now);
    poll_once(t, m, now);
    check_progress(t, m, now);
}

/* Runs until `until`, the stop, or the last message; then waits for what is outstanding. */
static void traffic_slice(struct perf_thread *t, ns_t until)
{
    struct meter m = {.last = worker_time(), .cpu = thread_cpu_time()};
    ns_t deadline;

    m.progressed = m.gave_up = m.cpu_read = m.last;
    m.progress = counter_get(&t->stats.progress);
    t->posting = true;
    if (t->perf->opt.rate)
        traffic_start(t);
    traffic_fill(t);
    while (!is_stopped(t) && m.last < until && (t->outstanding || !is_out_of_messages(t)))
        poll_and_account(t, &m);
    t->posting = false;
    deadline = m.last + STALL;
    while (!is_quiet(t) && m.last < deadline && !atomic_load(&t->perf->failed)) {
        poll_and_account(t, &m);
        traffic_flush(t);
    }
    account_time(t, &m, worker_time());
    account_cpu(t, &m);
}

struct point {
    uint64_t messages, cpu;
    unsigned cleared;
};

static struct point current_point(const struct perf_thread *t)
{
    return (struct point){counter_get(&t->stats.messages), counter_get(&t->stats.active_cpu_ns),
                          atomic_load(&t->cleared)};
}

/* Records the slice's rate relative to the floor's before and after it. */
static void record_ratio(struct perf_thread *t, struct point from, double before, double after)
{
    struct point to = current_point(t);
    double floor = (before + after) / 2, rate;

    if (to.cleared != from.cleared || to.cpu <= from.cpu || floor <= 0)
        return;
    rate = (double)(to.messages - from.messages) * 1e9 / (double)(to.cpu - from.cpu);
    t->ratio[t->ratios % RATIOS_MAX] = (float)(rate / floor);
    t->floor_rate[t->ratios++ % RATIOS_MAX] = (float)floor;
}

/* A worker whose peers are on other workers must not pause for the floor. It runs a single slice.
 */
static void run_traffic(struct perf_thread *t)
{
    double before = t->floor_first;

    /* Runs at least one slice, even if time is up before a CPU was free. */
    do {
        struct point from = current_point(t);
        double after;

        traffic_slice(t, before > 0 ? worker_time() + TRAFFIC_SLICE : NS_NEVER);
        if (before <= 0)
            continue;
        after = floor_measure(t, FLOOR_SLICE);
        record_ratio(t, from, before, after);
        before = after;
    } while (!is_stopped(t) && !is_out_of_messages(t));
}

/* Serves queue pairs here that other workers still send to. */
static void serve_others(struct perf_thread *t)
{
    struct meter m = {.last = worker_time(), .cpu = thread_cpu_time()};
    ns_t deadline = NS_NEVER;

    while (atomic_load(&t->perf->finished) < t->perf->started && m.last < deadline) {
        poll_once(t, &m, worker_time());
        if (!t->senders) {
            account_time(t, &m, worker_time());
        } else {
            m.last = worker_time();
            thread_check_clear(t);
        }
        if (is_stopped(t) && deadline == NS_NEVER)
            deadline = m.last + STALL;
    }
    if (!t->senders)
        account_cpu(t, &m);
}

void thread_ready(struct perf_thread *t)
{
    struct perf *p = t->perf;

    if (atomic_fetch_add(&p->ready, 1) + 1 == p->threads)
        atomic_store(&p->began, worker_time());
    while (atomic_load(&p->ready) < p->threads && !is_stopped(t))
        sched_yield();
}

void *thread_run(void *thread)
{
    struct perf_thread *t = thread;
    struct perf *p = t->perf;
    ns_t deadline = worker_time() + RTS_LIMIT;

    /* All threads start together. If one cannot start, the others stop. */
    while (!atomic_load(&p->start))
        sched_yield();
    if (!mode_has_engine(p->opt.mode)) {
        stage_run(t);
        return NULL;
    }
    /* The worker processes each queue pair once after its transition to RTS. */
    while (worker_poll(t->worker, worker_time()) && worker_time() < deadline)
        ;
    traffic_prepare(t);
    if (floor_applies(&p->opt) && t->closed && t->senders)
        t->floor_first = floor_measure(t, FLOOR_SLICE);
    thread_ready(t);
    if (t->senders)
        run_traffic(t);
    atomic_fetch_add(&p->finished, 1);
    serve_others(t);
    return NULL;
}
