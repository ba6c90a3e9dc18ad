/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While a worker sleeps or yields its CPU it lends its state: the control thread may run functions
 * on it, with one compare-and-swap and without a switch of threads
 * (doc/decisions/0019-borrowed-workers.md). The worker takes its state back before it touches it
 * again, and waits if it is borrowed just then.
 *
 * A function may leave work that the worker did not expect when it decided to sleep. The control
 * thread looks, and kicks the worker after it has given the state back. The worker has armed its
 * word before it lends (worker_run.c); one that yields polls again anyway.
 */
#include "worker_internal.h"

#include "invariant.h"

/* Looks at the lease before the worker sleeps: functions are short. */
#define LEASE_SPINS 200

/* ---- the worker's side ---- */

void worker_lend(struct worker *w, ns_t until)
{
    w->lent_until = until;
    atomic_store(&w->lease, LEASE_FREE);
}

static bool take(struct worker *w)
{
    uint32_t expected = LEASE_FREE;

    return atomic_compare_exchange_strong(&w->lease, &expected, LEASE_NONE);
}

void worker_take_back(struct worker *w)
{
    uint32_t taken;

    for (unsigned i = 0; i < LEASE_SPINS; i++) {
        if (likely(take(w)))
            return;
        cpu_pause();
    }
    while (!take(w)) {
        taken = LEASE_TAKEN;
        if (atomic_compare_exchange_strong(&w->lease, &taken, LEASE_AWAITED) ||
            taken == LEASE_AWAITED)
            futex_wait(&w->lease, LEASE_AWAITED, NS_NEVER);
    }
}

/* ---- the control thread's side ---- */

/* mem_caller.run of a borrowed worker. Its loop's stack is not there to be left, and no function
 * copies from or to programs. If one did, the copy would be waited for. */
static bool call_here(struct mem_caller *caller)
{
    invariant(!"a function that is run on a borrowed worker copies");
    mem_call_run(caller->call);
    return true;
}

/* Whether the worker has something to do before it would look by itself. */
static bool has_work(struct worker *w)
{
    if (w->sent_lent || worker_memory_failed(w))
        return true;
    for (unsigned i = 0; i < w->ports; i++) {
        struct engine *e = w->port[i].engine;

        if (engine_wants_tx(e) || engine_next_timer(e) < w->lent_until)
            return true;
    }
    return false;
}

bool worker_borrow(struct worker *w)
{
    uint32_t expected = LEASE_FREE;

    if (!atomic_compare_exchange_strong(&w->lease, &expected, LEASE_TAKEN))
        return false;
    atomic_store(&w->borrower, pthread_self());
    w->contexts_lent = w->contexts;
    w->sent_lent = false;
    w->caller.run = call_here;
    return true;
}

void worker_give_back(struct worker *w)
{
    /* The doorbells of a new context are not armed yet. */
    bool kick = w->contexts > w->contexts_lent || has_work(w);

    w->caller.run = carrier_call;
    if (atomic_exchange(&w->lease, LEASE_FREE) == LEASE_AWAITED)
        futex_wake(&w->lease, 1);
    if (kick)
        worker_kick(w);
}

bool worker_is_borrowed_here(const struct worker *w)
{
    return atomic_load(&w->lease) >= LEASE_TAKEN &&
           pthread_equal(atomic_load(&w->borrower), pthread_self());
}
