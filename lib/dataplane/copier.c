/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copiers: threads that wait for programs' memory in a worker's place. Each makes the call that
 * cost it the loop, and then those that the loop queues for it (copier_loop.c), in their order. It
 * leaves when none is queued and its time is over.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "carrier.h"
#include "worker_internal.h"

/* Tells the loop. The copier's lock is held. */
static void report_ended(struct worker *w, struct worker_mem_call *call)
{
    struct worker_mem_call *first = atomic_load(&w->ended_calls);

    do
        call->ended_next = first;
    while (!atomic_compare_exchange_weak(&w->ended_calls, &first, call));
    worker_kick(w);
}

static void call_ended(struct carrier *c, struct worker_mem_call *call)
{
    pthread_mutex_lock(&c->lock);
    call->progress = CALL_ENDED;
    if (c->worker) {
        report_ended(c->worker, call);
    } else {
        mem_call_end_late(&call->call);
        worker_mem_call_free(call);
    }
    pthread_mutex_unlock(&c->lock);
}

static struct worker_mem_call *take_call(struct carrier *c)
{
    struct worker_mem_call *call = TAILQ_FIRST(&c->queue);

    if (call) {
        TAILQ_REMOVE(&c->queue, call, queue);
        call->progress = CALL_BEGUN;
    }
    return call;
}

/* The next call, or NULL: the thread is to leave. */
static struct worker_mem_call *next_call(struct carrier *c)
{
    struct worker_mem_call *call;
    struct timespec until;

    pthread_mutex_lock(&c->lock);
    while (!c->until && c->worker) /* the loop has not come that far */
        pthread_cond_wait(&c->wake, &c->lock);
    until = (struct timespec){.tv_sec = (time_t)(c->until / NS_PER_SEC),
                              .tv_nsec = (long)(c->until % NS_PER_SEC)};
    while (!(call = take_call(c)) && c->worker && worker_time() < c->until)
        pthread_cond_clockwait(&c->wake, &c->lock, CLOCK_MONOTONIC, &until);
    c->left = !call;
    pthread_mutex_unlock(&c->lock);
    return call;
}

/* The loop frees the copier, or this thread if there is no loop. */
static void leave(struct carrier *c)
{
    struct worker *w;

    pthread_mutex_lock(&c->lock);
    w = c->worker;
    if (w) {
        struct carrier *first = atomic_load(&w->closed_copiers);

        do
            c->closed_next = first;
        while (!atomic_compare_exchange_weak(&w->closed_copiers, &first, c));
        worker_kick(w);
    }
    pthread_mutex_unlock(&c->lock);
    if (w)
        return;
    if (c->backend->release)
        c->backend->release(c->space);
    c->call = NULL; /* it has ended */
    carrier_destroy(c);
}

void copier_serve(struct carrier *c)
{
    struct worker_mem_call *call = c->call;

    pthread_setname_np(pthread_self(), "uroce-copier");
    setpriority(PRIO_PROCESS, 0, 0);
    call_ended(c, call);
    while ((call = next_call(c))) {
        mem_call_run(&call->call);
        call_ended(c, call);
    }
    leave(c);
}
