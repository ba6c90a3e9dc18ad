/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copiers: threads that wait for programs' memory in a worker's place. One serves a program whose
 * memory did not answer, until it has answered. A user (by uid) may let the loop wait for a
 * twentieth of the time; what is not used adds up to 30 ms. Beyond that the user's copiers stay for
 * twenty times as long as the loop has waited. Calls that copy to the program are made in their
 * order. Those that copy from it are made too, so that the memory is there afterwards, but their
 * bytes are dropped: when the copier has closed, the queue pair builds the packets again, and the
 * loop makes the call itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "carrier.h"
#include "worker_internal.h"

#define WAIT_SHARE    20 /* of the time: 1/20 */
#define CREDIT_MAX    (30 * NS_PER_MS)
#define USER_COPIERS  4u /* of one user, on one worker; then they are shared */
#define QUEUE_BYTES   (4u << 20)
#define CALL_DEADLINE (10 * NS_PER_SEC)

/* ---- the copier's thread ---- */

/* Tells the loop. The copier's lock is held. */
static void report_ended(struct carrier *c, struct worker_mem_call *call)
{
    struct worker *w = c->worker;
    struct worker_mem_call *first = atomic_load(&w->ended_calls);

    do
        call->next = first;
    while (!atomic_compare_exchange_weak(&w->ended_calls, &first, call));
    worker_kick(w);
}

/* Calls whose end is to be told when the copier closes. */
struct unsaid {
    struct worker_mem_call *first;
};

static void call_ended(struct carrier *c, struct worker_mem_call *call, struct unsaid *unsaid)
{
    pthread_mutex_lock(&c->lock);
    if (!c->worker) {
        call->call.backend->release(call->call.space);
        worker_mem_call_free(call);
    } else if (call->call.kind == MEM_CALL_IN) {
        call->next = unsaid->first;
        unsaid->first = call;
    } else {
        report_ended(c, call);
    }
    pthread_mutex_unlock(&c->lock);
}

/* The next call, or NULL: the pause is over, or the worker is gone. Then the copier has closed, and
 * made the calls that it had taken before. */
static struct worker_mem_call *next_call(struct carrier *c)
{
    struct timespec until;
    struct worker_mem_call *call;
    int err = 0;

    pthread_mutex_lock(&c->lock);
    while (!c->until && c->worker) /* the loop has not come that far */
        pthread_cond_wait(&c->wake, &c->lock);
    until = (struct timespec){.tv_sec = (time_t)(c->until / NS_PER_SEC),
                              .tv_nsec = (long)(c->until % NS_PER_SEC)};
    c->closed |= worker_time() >= c->until;
    while (!c->first && c->worker && !c->closed) {
        err = pthread_cond_clockwait(&c->wake, &c->lock, CLOCK_MONOTONIC, &until);
        c->closed |= err == ETIMEDOUT;
    }
    call = c->first;
    if (call) {
        c->first = call->next;
        if (!c->first)
            c->last = &c->first;
        c->bytes -= call->bytes;
    }
    c->closed |= !call;
    pthread_mutex_unlock(&c->lock);
    return call;
}

/* The loop frees the copier, or this thread if there is no loop. */
static void close_copier(struct carrier *c, struct unsaid *unsaid)
{
    struct worker_mem_call *call;
    struct carrier *first;
    struct worker *w;

    pthread_mutex_lock(&c->lock);
    w = c->worker;
    while ((call = unsaid->first)) {
        unsaid->first = call->next;
        if (w) {
            report_ended(c, call);
        } else {
            call->call.backend->release(call->call.space);
            worker_mem_call_free(call);
        }
    }
    if (w) {
        first = atomic_load(&w->closed_copiers);
        do
            c->closed_next = first;
        while (!atomic_compare_exchange_weak(&w->closed_copiers, &first, c));
        worker_kick(w);
    }
    pthread_mutex_unlock(&c->lock);
    if (!w) {
        c->call = NULL;
        carrier_destroy(c);
    }
}

void copier_serve(struct carrier *c)
{
    struct worker_mem_call *call = c->call;
    struct unsaid unsaid = {NULL};

    pthread_setname_np(pthread_self(), "uroce-copier");
    setpriority(PRIO_PROCESS, 0, 0);
    call_ended(c, call, &unsaid);
    while ((call = next_call(c))) {
        mem_call_run(&call->call);
        call_ended(c, call, &unsaid);
    }
    close_copier(c, &unsaid);
}

/* ---- the loop ---- */

static int user_of(const struct mem_call *call)
{
    return call->backend->user ? call->backend->user(call->space) : -1;
}

struct carrier *copier_of(struct worker *w, const struct mem_call *call)
{
    struct carrier *of_user = NULL;
    unsigned n = 0;
    int user = user_of(call);

    for (struct carrier *c = w->copiers; c; c = c->next) {
        if (c->space == call->space)
            return c;
        if (c->user == user) {
            of_user = c;
            n++;
        }
    }
    return n >= USER_COPIERS ? of_user : NULL;
}

/* From now on the call is under way, and the engine is told when it ends. */
static void begin_late(struct worker *w, struct worker_mem_call *call, struct carrier *copier)
{
    call->copier = copier;
    call->given_up = false;
    call->call.deadline = worker_time() + CALL_DEADLINE;
    LIST_INSERT_HEAD(&w->late_calls, call, late);
}

bool copier_queue(struct worker *w, struct carrier *copier, int *status)
{
    struct worker_mem_call *call = container_of(w->caller.call, struct worker_mem_call, call);
    struct worker_mem_call *spare = worker_mem_call_create();
    bool queued = false;

    call->bytes = 0;
    for (unsigned i = 0; i < call->call.n; i++)
        call->bytes += call->call.io[i].len;
    pthread_mutex_lock(&copier->lock);
    /* If the copier has closed the loop makes the call itself, and needs the frames in it: so
     * mem_call_own comes last. */
    if (!copier->closed) {
        queued = spare && copier->bytes + call->bytes <= QUEUE_BYTES && mem_call_own(&call->call);
        *status = queued ? 0 : -ENOMEM;
    }
    if (queued) {
        call->call.backend->hold(call->call.space);
        begin_late(w, call, copier);
        copier->bytes += call->bytes;
        call->next = NULL;
        *copier->last = call;
        copier->last = &call->next;
        pthread_cond_signal(&copier->wake);
    }
    pthread_mutex_unlock(&copier->lock);
    if (!queued) {
        worker_mem_call_free(spare);
        return false;
    }
    w->carrier->call = spare;
    w->caller.call = &spare->call;
    return true;
}

/* How long the copier of a user stays: the loop has waited for `waited`. */
static ns_t pause_of(struct worker *w, int user, ns_t waited, ns_t now)
{
    struct wait_account *a = &w->waits[(unsigned)user % ARRAY_SIZE(w->waits)];
    ns_t earned = a->user == user ? (now - a->since) / WAIT_SHARE : CREDIT_MAX;

    if (a->user != user)
        *a = (struct wait_account){.user = user};
    a->since = now;
    a->debt -= min_of(a->debt, earned);
    if (!a->debt)
        a->credit = min_of(a->credit + earned, (ns_t)CREDIT_MAX);
    if (a->credit >= waited)
        a->credit -= waited;
    else
        a->debt += waited;
    return a->debt * WAIT_SHARE;
}

void copier_begin(struct worker *w, struct carrier *old)
{
    struct mem_call *call = &old->call->call;
    ns_t now = worker_time();

    counter_inc(&w->stats.taken_away);
    w->caller.call = &w->carrier->call->call;
    pthread_mutex_lock(&old->lock);
    old->space = call->space;
    old->user = user_of(call);
    old->until = now + pause_of(w, old->user, now - w->pass_began, now);
    pthread_cond_signal(&old->wake);
    pthread_mutex_unlock(&old->lock);
    old->next = w->copiers;
    w->copiers = old;
    begin_late(w, old->call, old);
    old->call->kept_next = w->late_in_burst;
    w->late_in_burst = old->call;
}

void copier_keep_frames(struct worker *w, struct worker_port *p, const struct frame *f, unsigned n,
                        bool lent)
{
    struct kept_frames *kept = malloc(sizeof(*kept));
    struct worker_mem_call *call;

    /* Without memory they are lost for the port, but no other packet overwrites them. */
    if (kept) {
        *kept = (struct kept_frames){.port = p, .lent = lent, .n = n};
        memcpy(kept->f, f, n * sizeof(*f));
    }
    while ((call = w->late_in_burst)) {
        w->late_in_burst = call->kept_next;
        call->kept = kept;
        if (kept)
            kept->calls++;
    }
}

static void release_frames(struct kept_frames *kept)
{
    struct worker_port *p = kept->port;

    if (--kept->calls)
        return;
    if (kept->lent)
        p->io->ops->tx_burst(p->io, p->queue, kept->f, kept->n, 0);
    else
        p->io->ops->rx_release(p->io, p->queue, kept->f, kept->n);
    free(kept);
}

static void end_call(struct worker *w, struct worker_mem_call *call, ns_t now)
{
    LIST_REMOVE(call, late);
    if (!call->given_up)
        engine_call_ended(call->call.owner, &call->call, true, now);
    if (call->kept)
        release_frames(call->kept);
    call->call.backend->release(call->call.space);
    worker_mem_call_free(call);
}

/* The copier's thread has left it. */
static void unlink_copier(struct worker *w, struct carrier *closed)
{
    struct carrier **at = &w->copiers;

    while (*at && *at != closed)
        at = &(*at)->next;
    if (*at)
        *at = closed->next;
    closed->call = NULL; /* it has ended */
    carrier_destroy(closed);
}

static void give_up_late(struct worker *w, ns_t now)
{
    struct worker_mem_call *call;

    LIST_FOREACH(call, &w->late_calls, late)
    {
        if (call->given_up || now < call->call.deadline)
            continue;
        call->given_up = true;
        counter_inc(&w->stats.given_up);
        engine_call_ended(call->call.owner, &call->call, false, now);
    }
}

/* In the order in which they ended. */
static struct worker_mem_call *reversed(struct worker_mem_call *list)
{
    struct worker_mem_call *first = NULL, *next;

    for (; list; list = next) {
        next = list->next;
        list->next = first;
        first = list;
    }
    return first;
}

bool copier_end_calls(struct worker *w, ns_t now)
{
    struct worker_mem_call *call = NULL, *next;
    struct carrier *closed = NULL, *after;
    bool work = false;

    /* First who has closed, as its calls have ended before. */
    if (atomic_load_explicit(&w->closed_copiers, memory_order_relaxed))
        closed = atomic_exchange(&w->closed_copiers, NULL);
    if (atomic_load_explicit(&w->ended_calls, memory_order_relaxed))
        call = reversed(atomic_exchange(&w->ended_calls, NULL));
    for (; call; call = next, work = true) {
        next = call->next;
        end_call(w, call, now);
    }
    for (; closed; closed = after, work = true) {
        after = closed->closed_next;
        /* The thread may still hold the lock. */
        pthread_mutex_lock(&closed->lock);
        pthread_mutex_unlock(&closed->lock);
        unlink_copier(w, closed);
    }
    give_up_late(w, now);
    return work;
}

void copier_leave_all(struct worker *w)
{
    struct carrier *next;

    copier_end_calls(w, worker_time());
    for (struct carrier *c = w->copiers; c; c = next) {
        next = c->next;
        pthread_mutex_lock(&c->lock);
        c->worker = NULL;
        pthread_cond_signal(&c->wake);
        pthread_mutex_unlock(&c->lock);
    }
    w->copiers = NULL;
    copier_end_calls(w, worker_time());
}
