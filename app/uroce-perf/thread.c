/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's thread: the dataplane's worker, and the application of its queue pairs, in turn, so
 * that no other thread needs a CPU. Traffic runs in slices. Between two slices, while nothing is
 * outstanding, the floor is measured on the same core.
 */
#include <sched.h>

#include "meter.h"
#include "peer/client.h"

#define LOST_AFTER (20 * NS_PER_MS)
#define RTS_LIMIT  NS_PER_SEC
#define IDLE_MAX   256

static bool is_stopped(const struct perf_thread *t)
{
    return atomic_load_explicit(&t->perf->stop, memory_order_relaxed);
}

/* A thread's traffic, and the time since its last progress. */
struct watch {
    struct meter meter;
    uint64_t progress;        /* the counter's last value */
    unsigned idle;            /* consecutive polls without work */
    ns_t progressed, gave_up; /* when there was progress; when lost datagrams were given up */
};

static void watch_begin(const struct perf_thread *t, struct watch *w)
{
    *w = (struct watch){.progress = counter_get(&t->stats.progress)};
    meter_begin(&w->meter);
    w->progressed = w->gave_up = w->meter.last;
}

static void check_progress(struct perf_thread *t, struct watch *w, ns_t now)
{
    uint64_t progress = counter_get(&t->stats.progress);

    if (likely(progress != w->progress)) {
        w->progress = progress;
        w->progressed = w->gave_up = now;
        return;
    }
    if (now - w->gave_up > LOST_AFTER) {
        w->gave_up = now;
        traffic_forget_lost(t);
        if (t->posting)
            traffic_fill(t);
    }
    if (!t->outstanding) /* the next message may be due much later */
        w->progressed = now;
    if (now - w->progressed > STALL)
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
static void poll_once(struct perf_thread *t, struct watch *w, ns_t now)
{
    bool work = worker_poll(t->worker, now);

    work |= traffic_poll(t) > 0;
    w->idle = work ? 0 : w->idle + 1;
    if (unlikely(w->idle == IDLE_MAX)) {
        sched_yield();
        w->idle = 0;
    }
}

static void poll_and_account(struct perf_thread *t, struct watch *w)
{
    ns_t now = worker_time();

    meter_turn(t, &w->meter, now);
    poll_once(t, w, now);
    check_progress(t, w, now);
}

/* Until nothing is outstanding. */
static void finish_messages(struct perf_thread *t, struct watch *w)
{
    ns_t deadline = w->meter.last + STALL;

    t->posting = false;
    while (!is_quiet(t) && w->meter.last < deadline && !atomic_load(&t->perf->failed)) {
        poll_and_account(t, w);
        traffic_flush(t);
    }
}

/* As many messages as there are slots, as fast as they can be sent: the first use of a page of
 * memory takes time, and messages that are due later would wait for it. They are not counted. */
static void touch_memory(struct perf_thread *t, struct watch *w)
{
    uint32_t slots = max_of(t->perf->out_slots, t->perf->in_slots);

    t->posting = true;
    traffic_fill(t);
    while (!is_stopped(t) && t->sender[0]->prod <= slots / t->senders)
        poll_and_account(t, w);
    finish_messages(t, w);
    meter_clear(t);
    watch_begin(t, w);
}

/* Runs until `until`, the stop, or the last message; then waits for what is outstanding. */
static void traffic_slice(struct perf_thread *t, ns_t until)
{
    const struct perf_options *o = &t->perf->opt;
    struct watch w;

    watch_begin(t, &w);
    if (o->rate && !o->messages && t->senders)
        touch_memory(t, &w);
    t->posting = true;
    if (o->rate)
        traffic_start(t);
    traffic_fill(t);
    while (!is_stopped(t) && w.meter.last < until && (t->outstanding || !is_out_of_messages(t)))
        poll_and_account(t, &w);
    finish_messages(t, &w);
    meter_end(t, &w.meter);
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
    ns_t deadline = NS_NEVER;
    struct watch w;

    watch_begin(t, &w);
    while (atomic_load(&t->perf->finished) < t->perf->started && w.meter.last < deadline) {
        poll_once(t, &w, worker_time());
        if (!t->senders) {
            meter_turn(t, &w.meter, worker_time());
        } else {
            w.meter.last = worker_time();
            meter_check_clear(t);
        }
        if (is_stopped(t) && deadline == NS_NEVER)
            deadline = w.meter.last + STALL;
    }
    if (!t->senders)
        meter_end(t, &w.meter);
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
    if (p->client) {
        client_run(t);
        return NULL;
    }
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
