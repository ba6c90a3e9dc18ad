/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <signal.h>

#include "common.h"
#include "rs_call.h"

/* Of the call that this thread is in: whether it may be cancelled while it sleeps. */
static _Thread_local int sleep_state __attribute__((tls_model("initial-exec"))) =
    PTHREAD_CANCEL_DISABLE;

struct rs_call rs_call_begin(enum rs_cancel cancel)
{
    struct rs_call c = {.sleep_state = sleep_state};

    if (cancel == RS_CANCEL_SLEEP)
        pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c.state);
    sleep_state = cancel == RS_CANCEL_SLEEP ? c.state : PTHREAD_CANCEL_DISABLE;
    return c;
}

void rs_call_end(const struct rs_call *c)
{
    sleep_state = c->sleep_state;
    pthread_setcancelstate(c->state, NULL);
}

void rs_hold_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t held;

    sigfillset(&held);
    for (unsigned i = 0; i < ARRAY_SIZE(faults); i++)
        sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

void rs_release_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* What a sleep that is cancelled leaves to do. */
struct sleep {
    const sigset_t *before;
    void (*undo)(void *arg);
    void *arg;
};

static void end_cancelled(void *sleep)
{
    const struct sleep *s = sleep;

    rs_release_signals(s->before);
    s->undo(s->arg);
}

int rs_sleep(struct pollfd *fds, nfds_t n, int ms, const sigset_t *before, void (*undo)(void *arg),
             void *arg)
{
    struct sleep s = {before, undo, arg};
    const struct timespec t = {ms / MS_PER_SEC, ms % MS_PER_SEC * (long)NS_PER_MS};
    int got;

    pthread_cleanup_push(end_cancelled, &s);
    pthread_setcancelstate(sleep_state, NULL);
    got = ppoll(fds, n, &t, before);
    got = got < 0 ? -errno : got;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
    return got;
}

/* ---- turns ---- */

static void leave_socket(void *arg)
{
    struct rsocket *rs = arg;

    pthread_mutex_unlock(&rs->lock);
    rs_put(rs);
}

/* Returns 0, or ETIMEDOUT. */
static int sleep_until_left(struct rsocket *rs, struct rs_turn *t, int64_t until)
{
    const struct timespec at = {until / (int64_t)NS_PER_SEC, until % (int64_t)NS_PER_SEC};
    int err = 0;

    while (t->taken && !err)
        err = until == RS_FOREVER
                  ? pthread_cond_wait(&t->left, &rs->lock)
                  : pthread_cond_clockwait(&t->left, &rs->lock, CLOCK_MONOTONIC, &at);
    return err;
}

static int await_turn(struct rsocket *rs, struct rs_turn *t, int64_t until)
{
    int err;

    pthread_cleanup_push(leave_socket, rs);
    pthread_setcancelstate(sleep_state, NULL);
    err = sleep_until_left(rs, t, until);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
    return t->taken ? err : 0;
}

int rs_turn_take(struct rsocket *rs, struct rs_turn *t, bool nonblocking, uint32_t timeout_ms)
{
    if (t->taken && (nonblocking || await_turn(rs, t, rs_deadline(timeout_ms))))
        return -EAGAIN;
    t->taken = true;
    t->by = pthread_self();
    return 0;
}

void rs_turn_leave(struct rs_turn *t)
{
    t->taken = false;
    pthread_cond_signal(&t->left);
}

static void leave_own(struct rs_turn *t)
{
    if (t->taken && pthread_equal(t->by, pthread_self()))
        rs_turn_leave(t);
}

void rs_leave_cancelled(struct rsocket *rs)
{
    leave_own(&rs->sending);
    leave_own(&rs->receiving);
    leave_socket(rs);
}
