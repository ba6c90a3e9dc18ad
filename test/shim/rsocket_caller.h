/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that sleeps in a call of rsockets. */
#ifndef UROCE_TEST_RSOCKET_CALLER_H
#define UROCE_TEST_RSOCKET_CALLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rsocket_pair.h"

/* A thread that makes one call. */
struct caller {
    void (*call)(int s);
    int s;
    pthread_t thread;
    atomic_int tid;
};

static inline void *run(void *arg)
{
    struct caller *c = arg;

    atomic_store(&c->tid, (int)syscall(SYS_gettid));
    c->call(c->s);
    return NULL;
}

/* The system call that a thread is blocked in, or -1. */
static inline int blocked_in(int tid)
{
    char name[64];
    int call = -1;
    FILE *f;

    snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", tid);
    f = fopen(name, "r");
    assert_non_null(f);
    if (fscanf(f, "%d", &call) != 1)
        call = -1; /* "running" */
    fclose(f);
    return call;
}

static inline void begin(struct caller *c, void (*call)(int s), int s)
{
    *c = (struct caller){.call = call, .s = s};
    assert_int_equal(pthread_create(&c->thread, NULL, run, c), 0);
}

static inline bool is_poll(int call)
{
#ifdef SYS_poll
    if (call == SYS_poll)
        return true;
#endif
    return call == SYS_ppoll;
}

/* The call sleeps in poll(2), or waits for another thread in futex(2). The polling of completions
 * before a sleep uses that, too. */
static inline void await_sleep(struct caller *c, bool behind_another)
{
    struct timespec since;
    int call = -1;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while (behind_another ? call != SYS_futex : !is_poll(call)) {
        assert_true(elapsed_ms(&since) < WAIT_MS);
        usleep(1000);
        call = atomic_load(&c->tid) ? blocked_in(atomic_load(&c->tid)) : -1;
    }
}

static inline void *result_of(const struct caller *c)
{
    struct timespec until;
    void *result;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    assert_int_equal(pthread_timedjoin_np(c->thread, &result, &until), 0);
    return result;
}

#endif
