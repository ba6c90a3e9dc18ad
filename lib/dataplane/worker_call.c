/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the control thread runs on a worker: on the worker's thread, between two passes,
 * or, while that one sleeps or yields, on its own (worker_lend.c). */
#include "worker_internal.h"

/* Polls of `done` before the caller sleeps: a worker that is awake answers within a microsecond or
 * two. */
#define CALL_SPINS 200

/* Sends the events that fn caused before the caller returns, so that it may free their objects. */
static void run_function(struct worker *w, worker_fn fn, void *arg)
{
    fn(w, arg);
    worker_flush_notifications(w);
    counter_inc(&w->stats.calls);
}

bool worker_run_command(struct worker *w)
{
    struct worker_command *c;

    if (likely(!atomic_load_explicit(&w->command, memory_order_relaxed)))
        return false;
    c = atomic_exchange(&w->command, NULL);
    if (!c)
        return false;
    run_function(w, c->fn, c->arg);
    /* The command is on the caller's stack, which may be reused as soon as the caller sees this: a
     * wake at a stale address is harmless. */
    atomic_store(&c->done, 1);
    futex_wake(&c->done, 1);
    return true;
}

void worker_call(struct worker *w, worker_fn fn, void *arg)
{
    struct worker_command c = {.fn = fn, .arg = arg};
    struct worker_command *mine = &c;

    if (!atomic_load(&w->running)) {
        run_function(w, fn, arg);
        return;
    }
    if (worker_borrow(w)) {
        run_function(w, fn, arg);
        counter_inc(&w->stats.borrowed);
        worker_give_back(w);
        return;
    }
    atomic_store(&w->command, &c);
    worker_kick(w);
    for (unsigned i = 0; i < CALL_SPINS && !atomic_load(&c.done); i++)
        cpu_pause();
    while (!atomic_load(&c.done)) {
        /* The worker may have ended in the meantime. The thread that removes the command runs it.
         */
        if (!atomic_load(&w->running) && atomic_compare_exchange_strong(&w->command, &mine, NULL)) {
            run_function(w, fn, arg);
            return;
        }
        mine = &c;
        futex_wait(&c.done, 0, 100 * NS_PER_MS);
    }
}

static void do_nothing(struct worker *w, void *arg)
{
}

void worker_quiesce(struct worker *w)
{
    worker_call(w, do_nothing, NULL);
}

/* A call on each of w[0..n), then fn on the worker that this one runs on. */
struct nested_call {
    struct worker *const *w;
    unsigned n;
    worker_fn fn;
    void *arg;
};

/* Each worker calls the next, and waits for it. The last one runs the function. */
static void call_next(struct worker *w, void *arg)
{
    struct nested_call *c = arg;

    if (!c->n)
        c->fn(w, c->arg);
    else
        worker_call_all(c->w, c->n, c->fn, c->arg);
}

void worker_call_all(struct worker *const *w, unsigned n, worker_fn fn, void *arg)
{
    struct nested_call others = {.w = w + 1, .n = n - 1, .fn = fn, .arg = arg};

    worker_call(w[0], call_next, &others);
}
