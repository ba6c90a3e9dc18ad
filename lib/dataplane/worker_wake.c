/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Futexes; and how a worker sleeps and is woken.
 *
 * Each application wakes a worker by an eventfd of its own, and the worker sleeps in epoll_wait for
 * all of them. What an application does to its eventfd concerns its own wake-ups alone, and it has
 * nothing to do with what the worker sleeps on (doc/decisions/0017-eventfd-per-application.md).
 * They are edge-triggered: each write wakes, and none has to be read.
 *
 * The ports' descriptors are in the same set, level-triggered: a frame that came after the last
 * look, or is not for the driver to see yet, ends the sleep that follows.
 *
 * A timer ends a sleep that is to be short. It stays armed when something else has ended the sleep,
 * and serves the next ones: a worker that sleeps and is woken for each message would otherwise
 * program the CPU's timer twice for each, which in a virtual machine takes longer than the message.
 */
#include "worker_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Sleeps that epoll_wait, which counts in milliseconds, ends by itself. */
#define COARSE_SLEEP (100 * NS_PER_MS)

static struct timespec timespec_of(ns_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SEC),
                             .tv_nsec = (long)(ns % NS_PER_SEC)};
}

/* ---- futexes ---- */

void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

bool futex_wait(_Atomic uint32_t *word, uint32_t value, ns_t timeout)
{
    struct timespec ts = timespec_of(timeout);

    return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout == NS_NEVER ? NULL : &ts, NULL, 0) ==
               0 ||
           atomic_load(word) != value;
}

void watch_wake(struct worker_group *g)
{
    if (likely(!atomic_load(&g->watch_asleep))) /* in one order with the call's begin */
        return;
    atomic_store(&g->watch_asleep, 0);
    futex_wake(&g->watch_asleep, 1);
}

/* ---- the worker's sleep ---- */

/* The descriptor is closed if it cannot be added. */
static int add_to_set(struct worker *w, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    int err;

    if (fd >= 0 && !epoll_ctl(w->sleep_fd, EPOLL_CTL_ADD, fd, &ev))
        return 0;
    err = -errno;
    if (fd >= 0)
        close(fd);
    return err;
}

int worker_wake_add(struct worker *w, int *fd)
{
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return add_to_set(w, *fd);
}

/* An application may keep its descriptor: a close alone would leave the eventfd in the set. */
void worker_wake_remove(struct worker *w, int fd)
{
    epoll_ctl(w->sleep_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

int worker_wake_add_port(struct worker *w, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(w->sleep_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int worker_wake_open(struct worker *w)
{
    int err;

    w->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->sleep_fd < 0)
        return -errno;
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    err = add_to_set(w, w->timer_fd);
    if (!err) {
        err = worker_wake_add(w, &w->kick_fd);
        if (err)
            close(w->timer_fd);
    }
    if (err)
        close(w->sleep_fd);
    return err;
}

void worker_wake_close(struct worker *w)
{
    worker_wake_remove(w, w->kick_fd);
    close(w->timer_fd);
    close(w->sleep_fd);
}

void worker_kick(struct worker *w)
{
    uint64_t one = 1;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&w->armed, memory_order_relaxed) && atomic_exchange(&w->armed, 0))
        syscall(SYS_write, w->kick_fd, &one, sizeof(one));
}

/* Makes the set readable at `until`, or earlier. */
static void arm_timer(struct worker *w, ns_t now, ns_t until)
{
    struct itimerspec when = {.it_value = timespec_of(until)};

    if (w->timer_at > now && w->timer_at <= until)
        return;
    timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    w->timer_at = until;
}

/* What it finds is in woken_fd. */
static bool wait_for_wakes(struct worker *w, int timeout_ms)
{
    struct epoll_event ev[WAKES_MAX];
    int n = epoll_wait(w->sleep_fd, ev, WAKES_MAX, timeout_ms);

    w->woken = 0;
    for (int i = 0; i < n; i++) {
        if (ev[i].data.fd == w->timer_fd)
            w->timer_at = 0; /* its edge is gone: the next sleep arms it again */
        else
            w->woken_fd[w->woken++] = ev[i].data.fd;
    }
    return w->woken;
}

bool worker_sleep(struct worker *w, ns_t now, ns_t limit)
{
    if (limit < COARSE_SLEEP)
        arm_timer(w, now, now + limit);
    return wait_for_wakes(w, (int)(max_of(limit, COARSE_SLEEP) / NS_PER_MS));
}

bool worker_was_woken(struct worker *w)
{
    return wait_for_wakes(w, 0);
}
