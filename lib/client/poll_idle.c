/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread does after an empty poll: pause, yield or sleep; and notice that the daemon is
 * gone. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "client_cq.h"
#include "client_end.h"

#define BLOCKING_POLLS 64 /* after a yield to a thread that did not yield in turn */
/* Of the first sleep after a completion or a peer's WRITE, and of all. What the thread waits for
 * may be neither, but another process's store. So a sleep lasts as long as nothing has come so
 * far. */
#define BLOCK_FIRST_NS (50 * NS_PER_US)
#define BLOCK_LIMIT_NS (400 * NS_PER_US)
/* The empty polls of other completion queues for which a yield may wait. A thread polls one queue
 * for sends and one for receives, seldom more than four. */
#define ROUND_OTHERS 3

/* The interval of looks at the connection. While the thread only pauses, it reads a clock at every
 * eighth empty poll: a program may sleep between its polls. */
#define LOOK_NS    (100 * NS_PER_MS)
#define LOOK_POLLS 8

CLIENT_THREAD_LOCAL struct client_idle client_idle;

static ns_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

static ns_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Whether the daemon is gone, as far as the last look shows. */
static bool look_for_daemon(struct client *c, ns_t now)
{
    if (likely(now < atomic_load_explicit(&c->next_look, memory_order_relaxed)))
        return false;
    atomic_store_explicit(&c->next_look, now + LOOK_NS, memory_order_relaxed);
    return client_daemon_gone(c);
}

/* Whether a completion waits in any queue of the context. */
static bool any_completion_waits(struct client *c)
{
    bool found = false;

    pthread_mutex_lock(&c->cqs.lock);
    for (uint32_t i = 0; i < c->cqs.used && !found; i++) {
        struct client_cq *cq =
            atomic_load_explicit(&slot_at(&c->cqs, i)->object, memory_order_acquire);

        found = cq && client_cq_pending(cq);
    }
    pthread_mutex_unlock(&c->cqs.lock);
    return found;
}

/* How long the next sleep may last. empty_polls counts the sleeps: a completion makes it 0. */
static ns_t sleep_limit(void)
{
    uint32_t sleeps = client_idle.empty_polls++;

    return sleeps < 3 ? BLOCK_FIRST_NS << sleeps : BLOCK_LIMIT_NS;
}

/*
 * Whether peers have changed the application's memory since the last call for this context. The
 * application looks at its memory between two calls, so nothing of that is news for it afterwards.
 */
static bool memory_changed(const struct client *c)
{
    uint32_t writes = 0;
    bool changed;

    for (uint32_t i = 0; i < c->workers; i++)
        writes += atomic_load_explicit(&c->shared->worker[i].writes, memory_order_relaxed);
    changed = client_idle.written == c && client_idle.writes != writes;
    client_idle.written = c;
    client_idle.writes = writes;
    return changed;
}

/*
 * Sleeps until a completion arrives or the time limit is reached. One word serves the whole
 * context, so one thread sleeps and the others yield. The thread arms the word, fences, and polls
 * once more; the dataplane stores completions, counts WRITEs, fences, and loads the word. So either
 * the thread sees the completion or the count, or the dataplane sees the word armed.
 */
static void sleep_for_completion(struct client *c)
{
    struct timespec limit = {.tv_nsec = (long)sleep_limit()};
    bool changed;

    if (!spin_trylock(&c->blocking)) {
        sched_yield();
        return;
    }
    atomic_store_explicit(&c->shared->app_armed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    changed = memory_changed(c);
    if (!changed && !any_completion_waits(c))
        syscall(SYS_futex, &c->shared->app_armed, FUTEX_WAIT, 1, &limit, NULL, 0);
    if (memory_changed(c) || changed)
        client_idle.empty_polls = 0;
    atomic_store_explicit(&c->shared->app_armed, 0, memory_order_relaxed);
    spin_unlock(&c->blocking);
}

/*
 * Whether a yield that is due may wait. A thread that polls several completion queues in turn has
 * polled all of them when it comes back to the one after which it yielded last. One yield for each
 * queue would give the CPU away several times before the thread has used it.
 */
static bool yield_may_wait(const struct client_cq *cq)
{
    if (cq != client_idle.round && client_idle.round_others < ROUND_OTHERS) {
        client_idle.round_others++;
        return true;
    }
    client_idle.round = cq;
    client_idle.round_others = 0;
    return false;
}

/* Returns the time. */
static ns_t yield_cpu(struct client *c, uint32_t spin_limit)
{
    ns_t start = now_ns(), end;

    sched_yield();
    end = now_ns();
    yield_learn(&client_idle.yields, spin_limit, end - start);
    if (end - start > YIELD_LONG_NS)
        client_idle.blocking_polls = BLOCKING_POLLS;
    client_choose_cpu(c, end, end - start);
    return end;
}

static __attribute__((cold, noinline)) void note_watch(struct client *c)
{
    if (c->watch_changed)
        c->watch_changed(c);
}

bool client_poll_empty(const struct client_cq *cq)
{
    struct client *c = cq->client;
    uint32_t polls = atomic_load_explicit(&c->shared->polls, memory_order_relaxed);
    uint32_t spin_limit = atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed);
    uint32_t watch = atomic_load_explicit(&c->shared->watch, memory_order_relaxed);
    ns_t now;

    if (unlikely(watch != atomic_load_explicit(&c->watched, memory_order_relaxed)))
        note_watch(c);
    if (unlikely(atomic_load_explicit(&c->daemon_gone, memory_order_acquire)))
        return true;
    /* A hint: an increment that two threads lose does no harm, and an atomic add costs too much. */
    atomic_store_explicit(&c->shared->polls, polls + 1, memory_order_relaxed);
    if (client_idle.blocking_polls) {
        sleep_for_completion(c);
        if (!--client_idle.blocking_polls)
            client_idle.empty_polls = 0;
        now = now_ns();
        client_choose_cpu(c, now, 0);
        return look_for_daemon(c, now);
    }
    if (++client_idle.empty_polls <= yield_after(&client_idle.yields, spin_limit)) {
        cpu_pause();
        return !(client_idle.empty_polls % LOOK_POLLS) &&
               look_for_daemon(c, clock_ns(CLOCK_MONOTONIC_COARSE));
    }
    if (yield_may_wait(cq)) {
        cpu_pause();
        return false;
    }
    client_idle.empty_polls = 0;
    return look_for_daemon(c, yield_cpu(c, spin_limit));
}
