/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a worker does when it finds nothing: the system calls behind poll_policy.h, and the arming
 * protocol. Before it sleeps it arms every word by which it can be woken, fences, and looks once
 * more at everything: whoever posts stores first, fences, then looks at the word, so one of both
 * sees the other.
 */
#include "worker_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SAFETY_TICK (100 * NS_PER_MS)
#define SAMPLE_NS   NS_PER_MS
#define CROWDED_NS  (20 * NS_PER_MS)
/* A port that cannot announce frames is looked at again after a tenth of the time it has been idle:
 * 50 us after a short pause (a quarter of a CPU), 4 ms in the long run (about one percent). */
#define NAP_MIN (50 * NS_PER_US)
#define NAP_MAX (4 * NS_PER_MS)
/* Nor does a port tell that there is room to send again. */
#define NAP_FULL   (50 * NS_PER_US)
#define NICE_EAGER -20

void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

bool futex_wait(_Atomic uint32_t *word, uint32_t value, ns_t timeout)
{
    struct timespec ts = {.tv_sec = (time_t)(timeout / NS_PER_SEC),
                          .tv_nsec = (long)(timeout % NS_PER_SEC)};

    return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout == NS_NEVER ? NULL : &ts, NULL, 0) ==
               0 ||
           atomic_load(word) != value;
}

void worker_kick(struct worker *w)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&w->armed, memory_order_relaxed) && atomic_exchange(&w->armed, 0)) {
        atomic_fetch_add(w->wake_word, 1);
        futex_wake(w->wake_word, 1);
    }
}

/* Tells applications where not to be. */
static void publish_place(struct worker *w)
{
    uint32_t cpu = poll_is_eager(&w->policy) ? PLACE_NOWHERE : (uint32_t)sched_getcpu();
    uint32_t place = worker_place(cpu, (uint32_t)counter_get(&w->stats.eager));

    if (w->place == place)
        return;
    w->place = place;
    for (unsigned i = 0; i < w->contexts; i++)
        atomic_store_explicit(&w->ctx[i]->shared->worker_place[w->index], place,
                              memory_order_relaxed);
}

/* Of all workers' counts the highest is the truth, and who did not poll since the last may have
 * been kept from it by the others: it counts for CROWDED_NS. */
static bool crowded(struct worker_group *g, ns_t now, unsigned spinners)
{
    if (spinners > atomic_load(&g->cpus))
        atomic_store_explicit(&g->crowded_until, now + CROWDED_NS, memory_order_relaxed);
    return now < atomic_load_explicit(&g->crowded_until, memory_order_relaxed);
}

/* Counts who polls and publishes how applications and this worker share the CPUs. */
static void sample_spinners(struct worker *w, ns_t now)
{
    unsigned spinners = atomic_load(&w->group->hot);

    if (now < w->next_sample)
        return;
    w->next_sample = now + SAMPLE_NS;
    publish_place(w);
    for (unsigned i = 0; i < w->contexts; i++) {
        struct worker_ctx *ctx = w->ctx[i];
        uint32_t polls = atomic_load_explicit(&ctx->shared->polls, memory_order_relaxed);

        spinners += polls != ctx->polls_seen;
        ctx->polls_seen = polls;
    }
    poll_set_crowded(&w->policy, crowded(w->group, now, spinners));
    for (unsigned i = 0; i < w->contexts; i++) {
        _Atomic uint32_t *limit = &w->ctx[i]->shared->spin_limit;

        /* Another worker may have been of another opinion. */
        if (atomic_load_explicit(limit, memory_order_relaxed) != w->policy.spin_limit)
            atomic_store_explicit(limit, w->policy.spin_limit, memory_order_relaxed);
    }
}

static void set_state(struct worker *w, enum worker_state state)
{
    atomic_store_explicit(&w->state, state, memory_order_relaxed);
}

/* A higher priority helps a sleeper to be put on the CPU at once; for a yielder it would be poison.
 * Without the privilege it stays as it is. */
static void boost(struct worker *w, bool eager)
{
    int tid;

    if (w->boosted == eager)
        return;
    tid = (int)syscall(SYS_gettid);
    if (eager)
        w->nice = getpriority(PRIO_PROCESS, (id_t)tid);
    setpriority(PRIO_PROCESS, (id_t)tid, eager ? NICE_EAGER : w->nice);
    w->boosted = eager;
}

static void yield(struct worker *w)
{
    ns_t before = worker_time(), after;

    sched_yield();
    after = worker_time();
    counter_inc(&w->stats.yields);
    poll_yielded(&w->policy, after, after - before);
    if (poll_is_eager(&w->policy)) {
        counter_inc(&w->stats.eager);
        boost(w, true);
    }
}

static void arm(struct worker *w)
{
    w->nap = false;
    atomic_store_explicit(&w->armed, 1, memory_order_relaxed);
    for (unsigned i = 0; i < w->contexts; i++)
        atomic_store_explicit(&w->ctx[i]->doorbells->worker_armed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static void disarm(struct worker *w)
{
    atomic_store_explicit(&w->armed, 0, memory_order_relaxed);
    for (unsigned i = 0; i < w->contexts; i++)
        atomic_store_explicit(&w->ctx[i]->doorbells->worker_armed, 0, memory_order_relaxed);
}

/* Lets the ports wake us. False: one has frames already, and they do not wait for another worker.
 */
static bool arm_ports(struct worker *w)
{
    for (unsigned i = 0; i < w->ports; i++) {
        struct worker_port *p = &w->port[i];

        if (!p->io->ops->wake_arm(p->io, p->queue)) {
            if (!w->tight)
                return false;
            w->nap = true;
        }
        if (p->source.fd >= 0)
            waker_arm(w->group->waker, &p->source);
    }
    return true;
}

/* How long to sleep at most; 0: not at all. */
static ns_t sleep_limit(struct worker *w, ns_t now)
{
    ns_t idle = now - w->policy.last_work;
    ns_t limit = w->nap ? NAP_FULL : SAFETY_TICK;

    for (unsigned i = 0; i < w->ports; i++) {
        ns_t timer = engine_next_timer(w->port[i].engine);

        limit = min_of(limit, timer > now ? timer - now : 0);
        if (w->port[i].must_poll)
            limit = min_of(limit, max_of(NAP_MIN, min_of(idle / 10, NAP_MAX)));
        if (w->port[i].full)
            limit = min_of(limit, NAP_FULL);
    }
    return limit;
}

static void sleep_now(struct worker *w, ns_t now)
{
    uint32_t value = atomic_load(w->wake_word);
    ns_t limit;

    arm(w);
    if (!arm_ports(w) || atomic_load(&w->stop) || worker_poll(w, now)) {
        disarm(w);
        worker_busy(w, now);
        return;
    }
    limit = sleep_limit(w, now);
    if (!limit) {
        disarm(w);
        return;
    }
    set_state(w, WORKER_ASLEEP);
    atomic_fetch_sub(&w->group->hot, 1);
    counter_inc(&w->stats.sleeps);
    if (futex_wait(w->wake_word, value, limit)) {
        counter_inc(&w->stats.wakes);
        /* Somebody wants something: look for a while. A tick that finds nothing goes back to sleep.
         */
        poll_worked(&w->policy, worker_time());
    } else {
        counter_inc(&w->stats.ticks);
    }
    atomic_fetch_add(&w->group->hot, 1);
    set_state(w, poll_is_eager(&w->policy) ? WORKER_EAGER : WORKER_HOT);
    disarm(w);
}

void worker_busy(struct worker *w, ns_t now)
{
    poll_worked(&w->policy, now);
    if (!poll_is_eager(&w->policy))
        boost(w, false);
    sample_spinners(w, now);
    if (poll_share(&w->policy, now))
        yield(w);
}

void worker_idle(struct worker *w, ns_t now)
{
    enum poll_step step = poll_empty(&w->policy, now);

    if (!poll_is_eager(&w->policy))
        boost(w, false);
    switch (step) {
    case POLL_SPIN:
        sample_spinners(w, now);
        __builtin_ia32_pause();
        break;
    case POLL_YIELD:
        sample_spinners(w, now);
        yield(w);
        break;
    case POLL_SLEEP:
        sleep_now(w, now);
        break;
    }
}
