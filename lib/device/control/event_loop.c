/* SPDX-License-Identifier: BSD-3-Clause */
/* See event_loop.h. */
#include "event_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct event_loop {
    int fd;
};

struct event_loop *event_loop_create(int *err)
{
    struct event_loop *l = calloc(1, sizeof(*l));

    if (!l) {
        *err = -ENOMEM;
        return NULL;
    }
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

bool event_loop_step(struct event_loop *l, int timeout_ms)
{
    struct epoll_event ev;

    if (epoll_wait(l->fd, &ev, 1, timeout_ms) != 1)
        return false;
    ((struct event_source *)ev.data.ptr)->ready(ev.data.ptr, ev.events);
    return true;
}
