/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes workers' loops out of calls that sleep: see watch.h. */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carrier.h"
#include "stack_switch.h"
#include "worker_internal.h"

/* Between two looks. All memory answers, as a rule, and looking takes a processor from those who
 * work: the short tick is for the time after a worker was found asleep in a call that had lasted,
 * or in two calls soon after each other. One may wait for a lock of its program for once. */
#define CALM_TICK    (4 * NS_PER_MS)
#define ALARMED_TICK NS_PER_MS
#define ALARM        (10 * NS_PER_SEC)
#define SOON         NS_PER_SEC

#define QUIET (20 * NS_PER_MS) /* without a call: the watch sleeps */

struct watch {
    struct watch_config config;
    _Atomic uint32_t stop;   /* futex word */
    struct carrier *reserve; /* its thread waits */
    struct {
        uint32_t state; /* of its carrier, when the watch looked last */
        ns_t since;     /* the call that lasts had not begun then */
    } seen[WORKERS_MAX];
    ns_t looked;        /* at all of them */
    ns_t called;        /* a call was seen */
    ns_t asleep;        /* a worker was, in a call; 0: never */
    ns_t alarmed_until; /* a worker may sleep in calls */
};

/* ---- the thread in reserve ---- */

static int call_up_reserve(struct watch *w)
{
    struct carrier *c = carrier_create();
    pthread_t thread;
    int err;

    w->reserve = NULL;
    if (!c)
        return -ENOMEM;
    err = w->config.thread_start(&thread, "uroce-reserve", carrier_reserve_run, c);
    if (err) {
        carrier_destroy(c);
        return err;
    }
    pthread_detach(thread);
    w->reserve = c;
    return 0;
}

static void order(struct carrier *c, enum carrier_go go)
{
    atomic_store(&c->go, go);
    futex_wake(&c->go, 1);
}

/* ---- taking a loop ---- */

/* Whether a thread of this process sleeps, rather than runs or waits for a CPU. */
static bool is_asleep(pid_t tid)
{
    char path[64], text[256], *state;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    state = strrchr(text, ')');
    return state && (state[2] == 'S' || state[2] == 'D');
}

/* Out of that call: its number is part of the state. From then on the call is the copier's, and
 * stays until the loop has gone on, as does its space: no worker has passed a quiet point. */
static bool take_loop(struct carrier *c, uint32_t state)
{
    return atomic_compare_exchange_strong(&c->state, &state, CARRIER_COPIER);
}

static void carry_on_elsewhere(struct watch *watch, struct worker *w, struct carrier *old)
{
    const struct mem_call *call = &old->call->call;
    int pid = call->backend->pid ? call->backend->pid(call->space) : 0;
    struct carrier *c = watch->reserve;

    c->worker = w;
    w->carrier = c;
    w->call_since = watch->seen[w->index].since;
    watch->seen[w->index].state = 0; /* as c's is: each carrier counts its own calls */
    atomic_fetch_add(&w->cpu_before, worker_thread_cpu(old->thread));
    if (old->detach)
        pthread_detach(old->thread);
    order(c, GO_CARRY);
    if (watch->config.on_late)
        watch->config.on_late(watch->config.ctx, w->index, pid);
    call_up_reserve(watch);
}

/* ---- looking ---- */

static bool is_in_call(uint32_t state)
{
    return (state & ((1u << CARRIER_STATE_BITS) - 1)) == CARRIER_IN_CALL;
}

/* Whether the worker is in the same call as a tick ago. Asking the kernel whether it sleeps costs
 * more than looking again: only who is calm asks because of a call that has just begun. */
static bool is_late(struct watch *watch, const struct worker *w, const struct carrier *c,
                    uint32_t state, ns_t now)
{
    bool same = watch->seen[w->index].state == state;

    if (!same) {
        watch->called = now;
        watch->seen[w->index].state = state;
        watch->seen[w->index].since = watch->looked;
    }
    if (!is_in_call(state))
        return false;
    watch->called = now;
    if ((!same && now < watch->alarmed_until) || !is_asleep(c->tid))
        return false;
    if (same || (watch->asleep && now < watch->asleep + SOON))
        watch->alarmed_until = now + ALARM;
    watch->asleep = now;
    return same;
}

static void look(struct watch *watch, struct worker *w, ns_t now)
{
    struct carrier *c = w->carrier;
    uint32_t state;

    if (!c)
        return;
    state = atomic_load(&c->state);
    if (!is_late(watch, w, c, state, now))
        return;
    if (!watch->reserve)
        call_up_reserve(watch);
    if (watch->reserve && take_loop(c, state))
        carry_on_elsewhere(watch, w, c);
}

static bool calls_are_made(const struct watch *watch)
{
    const struct worker_group *g = watch->config.group;

    for (unsigned i = 0; i < g->workers; i++) {
        const struct carrier *c = g->worker[i]->carrier;

        uint32_t state = c ? atomic_load(&c->state) : 0;

        if (c && (state != watch->seen[i].state || is_in_call(state)))
            return true;
    }
    return false;
}

/* A worker begins a call, then looks whether the watch sleeps; the watch says so, then looks for
 * calls. */
static void sleep_until_calls(struct watch *watch)
{
    _Atomic uint32_t *asleep = &watch->config.group->watch_asleep;

    atomic_store(asleep, 1);
    if (!calls_are_made(watch) && !atomic_load(&watch->stop))
        futex_wait(asleep, 1, NS_NEVER);
    atomic_store(asleep, 0);
    watch->looked = watch->called = worker_time(); /* the call that woke it has begun just now */
}

void *watch_run(void *arg)
{
    struct watch *watch = arg;
    const struct worker_group *g = watch->config.group;

    while (!atomic_load(&watch->stop)) {
        ns_t now = worker_time();

        for (unsigned i = 0; i < g->workers; i++)
            look(watch, g->worker[i], now);
        watch->looked = now;
        if (now >= watch->called + QUIET)
            sleep_until_calls(watch);
        else
            futex_wait(&watch->stop, 0, now < watch->alarmed_until ? ALARMED_TICK : CALM_TICK);
    }
    return NULL;
}

void watch_stop(struct watch *w)
{
    atomic_store(&w->stop, 1);
    futex_wake(&w->stop, 1);
    watch_wake(w->config.group);
}

struct watch *watch_create(const struct watch_config *config, int *err)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w) {
        *err = -ENOMEM;
        return NULL;
    }
    w->config = *config;
    *err = call_up_reserve(w);
    if (*err) {
        free(w);
        return NULL;
    }
    return w;
}

bool watch_takes_loops(void)
{
    return !stack_shadow();
}

void watch_destroy(struct watch *w)
{
    if (!w)
        return;
    if (w->reserve)
        order(w->reserve, GO_AWAY);
    free(w);
}
