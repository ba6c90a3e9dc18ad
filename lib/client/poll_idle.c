/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "client_cq.h"

/* A yield that takes longer than this went to somebody who did not yield back. */
#define YIELD_LONG_NS  (500 * NS_PER_US)
#define BLOCK_EPISODE  64
#define BLOCK_LIMIT_NS NS_PER_MS
/* So many other completion queues may be empty between two yields: a program has one for sends and
 * one for receives, seldom more than four, and its threads have each their own. */
#define ROUND_OTHERS 3
#define SPARE_MAX    15u /* when the dataplane does not ask for more */

static ns_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

/* Whether any completion queue of the context holds something. */
static bool any_completion(struct client *c)
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

/*
 * Sleeps until a completion or the time limit. One word serves the whole context, so one thread
 * waits; the others yield. Arming, fence, look again: with the dataplane's store, fence, look
 * at the word, one of the two sees the other.
 */
static void block(struct client *c)
{
    struct timespec limit = {.tv_nsec = BLOCK_LIMIT_NS};

    if (!spin_trylock(&c->idle.blocking)) {
        sched_yield();
        return;
    }
    atomic_store_explicit(&c->shared->app_armed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (!any_completion(c))
        syscall(SYS_futex, &c->shared->app_armed, FUTEX_WAIT, 1, &limit, NULL, 0);
    atomic_store_explicit(&c->shared->app_armed, 0, memory_order_relaxed);
    spin_unlock(&c->idle.blocking);
}

/*
 * Whether a yield that is due may wait: a program that looks at several completion queues in turn
 * has not looked at all of them until it comes back to the one with which it yielded last. With a
 * yield for each, whoever shares the processor would get it as many times before it is used.
 */
static bool within_round(struct client *c, const struct client_cq *cq)
{
    uint32_t passed = atomic_load_explicit(&c->idle.passed, memory_order_relaxed);

    if (cq->id != atomic_load_explicit(&c->idle.round, memory_order_relaxed) &&
        passed < ROUND_OTHERS) {
        atomic_store_explicit(&c->idle.passed, passed + 1, memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(&c->idle.round, cq->id, memory_order_relaxed);
    atomic_store_explicit(&c->idle.passed, 0, memory_order_relaxed);
    return false;
}

/* A yield that takes no longer than the shortest ones went to nobody: some looks can do without. */
static void learn(struct client *c, ns_t took)
{
    uint32_t spare = atomic_load_explicit(&c->idle.spare, memory_order_relaxed);
    uint32_t shortest = atomic_load_explicit(&c->idle.shortest, memory_order_relaxed);
    uint32_t spins = atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed);

    if (!shortest || took < shortest)
        atomic_store_explicit(&c->idle.shortest, shortest = (uint32_t)min_of(took, YIELD_LONG_NS),
                              memory_order_relaxed);
    spare = took < 2 * (ns_t)shortest ? min_of(2 * spare + 1, max_of(spins, SPARE_MAX)) : 0;
    atomic_store_explicit(&c->idle.spare, spare, memory_order_relaxed);
    if (took > YIELD_LONG_NS)
        atomic_store_explicit(&c->idle.block, BLOCK_EPISODE, memory_order_relaxed);
}

static void yield(struct client *c)
{
    ns_t start = now_ns(), end;

    sched_yield();
    end = now_ns();
    learn(c, end - start);
    client_place(c, end, end - start);
}

void client_poll_empty(const struct client_cq *cq)
{
    struct client *c = cq->client;
    uint32_t polls = atomic_load_explicit(&c->shared->polls, memory_order_relaxed);
    uint32_t left = atomic_load_explicit(&c->idle.block, memory_order_relaxed);
    uint32_t empties = atomic_load_explicit(&c->idle.empties, memory_order_relaxed) + 1;
    uint32_t spins = atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed);
    uint32_t spare = atomic_load_explicit(&c->idle.spare, memory_order_relaxed);

    /* The counts are hints: a lost increment between threads does no harm, an atomic add would. */
    atomic_store_explicit(&c->shared->polls, polls + 1, memory_order_relaxed);
    if (left) {
        atomic_store_explicit(&c->idle.block, left - 1, memory_order_relaxed);
        block(c);
        client_place(c, now_ns(), 0);
    } else if (empties <= min_of(spare, max_of(spins, SPARE_MAX))) {
        atomic_store_explicit(&c->idle.empties, empties, memory_order_relaxed);
        cpu_pause();
    } else if (!within_round(c, cq)) {
        atomic_store_explicit(&c->idle.empties, 0, memory_order_relaxed);
        yield(c);
    }
}
