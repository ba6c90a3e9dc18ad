/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many CPUs workers and applications share: see device_state.h. Each process is asked when it
 * connects. When some have left, all others are asked again, once in a second at most: a program
 * may have thousands of connections.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "control/session_state.h"
#include "cpus.h"

#define RECOUNT_SECONDS 1

static void count_all(struct rnic *r)
{
    struct session *sn;
    pid_t last = 0;

    cpus_begin(&r->cpus);
    TAILQ_FOREACH (sn, &r->sessions, link) {
        if (sn->peer.pid != last)
            cpus_add(&r->cpus, sn->peer.pid);
        last = sn->peer.pid;
    }
    atomic_store(&r->group.cpus, cpus_count(&r->cpus));
}

static void on_timer(struct event_source *s, uint32_t events)
{
    struct rnic *r = container_of(s, struct rnic, cpu_timer);
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) == sizeof(count))
        count_all(r);
}

int cpu_count_open(struct rnic *r)
{
    r->cpu_timer = (struct event_source){.fd = -1, .ready = on_timer};
    count_all(r);
    if (!r->config.loop)
        return 0;
    r->cpu_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->cpu_timer.fd < 0)
        return -errno;
    return event_loop_add(r->config.loop, &r->cpu_timer, EPOLLIN);
}

void cpu_count_close(struct rnic *r)
{
    if (r->cpu_timer.fd <= 0) /* 0: it was never opened */
        return;
    event_loop_remove(r->config.loop, &r->cpu_timer);
    close(r->cpu_timer.fd);
}

void cpu_count_add(struct rnic *r, pid_t pid)
{
    cpu_set_t before = r->cpus;

    cpus_add(&r->cpus, pid);
    if (!CPU_EQUAL(&before, &r->cpus))
        atomic_store(&r->group.cpus, cpus_count(&r->cpus));
}

void cpu_count_leave(struct rnic *r)
{
    struct itimerspec when;

    if (r->cpu_timer.fd < 0) {
        count_all(r);
        return;
    }
    if (!timerfd_gettime(r->cpu_timer.fd, &when) && !when.it_value.tv_sec &&
        !when.it_value.tv_nsec) {
        when = (struct itimerspec){.it_value.tv_sec = RECOUNT_SECONDS};
        timerfd_settime(r->cpu_timer.fd, 0, &when, NULL);
    }
}
