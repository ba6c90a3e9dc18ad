/* SPDX-License-Identifier: BSD-3-Clause */
/* See notify.h. */
#include "control/notify.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/raised.h"
#include "control/session_state.h"
#include "objects/cq_channel.h"

/* Objects whose events are taken in one turn of the event loop. */
#define TURN_OBJECTS 64

static void notify_again(struct rnic *r)
{
    uint64_t one = 1;

    while (r->notify.fd >= 0 && write(r->notify.fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void on_notify(struct event_source *s, uint32_t events)
{
    struct rnic *r = container_of(s, struct rnic, notify);
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) < 0)
        return;
    if (raised_take_some(r, TURN_OBJECTS))
        notify_again(r);
    channels_deliver(r);
}

int notify_open(struct rnic *r)
{
    r->notify = (struct event_source){.fd = -1, .ready = on_notify};
    r->group.notify_fd = -1;
    if (!r->config.loop)
        return 0;
    r->notify.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->notify.fd < 0)
        return -errno;
    r->group.notify_fd = r->notify.fd;
    return event_loop_add(r->config.loop, &r->notify, EPOLLIN);
}
