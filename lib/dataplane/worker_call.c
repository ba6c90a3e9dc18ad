/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the control thread runs on a worker. */
#include "worker_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* Looks at `done` before the caller sleeps for it: a hot worker answers within a microsecond or
 * two. */
#define CALL_SPINS 200

/* Events that fn caused go out before the caller goes on, so that it may free what they belong to.
 */
static void run(struct worker *w, worker_fn fn, void *arg)
{
    fn(w, arg);
    worker_flush_notes(w);
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
    run(w, c->fn, c->arg);
    /* The caller's stack may be gone as soon as it sees this: a wake at a stale address is
     * harmless. */
    atomic_store(&c->done, 1);
    futex_wake(&c->done, 1);
    return true;
}

void worker_call(struct worker *w, worker_fn fn, void *arg)
{
    struct worker_command c = {.fn = fn, .arg = arg};
    struct worker_command *mine = &c;

    if (!atomic_load(&w->running)) {
        run(w, fn, arg);
        return;
    }
    atomic_store(&w->command, &c);
    worker_kick(w);
    for (unsigned i = 0; i < CALL_SPINS && !atomic_load(&c.done); i++)
        __builtin_ia32_pause();
    while (!atomic_load(&c.done)) {
        /* The worker may have ended meanwhile; whoever takes the command back runs it. */
        if (!atomic_load(&w->running) && atomic_compare_exchange_strong(&w->command, &mine, NULL)) {
            run(w, fn, arg);
            return;
        }
        mine = &c;
        futex_wait(&c.done, 0, 100 * NS_PER_MS);
    }
}

static void nothing(struct worker *w, void *arg)
{
}

void worker_quiesce(struct worker *w)
{
    worker_call(w, nothing, NULL);
}

struct all_call {
    struct worker *const *w;
    unsigned n;
    worker_fn fn;
    void *arg;
};

/* Each calls the next, and so waits for it; the last does the work. */
static void call_next(struct worker *w, void *arg)
{
    struct all_call *c = arg;

    if (!c->n)
        c->fn(w, c->arg);
    else
        worker_call_all(c->w, c->n, c->fn, c->arg);
}

void worker_call_all(struct worker *const *w, unsigned n, worker_fn fn, void *arg)
{
    struct all_call rest = {.w = w + 1, .n = n - 1, .fn = fn, .arg = arg};

    worker_call(w[0], call_next, &rest);
}

struct ctx_change {
    struct worker_ctx *ctx;
    struct worker_ctx *
        *array; /* a larger one to use from now on, or NULL; then the one left behind */
    unsigned room;
};

static void attach(struct worker *w, void *arg)
{
    struct ctx_change *c = arg;

    if (c->array) {
        struct worker_ctx **old = w->ctx;

        for (unsigned i = 0; i < w->contexts; i++)
            c->array[i] = old[i];
        w->ctx = c->array;
        w->ctx_room = c->room;
        c->array = old;
    }
    w->ctx[w->contexts++] = c->ctx;
    c->ctx->polls_seen = atomic_load(&c->ctx->shared->polls);
    atomic_store(&c->ctx->shared->spin_limit, w->policy.spin_limit);
    atomic_store(&c->ctx->shared->worker_place[w->index], w->place);
}

int worker_ctx_attach(struct worker *w, struct worker_ctx *ctx)
{
    struct ctx_change c = {.ctx = ctx};

    /* Only the control thread changes these two, through its calls, so it may read them. */
    if (w->contexts == w->ctx_room) {
        c.room = w->ctx_room ? w->ctx_room * 2 : 16;
        c.array = malloc(c.room * sizeof(*c.array));
        if (!c.array)
            return -ENOMEM;
    }
    worker_call(w, attach, &c);
    free(c.array);
    return 0;
}

static void detach(struct worker *w, void *arg)
{
    for (unsigned i = 0; i < w->contexts; i++) {
        if (w->ctx[i] == arg) {
            w->ctx[i] = w->ctx[--w->contexts];
            return;
        }
    }
}

void worker_ctx_detach(struct worker *w, struct worker_ctx *ctx)
{
    worker_call(w, detach, ctx);
}
