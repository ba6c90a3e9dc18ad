/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CPU on which a thread polls, when it shares few CPUs with the dataplane. All programs wait
 * for the workers, so a worker does best with a CPU of its own, and the programs with the other
 * CPUs: each yields while it waits, and the others run in that time. The kernel does not know that
 * and puts worker and programs on any CPU.
 *
 * So a thread that has polled on a worker's CPU for a while moves to another: it restricts its
 * affinity to CPUs without a worker, and then restores it, so that the scheduler is as free as
 * before. It stays when a thread that does not yield uses the worker's CPU, and returns when one
 * uses the CPU to which it has moved: the worker can share a CPU with such a thread, because it
 * sleeps and is woken, and a thread that polls cannot.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define WATCH_MIN    (5 * NS_PER_MS) /* time on the same worker's CPU before the thread moves */
#define WATCH_MAX    NS_PER_SEC
#define WATCH_YIELDS 16 /* yields in that time, at least: the thread does yield */
#define STAY_WATCHES 20 /* a thread that is back before this many watches waits longer */
#define SQUEEZED_NS                                                               \
    NS_PER_MS /* a yield that took this long went to a thread that does not yield \
               */

/* Per thread. The dataplane is that of the context through which the thread polls. */
static CLIENT_THREAD_LOCAL struct {
    uint32_t worker_cpu;  /* as published by the worker whose CPU the thread shares; 0: none */
    uint32_t yields;      /* since then */
    ns_t since, last;     /* the first of these yields, the last one */
    ns_t watch, moved_at; /* time to wait before the next move; the last move */
    uint32_t moved_from;  /* worker_cpu that the thread left; 0: none */
} here;

static atomic_bool stay; /* decided by the environment, each time that a device is opened */

int client_cpu_policy_read(void)
{
    const char *text = getenv(CLIENT_CPU_ENV);
    bool stays = text && !strcmp(text, "stay");

    if (!stays && text && *text && strcmp(text, "auto")) {
        fprintf(stderr,
                "uroce: " CLIENT_CPU_ENV "=%s is neither stay nor auto (the default): no device "
                "can be opened\n",
                text);
        return -EINVAL;
    }
    atomic_store_explicit(&stay, stays, memory_order_relaxed);
    return 0;
}

/* What a worker on this CPU has published; 0: no worker is there. */
static uint32_t worker_cpu_on(const struct client *c, uint32_t cpu)
{
    for (uint32_t i = 0; i < c->workers; i++) {
        uint32_t published = atomic_load_explicit(&c->shared->worker_cpu[i], memory_order_relaxed);

        if (published && worker_cpu_number(published) == cpu)
            return published;
    }
    return 0;
}

/* The kernel keeps a mask as it was set: a thread that may use all CPUs asks for every possible
 * one, so that it may also use those that the machine gets later. */
static void restore_affinity(const cpu_set_t *before)
{
    cpu_set_t all;

    memset(&all, 0xFF, sizeof(all));
    if (CPU_COUNT(before) < sysconf(_SC_NPROCESSORS_CONF) &&
        !sched_setaffinity(0, sizeof(*before), before))
        return;
    sched_setaffinity(0, sizeof(all), &all); /* also when no CPU of `before` is left */
}

/* Moves the thread to one of these CPUs, if it may use any, and restores its affinity, unless
 * another thread has changed that in the meantime. */
static void move_to(const cpu_set_t *where)
{
    cpu_set_t before, to, now;

    if (sched_getaffinity(0, sizeof(before), &before))
        return;
    CPU_AND(&to, &before, where);
    if (!CPU_COUNT(&to) || sched_setaffinity(0, sizeof(to), &to))
        return;
    if (!sched_getaffinity(0, sizeof(now), &now) && CPU_EQUAL(&now, &to))
        restore_affinity(&before);
}

static void move_off_workers(const struct client *c)
{
    cpu_set_t others;

    CPU_ZERO(&others);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (!worker_cpu_on(c, cpu))
            CPU_SET(cpu, &others);
    move_to(&others);
}

static void move_back(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(worker_cpu_number(here.moved_from), &one);
    move_to(&one);
}

static void restart_watch(ns_t now, uint32_t worker_cpu)
{
    here.worker_cpu = worker_cpu;
    here.since = now;
    here.yields = 0;
}

static bool moved_lately(ns_t now)
{
    return here.moved_from && now - here.moved_at < STAY_WATCHES * here.watch;
}

/* A thread that the scheduler has put back soon after its last move waits longer each time. */
static void leave_worker_cpu(const struct client *c, ns_t now)
{
    here.watch = moved_lately(now) ? min_of(2 * here.watch, WATCH_MAX) : 2 * WATCH_MIN;
    here.moved_at = now;
    here.moved_from = here.worker_cpu;
    move_off_workers(c);
    restart_watch(now, 0);
}

static void return_to_worker_cpu(ns_t now)
{
    move_back();
    here.moved_at = now;
    here.watch = WATCH_MAX;
    restart_watch(now, 0);
}

void client_choose_cpu(struct client *c, ns_t now, ns_t took)
{
    ns_t pause = now - here.last, watch = moved_lately(now) ? here.watch : WATCH_MIN;
    uint32_t worker_cpu;

    if (atomic_load_explicit(&stay, memory_order_relaxed) ||
        atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed))
        return;
    here.last = now;
    if (took > SQUEEZED_NS && moved_lately(now)) {
        return_to_worker_cpu(now);
        return;
    }
    worker_cpu = worker_cpu_on(c, (uint32_t)sched_getcpu());
    if (!worker_cpu || worker_cpu != here.worker_cpu || pause > WATCH_MIN)
        restart_watch(now, worker_cpu);
    else if (++here.yields >= WATCH_YIELDS && now - here.since >= watch)
        leave_worker_cpu(c, now);
}
