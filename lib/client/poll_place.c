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
#include <sched.h>

#include "client.h"

#define WATCH_MIN    (5 * NS_PER_MS) /* how long it has to be the same before we go */
#define WATCH_MAX    NS_PER_SEC
#define WATCH_YIELDS 16        /* so many in that time: we do yield */
#define STAY_WATCHES 20        /* who is back sooner waits for longer the next time */
#define SQUEEZED_NS  NS_PER_MS /* a yield that took so long went to one who does not */

/* A thread's own. The dataplane is that of the context through which it polls. In the static block,
 * which has room for the little there is: the library needs nothing but libc. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    uint32_t place, yields; /* the worker with which we share a processor; yields since */
    ns_t since, watch, left;
    uint32_t left_to; /* the place that was left; 0: none */
} here;

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

/* To one of these processors, of those that it may use. The restriction is for a moment only. */
static void go(const cpu_set_t *where)
{
    cpu_set_t allowed, to;

    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        return;
    CPU_AND(&to, &allowed, where);
    if (CPU_COUNT(&to) && !sched_setaffinity(0, sizeof(to), &to))
        sched_setaffinity(0, sizeof(allowed), &allowed);
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

static void leave(const struct client *c, ns_t now)
{
    bool soon = here.left_to && now - here.left < STAY_WATCHES * here.watch;

    here.watch = soon ? min_of(2 * here.watch, WATCH_MAX) : WATCH_MIN;
    here.left = now;
    here.left_to = here.place;
    step_aside(c);
    watch_anew(now, 0);
}

void client_place(struct client *c, ns_t now, ns_t took)
{
    uint32_t place;

    if (atomic_load_explicit(&c->shared->spin_limit, memory_order_relaxed))
        return;
    if (took > SQUEEZED_NS && here.left_to && now - here.left < STAY_WATCHES * here.watch) {
        step_back();
        here.watch = WATCH_MAX;
        here.left_to = 0;
        watch_anew(now, 0);
        return;
    }
    place = shared_place(c, (uint32_t)sched_getcpu());
    if (!place || place != here.place)
        watch_anew(now, place);
    else if (++here.yields >= WATCH_YIELDS && now - here.since >= max_of(here.watch, WATCH_MIN))
        leave(c, now);
}
