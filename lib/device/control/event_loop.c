/* SPDX-License-Identifier: BSD-3-Clause */
/* See event_loop.h. */
#include "event_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct event_loop {
    int fd;
    TAILQ_HEAD(, event_job) jobs;
    TAILQ_HEAD(, event_job) late; /* event_loop_when_idle */
    unsigned turns;               /* since there are some */
};

struct event_loop *event_loop_create(int *err)
{
    struct event_loop *l = calloc(1, sizeof(*l));

    if (!l) {
        *err = -ENOMEM;
        return NULL;
    }
    TAILQ_INIT(&l->jobs);
    TAILQ_INIT(&l->late);
    l->fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->fd < 0) {
        *err = -errno;
        free(l);
        return NULL;
    }
    return l;
}

void event_loop_destroy(struct event_loop *l)
{
    close(l->fd);
    free(l);
}

int event_loop_fd(const struct event_loop *l)
{
    return l->fd;
}

int event_loop_add(struct event_loop *l, struct event_source *s, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};

    if (epoll_ctl(l->fd, s->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->fd, &ev))
        return -errno;
    s->added = true;
    return 0;
}

void event_loop_remove(struct event_loop *l, struct event_source *s)
{
    if (s->added)
        epoll_ctl(l->fd, EPOLL_CTL_DEL, s->fd, NULL);
    s->added = false;
}

void event_loop_start(struct event_loop *l, struct event_job *j)
{
    TAILQ_INSERT_TAIL(&l->jobs, j, link);
}

void event_loop_stop(struct event_loop *l, struct event_job *j)
{
    TAILQ_REMOVE(&l->jobs, j, link);
}

static bool run_slice(struct event_loop *l)
{
    struct event_job *j = TAILQ_FIRST(&l->jobs);

    if (!j)
        return false;
    TAILQ_REMOVE(&l->jobs, j, link);
    if (j->run(j))
        TAILQ_INSERT_TAIL(&l->jobs, j, link);
    return true;
}

void event_loop_when_idle(struct event_loop *l, struct event_job *j)
{
    if (TAILQ_EMPTY(&l->late))
        l->turns = 0;
    TAILQ_INSERT_TAIL(&l->late, j, link);
}

void event_loop_not_when_idle(struct event_loop *l, struct event_job *j)
{
    TAILQ_REMOVE(&l->late, j, link);
}

static bool run_late(struct event_loop *l, bool served)
{
    struct event_job *j = TAILQ_FIRST(&l->late);

    if (!j || (served && ++l->turns < EVENT_LOOP_BUSY))
        return false;
    do {
        TAILQ_REMOVE(&l->late, j, link);
        j->run(j);
    } while ((j = TAILQ_FIRST(&l->late)));
    return true;
}

bool event_loop_step(struct event_loop *l, int timeout_ms)
{
    int timeout = TAILQ_EMPTY(&l->jobs) && TAILQ_EMPTY(&l->late) ? timeout_ms : 0;
    struct epoll_event ev;
    bool served = epoll_wait(l->fd, &ev, 1, timeout) == 1;

    if (served)
        ((struct event_source *)ev.data.ptr)->ready(ev.data.ptr, ev.events);
    served |= run_late(l, served);
    return run_slice(l) || served;
}
