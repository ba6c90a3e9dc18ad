/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "client_cq.h"

/* A yield that takes longer than this went to somebody who did not yield back. */
#define YIELD_LONG_NS  (100 * NS_PER_US)
#define BLOCK_EPISODE  64
#define BLOCK_LIMIT_NS NS_PER_MS

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

void client_poll_empty(struct client *c)
{
    uint32_t polls = atomic_load_explicit(&c->shared->polls, memory_order_relaxed);
    uint32_t left = atomic_load_explicit(&c->idle.block, memory_order_relaxed);
    uint32_t empties = atomic_load_explicit(&c->idle.empties, memory_order_relaxed) + 1;
    ns_t start;

    /* The counts are hints: a lost increment between threads does no harm, an atomic add would. */
    atomic_store_explicit(&c->shared->polls, polls + 1, memory_order_relaxed);
    if (left) {
        atomic_store_explicit(&c->idle.block, left - 1, memory_order_relaxed);
        block(c);
        return;
    }
    if (empties <= atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed)) {
        atomic_store_explicit(&c->idle.empties, empties, memory_order_relaxed);
        cpu_pause();
        return;
    }
    atomic_store_explicit(&c->idle.empties, 0, memory_order_relaxed);
    start = now_ns();
    sched_yield();
    if (now_ns() - start > YIELD_LONG_NS)
        atomic_store_explicit(&c->idle.block, BLOCK_EPISODE, memory_order_relaxed);
}
