/* SPDX-License-Identifier: BSD-3-Clause */
/* See heirs.h. */
#include "control/heirs.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common.h"

time_t monotonic_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

/* The first one's time; none: the timer stops. */
static void set_timer(struct heirs *h)
{
    const struct heir_wait *first = TAILQ_FIRST(&h->waits);
    struct itimerspec when = {.it_value.tv_sec = first ? first->until : 0};

    timerfd_settime(h->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_timer(struct event_source *s, uint32_t events)
{
    struct heirs *h = container_of(s, struct heirs, timer);
    struct heir_wait *w;
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) < 0)
        return;
    while ((w = TAILQ_FIRST(&h->waits)) && w->until <= monotonic_seconds()) {
        heirs_forget(w);
        w->end(w);
    }
    set_timer(h);
}

/* Nothing can be received here: it is the end of the last process that had the socket. */
static void on_hangup(struct event_source *s, uint32_t events)
{
    struct heir_wait *w = container_of(s, struct heir_wait, async);

    heirs_forget(w);
    w->end(w);
}

void heirs_init(struct heirs *h, struct event_loop *loop)
{
    *h = (struct heirs){.loop = loop};
    h->timer = (struct event_source){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = on_timer};
    TAILQ_INIT(&h->waits);
    if (h->timer.fd >= 0 && event_loop_add(loop, &h->timer, EPOLLIN)) {
        close(h->timer.fd);
        h->timer.fd = -1;
    }
}

void heirs_fini(struct heirs *h)
{
    if (h->timer.fd < 0)
        return;
    event_loop_remove(h->loop, &h->timer);
    close(h->timer.fd);
    h->timer.fd = -1;
}

bool heirs_possible(int async_fd)
{
    struct pollfd p = {.fd = async_fd};

    return poll(&p, 1, 0) == 0;
}

int heirs_await(struct heirs *h, struct heir_wait *w, int async_fd)
{
    int err;

    if (h->timer.fd < 0)
        return -EMFILE;
    w->async = (struct event_source){.fd = async_fd, .ready = on_hangup};
    err = event_loop_add(h->loop, &w->async, 0);
    if (err)
        return err;
    w->all = h;
    w->until = monotonic_seconds() + HEIR_SECONDS;
    TAILQ_INSERT_TAIL(&h->waits, w, link);
    set_timer(h);
    return 0;
}

void heirs_forget(struct heir_wait *w)
{
    if (!w->all)
        return;
    event_loop_remove(w->all->loop, &w->async);
    TAILQ_REMOVE(&w->all->waits, w, link);
    w->all = NULL;
}
