/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Futexes; and how a worker sleeps and is woken.
 *
 * Each application wakes a worker by an eventfd of its own, and the worker sleeps in epoll_wait for
 * all of them. What an application does to its eventfd concerns its own wake-ups alone, and it has
 * nothing to do with what the worker sleeps on (doc/decisions/0017-eventfd-per-application.md). The
 * set is edge-triggered: each write wakes, and none has to be read.
 */
#include "worker_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* Eventfds that one sleep takes notice of; others end the next one. */
#define WAKES_MAX 32

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

int worker_wake_add(struct worker *w, int *fd)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    int err;

    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*fd < 0)
        return -errno;
    if (!epoll_ctl(w->sleep_fd, EPOLL_CTL_ADD, *fd, &ev))
        return 0;
    err = -errno;
    close(*fd);
    return err;
}

/* An application may keep its descriptor: a close alone would leave the eventfd in the set. */
void worker_wake_remove(struct worker *w, int fd)
{
    epoll_ctl(w->sleep_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

int worker_wake_open(struct worker *w)
{
    int err;

    w->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->sleep_fd < 0)
        return -errno;
    err = worker_wake_add(w, &w->kick_fd);
    if (err)
        close(w->sleep_fd);
    return err;
}

void worker_wake_close(struct worker *w)
{
    worker_wake_remove(w, w->kick_fd);
    close(w->sleep_fd);
}

void worker_kick(struct worker *w)
{
    uint64_t one = 1;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&w->armed, memory_order_relaxed) && atomic_exchange(&w->armed, 0))
        syscall(SYS_write, w->kick_fd, &one, sizeof(one));
}

/* epoll_wait alone counts in milliseconds. */
static int wait_without_pwait2(struct worker *w, struct epoll_event *ev, const struct timespec *ts)
{
    struct pollfd p = {.fd = w->sleep_fd, .events = POLLIN};

    return ppoll(&p, 1, ts, NULL) > 0 ? epoll_wait(w->sleep_fd, ev, WAKES_MAX, 0) : 0;
}

bool worker_sleep(struct worker *w, ns_t limit)
{
    struct timespec ts = timespec_of(limit);
    struct epoll_event ev[WAKES_MAX];
    long n = -1;

    if (!w->no_pwait2) {
        n = syscall(SYS_epoll_pwait2, w->sleep_fd, ev, WAKES_MAX, &ts, NULL, 0);
        /* Filters of system calls that are older than the call say EPERM. */
        w->no_pwait2 = n < 0 && (errno == ENOSYS || errno == EPERM);
    }
    if (w->no_pwait2)
        n = wait_without_pwait2(w, ev, &ts);
    return n > 0;
}
