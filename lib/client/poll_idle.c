/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "client_cq.h"

#define BLOCK_EPISODE  64 /* after a yield that went to somebody who did not yield back */
#define BLOCK_LIMIT_NS NS_PER_MS
/* So many other completion queues may be empty between two yields: a program has one for sends and
 * one for receives, seldom more than four, and its threads have each their own. */
#define ROUND_OTHERS 3

CLIENT_THREAD_LOCAL struct client_idle client_idle;

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

    if (!spin_trylock(&c->blocking)) {
        sched_yield();
        return;
    }
    atomic_store_explicit(&c->shared->app_armed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (!any_completion(c))
        syscall(SYS_futex, &c->shared->app_armed, FUTEX_WAIT, 1, &limit, NULL, 0);
    atomic_store_explicit(&c->shared->app_armed, 0, memory_order_relaxed);
    spin_unlock(&c->blocking);
}

/*
 * Whether a yield that is due may wait: a program that looks at several completion queues in turn
 * has not looked at all of them until it comes back to the one with which it yielded last. With a
 * yield for each, whoever shares the processor would get it as many times before it is used.
 */
static bool within_round(const struct client_cq *cq)
{
    if (cq != client_idle.round && client_idle.passed < ROUND_OTHERS) {
        client_idle.passed++;
        return true;
    }
    client_idle.round = cq;
    client_idle.passed = 0;
    return false;
}

static void yield(struct client *c, uint32_t spins)
{
    ns_t start = now_ns(), end;

    sched_yield();
    end = now_ns();
    yield_learn(&client_idle.yields, spins, end - start);
    if (end - start > YIELD_LONG_NS)
        client_idle.block = BLOCK_EPISODE;
    client_place(c, end, end - start);
}

void client_poll_empty(const struct client_cq *cq)
{
    struct client *c = cq->client;
    uint32_t polls = atomic_load_explicit(&c->shared->polls, memory_order_relaxed);
    uint32_t spins = atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed);

    /* A hint: an increment lost between threads does no harm, an atomic add would. */
    atomic_store_explicit(&c->shared->polls, polls + 1, memory_order_relaxed);
    if (client_idle.block) {
        client_idle.block--;
        block(c);
        client_place(c, now_ns(), 0);
    } else if (++client_idle.empties <= yield_after(&client_idle.yields, spins)) {
        cpu_pause();
    } else if (within_round(cq)) {
        cpu_pause();
    } else {
        client_idle.empties = 0;
        yield(c, spins);
    }
}
