/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a thread polls that shares few processors with the dataplane. All programs wait for the
 * worker, so it does best with a processor of its own, and the programs with what is left: each
 * yields while it waits, and what it waits for is done meanwhile. Left alone the kernel puts them
 * together as it comes.
 *
 * So a thread that has polled on the worker's processor for a while steps aside: it lets itself be
 * put on another one, and then lifts the restriction, so that the kernel is as free as before. Not
 * when somebody keeps the worker from its processor, or anybody where the thread went: who computes
 * or polls its memory does not yield, and then it is the worker that has to share (it sleeps and is
 * woken, which a thread that polls cannot).
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define WATCH_MIN    (5 * NS_PER_MS) /* how long it has to be the same before we go */
#define WATCH_MAX    NS_PER_SEC
#define WATCH_YIELDS 16        /* so many in that time: we do yield */
#define STAY_WATCHES 20        /* who is back sooner waits for longer the next time */
#define SQUEEZED_NS  NS_PER_MS /* a yield that took so long went to one who does not */

/* A thread's own. The dataplane is that of the context through which it polls. */
static CLIENT_THREAD_LOCAL struct {
    uint32_t place, yields; /* the worker with which we share a processor; yields since */
    ns_t since, last;       /* the first of these yields, the last one */
    ns_t watch, left;
    uint32_t left_to; /* the place that was left; 0: none */
} here;

static bool stay; /* decided by the environment */

int client_place_read(void)
{
    const char *text = getenv(CLIENT_PLACE_ENV);

    stay = text && !strcmp(text, "stay");
    if (!stay && text && *text && strcmp(text, "auto")) {
        fprintf(stderr, "uroce: " CLIENT_PLACE_ENV "=%s is neither auto nor stay\n", text);
        return -EINVAL;
    }
    return 0;
}

/* The place of a worker on this processor; 0: there is none. */
static uint32_t shared_place(const struct client *c, uint32_t cpu)
{
    for (uint32_t i = 0; i < c->workers; i++) {
        uint32_t place = atomic_load_explicit(&c->shared->worker_place[i], memory_order_relaxed);

        if (place && place_cpu(place) == cpu)
            return place;
    }
    return 0;
}

/* The thread may go where it could before. The kernel remembers what was asked for: who may use all
 * processors gets those too that the machine gets later. */
static void lift(const cpu_set_t *before)
{
    cpu_set_t all;

    memset(&all, 0xFF, sizeof(all));
    if (CPU_COUNT(before) < sysconf(_SC_NPROCESSORS_CONF) &&
        !sched_setaffinity(0, sizeof(*before), before))
        return;
    sched_setaffinity(0, sizeof(all), &all); /* also when all that was allowed has gone meanwhile */
}

/* To one of these processors, of those that it may use, for a moment; unless it is told where to be
 * by somebody else meanwhile. */
static void go(const cpu_set_t *where)
{
    cpu_set_t before, to, now;

    if (sched_getaffinity(0, sizeof(before), &before))
        return;
    CPU_AND(&to, &before, where);
    if (!CPU_COUNT(&to) || sched_setaffinity(0, sizeof(to), &to))
        return;
    if (!sched_getaffinity(0, sizeof(now), &now) && CPU_EQUAL(&now, &to))
        lift(&before);
}

static void step_aside(const struct client *c)
{
    cpu_set_t others;

    CPU_ZERO(&others);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (!shared_place(c, cpu))
            CPU_SET(cpu, &others);
    go(&others);
}

static void step_back(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(place_cpu(here.left_to), &one);
    go(&one);
}

static void watch_anew(ns_t now, uint32_t place)
{
    here.place = place;
    here.since = now;
    here.yields = 0;
}

static bool left_lately(ns_t now)
{
    return here.left_to && now - here.left < STAY_WATCHES * here.watch;
}

static void leave(const struct client *c, ns_t now)
{
    here.watch = left_lately(now) ? min_of(2 * here.watch, WATCH_MAX) : 2 * WATCH_MIN;
    here.left = now;
    here.left_to = here.place;
    step_aside(c);
    watch_anew(now, 0);
}

static void come_back(ns_t now)
{
    step_back();
    here.left = now;
    here.watch = WATCH_MAX;
    watch_anew(now, 0);
}

void client_place(struct client *c, ns_t now, ns_t took)
{
    ns_t pause = now - here.last, watch = left_lately(now) ? here.watch : WATCH_MIN;
    uint32_t place;

    if (stay || atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed))
        return;
    here.last = now;
    if (took > SQUEEZED_NS && left_lately(now)) {
        come_back(now);
        return;
    }
    place = shared_place(c, (uint32_t)sched_getcpu());
    if (!place || place != here.place || pause > WATCH_MIN)
        watch_anew(now, place);
    else if (++here.yields >= WATCH_YIELDS && now - here.since >= watch)
        leave(c, now);
}
