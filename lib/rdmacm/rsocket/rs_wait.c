/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping. A thread polls for the configured time and then sleeps on the socket's descriptors. A
 * descriptor wakes all threads that sleep on it, but the first one makes it unreadable again, and
 * the others would sleep on. So each sleeping thread also has an eventfd of its own, and is listed
 * with the socket: who takes news from a socket wakes those that are listed.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "restart.h"
#include "rs_socket.h"

/* This model needs no function of the loader; a library may have some bytes of it. */
static _Thread_local int wake_fd __attribute__((tls_model("initial-exec"))) = -1;
static pthread_key_t wake_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int64_t rs_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * (int64_t)NS_PER_SEC + ts.tv_nsec;
}

int64_t rs_deadline(uint32_t timeout_ms)
{
    return timeout_ms ? rs_now_ns() + timeout_ms * (int64_t)NS_PER_MS : RS_FOREVER;
}

int rs_ms_until(int64_t deadline)
{
    int64_t left;

    if (deadline == RS_FOREVER)
        return INT_MAX;
    left = (deadline - rs_now_ns() + (int64_t)NS_PER_MS - 1) / (int64_t)NS_PER_MS;
    return left < 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX;
}

int rs_poll_ms(int64_t deadline)
{
    int limit = rs_config()->wake_up_ms, left = rs_ms_until(deadline);

    return left < limit ? left : limit;
}

/* ---- waking other threads ---- */

static void close_wake_fd(void *value)
{
    close((int)(intptr_t)value - 1);
    wake_fd = -1; /* the process's last thread goes on to its exit handlers */
}

/* A child shares its parent's eventfd, and takes another one when it needs it. */
static void forget_wake_fd(void)
{
    if (wake_fd >= 0)
        close(wake_fd);
    wake_fd = -1;
    pthread_setspecific(wake_key, NULL);
}

static void make_key(void)
{
    pthread_key_create(&wake_key, close_wake_fd);
    pthread_atfork(NULL, NULL, forget_wake_fd);
}

int rs_wake_fd(void)
{
    pthread_once(&once, make_key);
    if (wake_fd < 0) {
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (wake_fd < 0)
            return -errno;
        pthread_setspecific(wake_key, (void *)(intptr_t)(wake_fd + 1));
    }
    return wake_fd;
}

void rs_wake_drain(int fd)
{
    eventfd_t value;

    (void)!eventfd_read(fd, &value);
}

void rs_add_waiter(struct rsocket *rs, struct rs_waiter *w, int fd)
{
    w->fd = fd;
    w->next = rs->waiters;
    rs->waiters = w;
}

void rs_remove_waiter(struct rsocket *rs, struct rs_waiter *w)
{
    struct rs_waiter **p = &rs->waiters;

    while (*p != w)
        p = &(*p)->next;
    *p = w->next;
}

void rs_wake(struct rsocket *rs)
{
    for (struct rs_waiter *w = rs->waiters; w; w = w->next)
        (void)!eventfd_write(w->fd, 1);
}

/* ---- waiting ---- */

/* Polls for a few microseconds. Other threads may use the socket between the polls. */
static bool spin(struct rsocket *rs, bool (*done)(struct rsocket *rs))
{
    int64_t until;

    rs->ops->process(rs, false);
    if (done(rs))
        return true;
    for (until = rs_now_ns() + rs_config()->polling_us * (int64_t)NS_PER_US; rs_now_ns() < until;) {
        pthread_mutex_unlock(&rs->lock);
        pthread_mutex_lock(&rs->lock);
        rs->ops->process(rs, false);
        if (done(rs))
            return true;
    }
    return false;
}

/* A thread in its sleep. */
struct sleeper {
    struct rsocket *rs;
    bool listed;
    struct rs_waiter waiter;
};

static void end_sleep(struct sleeper *s)
{
    pthread_mutex_lock(&s->rs->lock);
    if (s->listed)
        rs_remove_waiter(s->rs, &s->waiter);
}

static void cancel_sleep(void *sleeper)
{
    struct sleeper *s = sleeper;

    end_sleep(s);
    rs_leave_cancelled(s->rs);
}

/* Sleeps once; own: the thread's eventfd, or none. Returns 0 after news or the time, or -EINTR. */
static int sleep_once(struct rsocket *rs, int own, int64_t deadline, const sigset_t *signals)
{
    struct sleeper s = {.rs = rs, .listed = own >= 0};
    struct pollfd fds[RS_FDS_MAX + 1];
    unsigned n = rs->ops->fds(rs, fds);
    int got, ms = rs_poll_ms(deadline);

    fds[n] = (struct pollfd){.fd = own, .events = POLLIN};
    if (s.listed)
        rs_add_waiter(rs, &s.waiter, own);
    pthread_mutex_unlock(&rs->lock);
    got = rs_sleep(fds, n + s.listed, s.listed || ms < RS_SLICE_MS ? ms : RS_SLICE_MS, signals,
                   cancel_sleep, &s);
    end_sleep(&s);
    if (s.listed && got > 0 && fds[n].revents)
        rs_wake_drain(own);
    return got < 0 ? got : 0;
}

/* After the handler of a signal: as the calls of sockets, which never go on when they have a
 * timeout. */
static bool goes_on(int64_t deadline)
{
    return deadline == RS_FOREVER && !wants_eintr();
}

static int sleep_until(struct rsocket *rs, bool (*done)(struct rsocket *rs), int64_t deadline,
                       const sigset_t *signals)
{
    int own = rs_wake_fd(), err;

    for (;;) {
        rs->ops->arm(rs);
        if (done(rs))
            return 0;
        err = sleep_once(rs, own, deadline, signals);
        rs->ops->process(rs, true);
        if (done(rs))
            return 0;
        if (err && !goes_on(deadline))
            return err;
        if (deadline != RS_FOREVER && rs_now_ns() >= deadline)
            return -EAGAIN;
    }
}

int rs_wait(struct rsocket *rs, bool (*done)(struct rsocket *rs), int64_t deadline)
{
    sigset_t signals;
    int err;

    if (spin(rs, done))
        return 0;
    rs_hold_signals(&signals);
    err = sleep_until(rs, done, deadline, &signals);
    rs_release_signals(&signals);
    return err;
}
