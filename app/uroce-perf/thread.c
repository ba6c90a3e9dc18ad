/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's thread: the dataplane's worker and the application of its queue pairs in turn, so that
 * nothing else wants a CPU. Traffic in slices; between two of them, when nothing is outstanding,
 * the floor is measured on the same core.
 */
#include "perf.h"

#include <sched.h>
#include <string.h>

#define LOST_AFTER (20 * NS_PER_MS)
#define SETTLE     NS_PER_SEC
#define IDLE_MAX   256

static void clear(struct perf_thread *t, unsigned request)
{
    memset(&t->stats, 0, sizeof(t->stats));
    memset(&t->latency, 0, sizeof(t->latency));
    t->ratios = 0;
    atomic_store(&t->cleared, request);
}

bool thread_look_for_clear(struct perf_thread *t)
{
    unsigned request = atomic_load_explicit(&t->perf->clear, memory_order_relaxed);

    if (likely(request == atomic_load_explicit(&t->cleared, memory_order_relaxed)))
        return false;
    clear(t, request);
    return true;
}

static bool is_stopped(const struct perf_thread *t)
{
    return atomic_load_explicit(&t->perf->stop, memory_order_relaxed);
}

/* Time that was spent on traffic, and when nothing has come for long. */
struct meter {
    ns_t last, cpu;           /* accounted for until then */
    ns_t asked;               /* when the CPU time was asked for */
    uint64_t progress;        /* as it was */
    unsigned idle;            /* looks in vain, one behind the other */
    ns_t progressed, gave_up; /* when there was some */
};

static void account_cpu(struct perf_thread *t, struct meter *m)
{
    ns_t cpu = thread_cpu_time();

    counter_add(&t->stats.active_cpu_ns, cpu - m->cpu);
    m->cpu = cpu;
    m->asked = m->last;
}

/* The CPU time's clock is a system call. */
static void account(struct perf_thread *t, struct meter *m, ns_t now)
{
    if (unlikely(thread_look_for_clear(t))) {
        m->last = m->asked = now;
        m->cpu = thread_cpu_time();
    }
    counter_add(&t->stats.active_ns, now - m->last);
    m->last = now;
    if (unlikely(now - m->asked > NS_PER_MS))
        account_cpu(t, m);
}

static void look_for_progress(struct perf_thread *t, struct meter *m, ns_t now)
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

/* Also datagrams that were sent and did not come yet. */
static bool is_quiet(const struct perf_thread *t)
{
    if (t->outstanding)
        return false;
    for (unsigned i = 0; i < t->senders && t->perf->opt.mode == MODE_UD; i++)
        if (t->sender[i]->prod != atomic_load(&t->sender[i]->peer->recv_done))
            return false;
    return true;
}

/* Who waits for another thread lets it have the CPU, should they share one. */
static void look(struct perf_thread *t, struct meter *m, ns_t now)
{
    bool work = worker_poll(t->worker, now);

    work |= traffic_poll(t) > 0;
    m->idle = work ? 0 : m->idle + 1;
    if (unlikely(m->idle == IDLE_MAX)) {
        sched_yield();
        m->idle = 0;
    }
}

static void turn(struct perf_thread *t, struct meter *m)
{
    ns_t now = worker_time();

    account(t, m, now);
    look(t, m, now);
    look_for_progress(t, m, now);
}

/* Until `until`, the stop, or the last message; then what is outstanding comes in. */
static void traffic_slice(struct perf_thread *t, ns_t until)
{
    struct meter m = {.last = worker_time(), .cpu = thread_cpu_time()};
    ns_t deadline;

    m.progressed = m.gave_up = m.asked = m.last;
    m.progress = counter_get(&t->stats.progress);
    t->posting = true;
    traffic_fill(t);
    while (!is_stopped(t) && m.last < until && (t->outstanding || !is_out_of_messages(t)))
        turn(t, &m);
    t->posting = false;
    deadline = m.last + STALL;
    while (!is_quiet(t) && m.last < deadline && !atomic_load(&t->perf->failed)) {
        turn(t, &m);
        traffic_flush(t);
    }
    account(t, &m, worker_time());
    account_cpu(t, &m);
}

struct point {
    uint64_t messages, cpu;
    unsigned cleared;
};

static struct point here(const struct perf_thread *t)
{
    return (struct point){counter_get(&t->stats.messages), counter_get(&t->stats.active_cpu_ns),
                          atomic_load(&t->cleared)};
}

/* The slice's rate against the floor's before and after it. */
static void keep_ratio(struct perf_thread *t, struct point from, double before, double after)
{
    struct point to = here(t);
    double floor = (before + after) / 2, rate;

    if (to.cleared != from.cleared || to.cpu <= from.cpu || floor <= 0)
        return;
    rate = (double)(to.messages - from.messages) * 1e9 / (double)(to.cpu - from.cpu);
    t->ratio[t->ratios % RATIOS_MAX] = (float)(rate / floor);
    t->floor_rate[t->ratios++ % RATIOS_MAX] = (float)floor;
}

/* A worker that somebody elsewhere waits for must not stop for the floor: then there is one slice.
 */
static void run_traffic(struct perf_thread *t)
{
    double before = t->floor_first;

    /* At least one slice, also when time is up before a CPU was free. */
    do {
        struct point from = here(t);
        double after;

        traffic_slice(t, before > 0 ? worker_time() + TRAFFIC_SLICE : NS_NEVER);
        if (before <= 0)
            continue;
        after = floor_measure(t, FLOOR_SLICE);
        keep_ratio(t, from, before, after);
        before = after;
    } while (!is_stopped(t) && !is_out_of_messages(t));
}

/* Others may still send to queue pairs here. */
static void serve_others(struct perf_thread *t)
{
    struct meter m = {.last = worker_time(), .cpu = thread_cpu_time()};
    ns_t deadline = NS_NEVER;

    while (atomic_load(&t->perf->finished) < t->perf->started && m.last < deadline) {
        look(t, &m, worker_time());
        if (!t->senders) {
            account(t, &m, worker_time());
        } else {
            m.last = worker_time();
            thread_look_for_clear(t);
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
    ns_t deadline = worker_time() + SETTLE;

    /* No thread runs ahead; those that cannot come make the others stop. */
    while (!atomic_load(&p->start))
        sched_yield();
    if (!mode_has_engine(p->opt.mode)) {
        stage_run(t);
        return NULL;
    }
    /* Each queue pair that came to RTS is looked at once. */
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
