/* SPDX-License-Identifier: BSD-3-Clause */
/* See notify.h. */
#include "control/notify.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/async.h"
#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/qp_open.h"
#include "objects/steer.h"

void notify_async(struct rnic *r)
{
    struct dp_async e;

    for (unsigned i = 0; i < r->workers; i++) {
        while (worker_take_async(r->worker[i], &e)) {
            if (e.type == DP_ASYNC_MISPLACED)
                steer_misplaced(e.ctx->owner, (uint32_t)e.element, e.worker);
            else if (!qp_handles_event(&e))
                async_send(r, &e);
        }
    }
}

static void on_notify(struct event_source *s, uint32_t events)
{
    struct rnic *r = container_of(s, struct rnic, notify);
    uint64_t count;

    if (read(s->fd, &count, sizeof(count)) < 0)
        return;
    notify_async(r);
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
