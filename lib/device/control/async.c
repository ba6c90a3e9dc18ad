/* SPDX-License-Identifier: BSD-3-Clause */
/* See async.h. */
#include "control/async.h"

#include <errno.h>
#include <sys/socket.h>

#include "control/session_state.h"

/* The socket's buffer is the bound: an application that does not read loses events, which are
 * counted. */
void async_send(struct rnic *r, const struct dp_async *e)
{
    struct ctl_async_event record = {.element = e->element, .type = e->type};
    struct session *sn = e->ctx->owner;
    ssize_t n;

    do
        n = send(sn->async_fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        r->async_dropped++;
}

void async_event(struct session *sn, uint64_t element, uint32_t type)
{
    struct dp_async e = {.ctx = &sn->ctx[0], .element = element, .type = type};

    async_send(sn->rnic, &e);
}

void async_port_event(struct device *d, enum port_event event)
{
    for (struct session *sn = session_next(d, NULL); sn; sn = session_next(d, sn))
        async_event(sn, 1, event);
}
