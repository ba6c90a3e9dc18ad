/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's thread. It repeats worker_poll(); between two passes it goes on at once, yields its
 * CPU or sleeps, as poll_policy.h decides.
 *
 * Before it sleeps it arms every word by which it can be woken, fences, and makes one more pass. A
 * thread that posts work stores it, fences, then loads the word. So either the worker sees the
 * work, or that thread sees the word armed, and writes its eventfd (worker_wake.c).
 */
#include "worker_internal.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAFETY_TICK (100 * NS_PER_MS)
#define SAMPLE_NS   NS_PER_MS
#define CROWDED_NS  (20 * NS_PER_MS)
/* A port that cannot wake the worker is polled again after a tenth of the time it has been idle: 50
 * us after a short pause (a quarter of a CPU), 4 ms in the long run (about one percent). */
#define POLLED_SLEEP_MIN (50 * NS_PER_US)
#define POLLED_SLEEP_MAX (4 * NS_PER_MS)
/* No port reports that it has room to send again, and no worker that its ring has. */
#define SHORT_SLEEP    (50 * NS_PER_US)
#define NICE_CONTENDED -20

/* Publishes this worker's CPU, so that applications poll on others. */
static void publish_cpu(struct worker *w)
{
    uint32_t cpu = poll_is_contended(&w->policy) ? WORKER_CPU_NONE : (uint32_t)sched_getcpu();
    uint32_t packed = worker_cpu_pack(cpu, (uint32_t)counter_get(&w->stats.contended));

    if (w->cpu == packed)
        return;
    w->cpu = packed;
    for (unsigned i = 0; i < w->contexts; i++)
        atomic_store_explicit(&w->ctx[i]->shared->worker_cpu[w->index], packed,
                              memory_order_relaxed);
}

/* Whether more threads poll than there are CPUs. The highest of all workers' counts is right, and a
 * thread that did not poll since the last sample may have been waiting for a CPU: a count above the
 * limit holds for CROWDED_NS. */
static bool is_crowded(struct worker_group *g, ns_t now, unsigned pollers)
{
    if (pollers > atomic_load(&g->cpus))
        atomic_store_explicit(&g->crowded_until, now + CROWDED_NS, memory_order_relaxed);
    return now < atomic_load_explicit(&g->crowded_until, memory_order_relaxed);
}

/* Every SAMPLE_NS: counts the threads that poll, and sets by that how long this worker and the
 * applications poll between two yields. */
static void sample_pollers(struct worker *w, ns_t now)
{
    unsigned pollers = atomic_load(&w->group->polling);

    if (now < w->next_sample)
        return;
    w->next_sample = now + SAMPLE_NS;
    worker_sample_faults(w, now);
    worker_cool_contexts(w, now);
    publish_cpu(w);
    for (unsigned i = 0; i < w->contexts; i++) {
        struct worker_ctx *ctx = w->ctx[i];
        uint32_t polls = atomic_load_explicit(&ctx->shared->polls, memory_order_relaxed);

        pollers += polls != ctx->polls_seen;
        ctx->polls_seen = polls;
    }
    poll_set_crowded(&w->policy, is_crowded(w->group, now, pollers));
    for (unsigned i = 0; i < w->contexts; i++) {
        _Atomic uint32_t *limit = &w->ctx[i]->shared->spin_limit;

        /* Another worker may have published another limit. */
        if (atomic_load_explicit(limit, memory_order_relaxed) != w->policy.spin_limit)
            atomic_store_explicit(limit, w->policy.spin_limit, memory_order_relaxed);
    }
}

static void set_state(struct worker *w, enum worker_state state)
{
    atomic_store_explicit(&w->state, state, memory_order_relaxed);
}

/* A thread that sleeps gets the CPU sooner after a wakeup when its priority is high; a thread that
 * yields would keep the CPU from others. Without the privilege nothing changes. */
static void set_boost(struct worker *w, bool boosted)
{
    int tid;

    if (w->boosted == boosted)
        return;
    tid = (int)syscall(SYS_gettid);
    if (boosted)
        w->nice = getpriority(PRIO_PROCESS, (id_t)tid);
    setpriority(PRIO_PROCESS, (id_t)tid, boosted ? NICE_CONTENDED : w->nice);
    w->boosted = boosted;
}

static void yield_cpu(struct worker *w)
{
    ns_t before = worker_time(), after;

    worker_lend(w, NS_NEVER); /* it polls then, whatever there is */
    sched_yield();
    after = worker_time();
    worker_take_back(w);
    counter_inc(&w->stats.yields);
    poll_yielded(&w->policy, after, after - before);
    if (poll_is_contended(&w->policy)) {
        counter_inc(&w->stats.contended);
        set_boost(w, true);
    }
}

static void after_work(struct worker *w, ns_t now)
{
    poll_found_work(&w->policy, now);
    if (!poll_is_contended(&w->policy))
        set_boost(w, false);
    sample_pollers(w, now);
    if (poll_should_share(&w->policy, now))
        yield_cpu(w);
}

static void arm_wakeups(struct worker *w)
{
    w->sleep_short = false;
    atomic_store_explicit(&w->armed, 1, memory_order_relaxed);
    worker_arm_contexts(w, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

static void disarm_wakeups(struct worker *w)
{
    atomic_store_explicit(&w->armed, 0, memory_order_relaxed);
    worker_arm_contexts(w, 0);
}

/* Lets the ports wake the worker. False: a port has frames already, and reception is not paused for
 * another worker (worker_pauses_rx). */
static bool arm_ports(struct worker *w)
{
    for (unsigned i = 0; i < w->ports; i++) {
        struct worker_port *p = &w->port[i];

        if (!p->io->ops->wake_arm(p->io, p->queue)) {
            if (!w->half_full)
                return false;
            w->sleep_short = true;
        }
    }
    return true;
}

/* The longest sleep that timers, ports and forwarded frames allow; 0: none. */
static ns_t sleep_limit(struct worker *w, ns_t now)
{
    ns_t idle = now - w->policy.last_work;
    ns_t limit = w->sleep_short ? SHORT_SLEEP : SAFETY_TICK;

    for (unsigned i = 0; i < w->ports; i++) {
        ns_t timer = engine_next_timer(w->port[i].engine);

        limit = min_of(limit, timer > now ? timer - now : 0);
        if (w->port[i].must_poll)
            limit = min_of(limit, max_of(POLLED_SLEEP_MIN, min_of(idle / 10, POLLED_SLEEP_MAX)));
        if (w->port[i].tx_full)
            limit = min_of(limit, SHORT_SLEEP);
    }
    return limit;
}

static void sleep_until_woken(struct worker *w, ns_t now)
{
    ns_t limit;
    bool woken;

    arm_wakeups(w);
    if (!arm_ports(w) || atomic_load(&w->stop) || worker_poll(w, now)) {
        disarm_wakeups(w);
        after_work(w, now);
        return;
    }
    limit = sleep_limit(w, now);
    if (!limit) {
        disarm_wakeups(w);
        return;
    }
    set_state(w, WORKER_ASLEEP);
    atomic_fetch_sub(&w->group->polling, 1);
    counter_inc(&w->stats.sleeps);
    worker_lend(w, now + limit);
    woken = worker_sleep(w, now, limit);
    worker_take_back(w);
    if (woken) {
        counter_inc(&w->stats.wakes);
        /* Work is near: poll for a while. After a tick the worker goes back to sleep, unless it
         * finds work. */
        poll_found_work(&w->policy, worker_time());
    } else {
        counter_inc(&w->stats.ticks);
    }
    atomic_fetch_add(&w->group->polling, 1);
    set_state(w, poll_is_contended(&w->policy) ? WORKER_CONTENDED : WORKER_POLLING);
    disarm_wakeups(w);
}

static void after_empty_pass(struct worker *w, ns_t now)
{
    enum poll_step step = poll_empty(&w->policy, now);

    if (!poll_is_contended(&w->policy))
        set_boost(w, false);
    switch (step) {
    case POLL_SPIN:
        sample_pollers(w, now);
        cpu_pause();
        break;
    case POLL_YIELD:
        sample_pollers(w, now);
        yield_cpu(w);
        break;
    case POLL_SLEEP:
        sleep_until_woken(w, now);
        break;
    }
}

static void worker_loop(struct worker *w)
{
    poll_policy_init(&w->policy, worker_time());
    w->policy.always = w->always_poll;
    atomic_fetch_add(&w->group->polling, 1);
    atomic_store(&w->running, 1);
    futex_wake(&w->running, 1);
    while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
        ns_t now = worker_time();

        if (worker_poll(w, now))
            after_work(w, now);
        else
            after_empty_pass(w, now);
    }
    atomic_fetch_sub(&w->group->polling, 1);
}

/* After it, on the thread that carried it. */
static void worker_ended(struct worker *w)
{
    atomic_store(&w->running, 0);
    /* The control thread may have seen `running` and left a command. */
    worker_run_command(w);
    atomic_store(&w->ended, 1);
    futex_wake(&w->ended, 1);
}

void *worker_run(void *worker)
{
    carrier_run(worker, worker_loop, worker_ended);
    return NULL;
}
