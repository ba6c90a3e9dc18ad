/* SPDX-License-Identifier: BSD-3-Clause */
/* See async.h. */
#include "control/async.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "control/session_state.h"

/* Objects whose events are sent in one turn of the event loop. */
#define TURN_OBJECTS 16

/* False: the application has to read older events first. If it has closed its end, the event is
 * dropped. */
static bool send_event(const struct session *sn, uint64_t element, uint32_t type)
{
    struct ctl_async_event record = {.element = element, .type = type};
    ssize_t n;

    do
        n = send(sn->async_fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS);
}

/* False: some of them still wait. */
static bool send_waiting(const struct session *sn, struct async_wait *w)
{
    while (w->events) {
        if (!send_event(sn, w->element, (uint32_t)__builtin_ctz(w->events)))
            return false;
        w->events &= w->events - 1;
    }
    return true;
}

static void on_writable(struct event_source *s, uint32_t events)
{
    struct session *sn = container_of(s, struct session, async_room);
    struct async_wait *w;

    for (unsigned n = 0; n < TURN_OBJECTS && (w = TAILQ_FIRST(&sn->late_events)); n++) {
        if (!send_waiting(sn, w))
            return;
        TAILQ_REMOVE(&sn->late_events, w, link);
    }
    if (TAILQ_EMPTY(&sn->late_events))
        async_pause(sn);
}

void async_pause(struct session *sn)
{
    if (sn->async_room.added)
        event_loop_remove(sn->rnic->config.loop, &sn->async_room);
}

/* Without memory to watch the socket, the next event tries again. */
void async_resume(struct session *sn)
{
    if (sn->is_left || sn->async_room.added || TAILQ_EMPTY(&sn->late_events) ||
        !sn->rnic->config.loop)
        return;
    event_loop_add(sn->rnic->config.loop, &sn->async_room, EPOLLOUT);
}

void async_tell(struct session *sn, struct async_wait *w, uint64_t element, uint32_t events)
{
    bool waits = w->events != 0;

    w->element = element;
    w->events |= events;
    if (TAILQ_EMPTY(&sn->late_events) && send_waiting(sn, w))
        return;
    if (!waits)
        TAILQ_INSERT_TAIL(&sn->late_events, w, link);
    async_resume(sn);
}

void async_tell_later(struct session *sn, struct async_wait *w, uint64_t element, uint32_t events)
{
    if (!w->events)
        TAILQ_INSERT_TAIL(&sn->late_events, w, link);
    w->element = element;
    w->events |= events;
    async_resume(sn);
}

void async_forget(struct session *sn, struct async_wait *w)
{
    if (!w->events)
        return;
    w->events = 0;
    TAILQ_REMOVE(&sn->late_events, w, link);
    if (TAILQ_EMPTY(&sn->late_events))
        async_pause(sn);
}

/* ---- the port ---- */

static enum async_port_wait port_wait_of(enum port_event event)
{
    return event == PORT_EVENT_ERR      ? ASYNC_PORT_DOWN
           : event == PORT_EVENT_ACTIVE ? ASYNC_PORT_UP
                                        : ASYNC_PORT_OTHER;
}

/* A port that is down again has not come up for an application that has not read so. */
void async_port_event(struct device *d, enum port_event event)
{
    for (struct session *sn = session_next(d, NULL); sn; sn = session_next(d, sn)) {
        if (event == PORT_EVENT_ERR)
            async_forget(sn, &sn->port_wait[ASYNC_PORT_UP]);
        async_tell(sn, &sn->port_wait[port_wait_of(event)], 1, 1u << event);
    }
}

/* ---- the socket ---- */

void async_open(struct session *sn)
{
    sn->async_room = (struct event_source){.fd = sn->async_fd, .ready = on_writable};
}

void async_close(struct session *sn)
{
    for (unsigned i = 0; i < ASYNC_PORT_WAITS; i++)
        async_forget(sn, &sn->port_wait[i]);
}
