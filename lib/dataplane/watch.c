/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes workers' loops out of calls that sleep: see watch.h. */
#include "watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carrier.h"
#include "worker_internal.h"

#define TICK        NS_PER_MS
#define QUIET_TICKS 20 /* without a call: the watch sleeps */

struct watch {
    struct watch_config config;
    _Atomic uint32_t stop;   /* futex word */
    struct carrier *reserve; /* its thread waits */
    uint32_t calls[WORKERS_MAX];
    unsigned quiet; /* ticks */
};

/* ---- the thread in reserve ---- */

static void call_up_reserve(struct watch *w)
{
    struct carrier *c = carrier_create();
    pthread_t thread;

    if (c && w->config.thread_start(&thread, "uroce-reserve", carrier_reserve_run, c)) {
        carrier_destroy(c);
        c = NULL;
    }
    if (c)
        pthread_detach(thread);
    w->reserve = c;
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

/* The call that the carrier makes is held before the loop is taken: once it has been, its thread
 * may end the call, and close, at any time. */
static bool take_loop(struct carrier *c)
{
    const struct mem_call *call = &c->call->call;
    const struct mem_backend *backend = call->backend;
    void *space = call->space;
    uint32_t state = CARRIER_IN_CALL;

    if (!backend->hold)
        return false;
    backend->hold(space);
    pthread_mutex_lock(&c->lock); /* copier_serve waits for it */
    if (!atomic_compare_exchange_strong(&c->state, &state, CARRIER_COPIER)) {
        pthread_mutex_unlock(&c->lock);
        backend->release(space);
        return false;
    }
    if (call->space != space || call->backend != backend) { /* it had begun another one */
        call->backend->hold(call->space);
        backend->release(space);
    }
    pthread_mutex_unlock(&c->lock);
    return true;
}

static void carry_on_elsewhere(struct watch *watch, struct worker *w, struct carrier *old)
{
    const struct mem_call *call = &old->call->call;
    int pid = call->backend->pid ? call->backend->pid(call->space) : 0;
    struct carrier *c = watch->reserve;

    c->worker = w;
    w->carrier = c;
    if (old->detach)
        pthread_detach(old->thread);
    order(c, GO_CARRY);
    if (watch->config.on_late)
        watch->config.on_late(watch->config.ctx, w->index, pid);
    call_up_reserve(watch);
}

/* ---- looking ---- */

static void look(struct watch *watch, struct worker *w)
{
    struct carrier *c = w->carrier;
    uint32_t calls;

    if (!c)
        return;
    calls = atomic_load_explicit(&c->calls, memory_order_relaxed);
    if (watch->calls[w->index] != calls)
        watch->quiet = 0;
    watch->calls[w->index] = calls;
    if (atomic_load(&c->state) != CARRIER_IN_CALL)
        return;
    watch->quiet = 0;
    if (!is_asleep(c->tid) || atomic_load(&c->calls) != calls)
        return;
    if (!watch->reserve)
        call_up_reserve(watch);
    if (watch->reserve && take_loop(c))
        carry_on_elsewhere(watch, w, c);
}

static bool calls_are_made(const struct watch *watch)
{
    const struct worker_group *g = watch->config.group;

    for (unsigned i = 0; i < g->workers; i++) {
        const struct carrier *c = g->worker[i]->carrier;

        if (c && (atomic_load(&c->calls) != watch->calls[i] ||
                  atomic_load(&c->state) == CARRIER_IN_CALL))
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
    watch->quiet = 0;
}

void *watch_run(void *arg)
{
    struct watch *watch = arg;
    const struct worker_group *g = watch->config.group;

    while (!atomic_load(&watch->stop)) {
        watch->quiet++;
        for (unsigned i = 0; i < g->workers; i++)
            look(watch, g->worker[i]);
        if (watch->quiet >= QUIET_TICKS)
            sleep_until_calls(watch);
        else
            futex_wait(&watch->stop, 0, TICK);
    }
    return NULL;
}

void watch_stop(struct watch *w)
{
    atomic_store(&w->stop, 1);
    futex_wake(&w->stop, 1);
    watch_wake(w->config.group);
}

struct watch *watch_create(const struct watch_config *config)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->config = *config;
    call_up_reserve(w);
    if (!w->reserve) {
        free(w);
        return NULL;
    }
    return w;
}

void watch_destroy(struct watch *w)
{
    if (!w)
        return;
    if (w->reserve)
        order(w->reserve, GO_AWAY);
    free(w);
}
