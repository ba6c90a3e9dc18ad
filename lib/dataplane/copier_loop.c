/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copiers, as the loop sees them. A copier serves a program whose memory did not answer, until it
 * has answered. A user (by uid) may let the loop wait for a twentieth of the time; what is not used
 * adds up to 30 ms. Beyond that the user's copiers stay for twenty times as long as the loop has
 * waited, and for 200 ms at most: the queue pair neither sends nor acknowledges before its copier's
 * time is over, and a peer with the usual timeout (14, 7 retries) ends after half a second. What is
 * not paid by then is still owed. The bytes of calls that copy from a program are dropped: the
 * memory is there afterwards, so when the copier's time is over the queue pair builds the packets
 * again, and the loop makes the call itself.
 *
 * The number of a user's late calls is limited, as is that of a user's copiers, stuck ones
 * included.
 */
#include <errno.h>
#include <stdlib.h>

#include "carrier.h"
#include "worker_internal.h"

#define WAIT_SHARE    20 /* of the time: 1/20 */
#define CREDIT_MAX    (30 * NS_PER_MS)
#define WAIT_MAX      (20 * NS_PER_MS) /* more is not the user's: a thread did not run */
#define PAUSE_MAX     (200 * NS_PER_MS)
#define USER_COPIERS  4u /* of one user, on one worker; then they are shared */
#define USER_CALLS    256u
#define USER_BYTES    (4u << 20)
#define CALL_DEADLINE (10 * NS_PER_SEC)

/* ---- users ---- */

static struct user_account *account_of(struct worker *w, const struct mem_backend *backend,
                                       const void *space)
{
    int user = backend->user ? backend->user(space) : -1;

    return &w->accounts[(unsigned)user % USER_ACCOUNTS];
}

static bool is_full(const struct user_account *a)
{
    return a->calls >= USER_CALLS || a->bytes >= USER_BYTES;
}

/* mem_caller.full: rarely, so that it is found by looking. */
static void note_full(struct worker *w)
{
    w->caller.full = false;
    for (const struct carrier *c = w->copiers; c; c = c->next)
        w->caller.full |= is_full(c->account);
}

/* How long a user's copier stays: the loop has waited for `waited`. */
static ns_t pause_of(struct user_account *a, ns_t waited, ns_t now)
{
    ns_t earned = (now - a->since) / WAIT_SHARE;

    a->since = now;
    a->debt -= min_of(a->debt, earned);
    if (!a->debt)
        a->credit = min_of(a->credit + earned, (ns_t)CREDIT_MAX);
    if (a->credit >= waited)
        a->credit -= waited;
    else
        a->debt += waited;
    return min_of(a->debt * WAIT_SHARE, PAUSE_MAX);
}

/* ---- a call becomes late ---- */

static size_t own_bytes(const struct mem_call *call)
{
    size_t bytes = 0;

    for (unsigned i = 0; call->own && i < call->n; i++)
        bytes += call->io[i].len;
    return bytes;
}

static void begin_late(struct worker *w, struct worker_mem_call *call, struct carrier *copier)
{
    call->copier = copier;
    call->given_up = false;
    call->deadline = worker_time() + CALL_DEADLINE;
    TAILQ_INSERT_TAIL(&w->late_calls, call, late);
    mem_call_begin_late(&call->call);
    call->bytes = own_bytes(&call->call);
    copier->account->calls++;
    copier->account->bytes += call->bytes;
    if (is_full(copier->account))
        w->caller.full = true;
}

/* Its bytes are moved, or will never be. */
static void end_late(struct worker *w, struct worker_mem_call *call)
{
    copier_release_frames(w, call);
    mem_call_end_late(&call->call);
    call->copier->account->bytes -= call->bytes;
    call->bytes = 0;
    free(call->call.own);
    call->call.own = NULL;
}

static void free_call(struct worker *w, struct worker_mem_call *call)
{
    call->copier->account->calls--;
    worker_mem_call_free(call);
}

void copier_begin(struct worker *w, struct carrier *old)
{
    struct worker_mem_call *call = old->call;
    ns_t now = worker_time(), waited = min_of(now - w->call_since, (ns_t)WAIT_MAX);

    counter_inc(&w->stats.taken_away);
    w->caller.call = &w->carrier->call->call;
    old->space = call->call.space;
    old->backend = call->call.backend;
    if (old->backend->hold)
        old->backend->hold(old->space);
    old->account = account_of(w, old->backend, old->space);
    old->serving = call;
    begin_late(w, call, old);
    call->burst_next = w->late_in_burst;
    w->late_in_burst = call;
    old->next = w->copiers;
    w->copiers = old;
    pthread_mutex_lock(&old->lock);
    old->until = now + pause_of(old->account, waited, now);
    pthread_cond_signal(&old->wake);
    pthread_mutex_unlock(&old->lock);
}

/* ---- who makes a call ---- */

/* It is to take no more calls that copy from a program, so that those that it made are told. */
static bool is_over(const struct carrier *c, ns_t now)
{
    return !c->serving && now >= c->until;
}

/* The copier for a call; NULL: the loop makes it, or *refused: no thread does. One that is stuck
 * gets no more calls, and counts as one of the user's. */
static struct carrier *find_copier(struct worker *w, const struct mem_backend *backend,
                                   const void *space, bool *refused)
{
    const struct user_account *account = account_of(w, backend, space);
    struct carrier *shared = NULL;
    unsigned n = 0;

    *refused = false;
    for (struct carrier *c = w->copiers; c; c = c->next) {
        bool over = is_over(c, w->pass_began);

        if (c->account != account)
            continue;
        n++;
        if (c->stuck)
            continue;
        if (c->space == space && !over)
            return c;
        if (!shared || is_over(shared, w->pass_began))
            shared = c;
    }
    if (n < USER_COPIERS)
        return NULL;
    *refused = !shared;
    return shared;
}

/* The copier's lock is held: its thread may use the call, and end it, when it is released. */
static void queue_call(struct worker *w, struct carrier *copier, struct worker_mem_call *call)
{
    begin_late(w, call, copier);
    for (unsigned i = 0; i < call->call.n; i++) /* which may be deregistered before it is made */
        call->call.io[i].mr = NULL;
    call->progress = CALL_QUEUED;
    TAILQ_INSERT_TAIL(&copier->queue, call, queue);
    pthread_cond_signal(&copier->wake);
}

/* Gives the prepared call to a copier, unless its thread has left it. */
static enum copier_choice give_call(struct worker *w, struct carrier *copier, int *status)
{
    struct worker_mem_call *call = container_of(w->caller.call, struct worker_mem_call, call);
    struct worker_mem_call *spare = worker_mem_call_create();
    enum copier_choice choice = CHOICE_REFUSED;

    *status = -ENOMEM;
    pthread_mutex_lock(&copier->lock);
    if (copier->left) {
        choice = CHOICE_LOOP;
    } else if (spare && mem_call_own(&call->call)) {
        choice = CHOICE_COPIER;
        queue_call(w, copier, call);
    }
    pthread_mutex_unlock(&copier->lock);
    if (choice != CHOICE_COPIER) {
        worker_mem_call_free(spare);
        return choice;
    }
    w->carrier->call = spare;
    w->caller.call = &spare->call;
    return CHOICE_COPIER;
}

enum copier_choice copier_choose(struct worker *w, int *status)
{
    const struct mem_call *call = w->caller.call;
    bool refused;
    struct carrier *copier = find_copier(w, call->backend, call->space, &refused);

    *status = -EFAULT; /* all that this user may have are stuck */
    if (!copier)
        return refused ? CHOICE_REFUSED : CHOICE_LOOP;
    *status = -EBUSY;
    if (call->kind == MEM_CALL_IN && (is_full(copier->account) || is_over(copier, w->pass_began)))
        return CHOICE_REFUSED;
    return give_call(w, copier, status);
}

bool copier_refuses(struct mem_caller *caller, const struct mem_region *mr)
{
    struct worker *w = container_of(caller, struct worker, caller);
    bool refused;
    const struct carrier *copier = find_copier(w, mr->backend, mr->space, &refused);

    return copier && is_full(copier->account);
}

/* ---- a call has ended ---- */

static void tell(struct worker *w, struct worker_mem_call *call, ns_t now)
{
    if (!call->given_up)
        engine_call_ended(call->call.owner, &call->call, true, now);
    free_call(w, call);
}

/* Those that copy from a program wait until the loop may make such calls again. */
static void call_ended(struct worker *w, struct worker_mem_call *call, ns_t now)
{
    struct carrier *copier = call->copier;

    if (!call->given_up)
        TAILQ_REMOVE(&w->late_calls, call, late);
    if (copier->serving == call)
        copier->serving = NULL;
    if (copier->stuck == call)
        copier->stuck = NULL;
    end_late(w, call);
    if (call->call.kind == MEM_CALL_IN && !call->given_up)
        TAILQ_INSERT_TAIL(&copier->held_back, call, queue);
    else
        tell(w, call, now);
}

static bool tell_held_back(struct worker *w, struct carrier *c, ns_t now)
{
    struct worker_mem_call *call;
    bool any = false;

    while ((call = TAILQ_FIRST(&c->held_back))) {
        TAILQ_REMOVE(&c->held_back, call, queue);
        tell(w, call, now);
        any = true;
    }
    return any;
}

/* The copier's thread has left it. */
static void unlink_copier(struct worker *w, struct carrier *closed, ns_t now)
{
    struct carrier **at = &w->copiers;

    pthread_mutex_lock(&closed->lock); /* the thread may still hold it */
    pthread_mutex_unlock(&closed->lock);
    tell_held_back(w, closed, now);
    while (*at && *at != closed)
        at = &(*at)->next;
    if (*at)
        *at = closed->next;
    if (closed->backend->release)
        closed->backend->release(closed->space);
    closed->call = NULL; /* it has ended */
    carrier_destroy(closed);
}

/* In the order in which they ended. */
static struct worker_mem_call *reversed(struct worker_mem_call *list)
{
    struct worker_mem_call *first = NULL, *next;

    for (; list; list = next) {
        next = list->ended_next;
        list->ended_next = first;
        first = list;
    }
    return first;
}

/* ---- a call does not end ---- */

/* What it was. A call that has not begun will not. */
static enum call_progress stop_call(struct worker_mem_call *call)
{
    struct carrier *copier = call->copier;
    enum call_progress progress;

    pthread_mutex_lock(&copier->lock);
    progress = call->progress;
    if (progress == CALL_QUEUED)
        TAILQ_REMOVE(&copier->queue, call, queue);
    pthread_mutex_unlock(&copier->lock);
    return progress;
}

static void give_up(struct worker *w, struct worker_mem_call *call, ns_t now)
{
    enum call_progress progress = stop_call(call);

    if (progress == CALL_ENDED) { /* in time: call_ended will see it */
        call->deadline += CALL_DEADLINE;
        return;
    }
    TAILQ_REMOVE(&w->late_calls, call, late);
    call->given_up = true;
    counter_inc(&w->stats.given_up);
    engine_call_ended(call->call.owner, &call->call, false, now);
    if (progress == CALL_BEGUN) {
        call->copier->stuck = call;
    } else {
        end_late(w, call);
        free_call(w, call);
    }
}

static bool give_up_late(struct worker *w, ns_t now)
{
    struct worker_mem_call *call;
    bool any = false;

    while ((call = TAILQ_FIRST(&w->late_calls)) && now >= call->deadline) {
        give_up(w, call, now);
        any = true;
    }
    return any;
}

/* ---- in each pass ---- */

bool copier_end_calls(struct worker *w, ns_t now)
{
    struct worker_mem_call *call = NULL, *next;
    struct carrier *closed = NULL, *after;
    bool work = false;

    /* First the copiers that have closed, as their calls have ended before. */
    if (atomic_load_explicit(&w->closed_copiers, memory_order_relaxed))
        closed = atomic_exchange(&w->closed_copiers, NULL);
    if (atomic_load_explicit(&w->ended_calls, memory_order_relaxed))
        call = reversed(atomic_exchange(&w->ended_calls, NULL));
    for (; call; call = next, work = true) {
        next = call->ended_next;
        call_ended(w, call, now);
    }
    for (struct carrier *c = w->copiers; c; c = c->next)
        if (is_over(c, now))
            work |= tell_held_back(w, c, now);
    for (; closed; closed = after, work = true) {
        after = closed->closed_next;
        unlink_copier(w, closed, now);
    }
    work |= give_up_late(w, now);
    if (!work)
        return false;
    note_full(w);
    for (unsigned i = 0; i < w->ports; i++)
        engine_memory_has_room(w->port[i].engine, now);
    return true;
}

/* ---- for the control thread ---- */

/* The call that its thread makes, or NULL. It makes those that it was given in their order. */
static const struct worker_mem_call *call_of(const struct worker *w, const struct carrier *c)
{
    const struct worker_mem_call *call;

    if (c->stuck || c->serving)
        return c->stuck ? c->stuck : c->serving;
    TAILQ_FOREACH (call, &w->late_calls, late)
        if (call->copier == c)
            return call;
    return NULL;
}

unsigned worker_late_copies(const struct worker *w, struct late_copy *out, unsigned room)
{
    unsigned n = 0;

    for (const struct carrier *c = w->copiers; c && n < room; c = c->next) {
        const struct worker_mem_call *call = call_of(w, c);
        const struct mem_backend *b = c->backend;

        if (!call)
            continue;
        out[n++] = (struct late_copy){.pid = b->pid ? b->pid(c->space) : 0,
                                      .user = b->user ? b->user(c->space) : -1,
                                      .since = call->deadline - CALL_DEADLINE};
    }
    return n;
}

/* ---- the worker ends ---- */

/* What has ended since. Threads that had not left their copiers free these themselves. */
static void forget_ended(struct worker *w)
{
    struct worker_mem_call *call = atomic_exchange(&w->ended_calls, NULL), *next;
    struct carrier *closed = atomic_exchange(&w->closed_copiers, NULL), *after;

    for (; call; call = next) {
        next = call->ended_next;
        copier_release_frames(w, call);
        mem_call_end_late(&call->call);
        worker_mem_call_free(call);
    }
    for (; closed; closed = after) {
        after = closed->closed_next;
        unlink_copier(w, closed, 0);
    }
}

void copier_leave_all(struct worker *w)
{
    struct carrier *next;

    copier_end_calls(w, worker_time());
    for (struct carrier *c = w->copiers; c; c = next) {
        next = c->next;
        tell_held_back(w, c, worker_time());
        pthread_mutex_lock(&c->lock);
        c->worker = NULL;
        pthread_cond_signal(&c->wake);
        pthread_mutex_unlock(&c->lock);
    }
    w->copiers = NULL;
    forget_ended(w);
}
