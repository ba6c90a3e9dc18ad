/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events for applications. Events that a session's event socket has no room for wait
 * as bits at the object that they are of, and are sent when the application has read others: none
 * is lost, and one that happens again while it waits is one event.
 */
#ifndef UROCE_DEVICE_ASYNC_H
#define UROCE_DEVICE_ASYNC_H

#include <stdint.h>
#include <sys/queue.h>

struct device;
struct session;

/* Events of an object that wait. All zero: none does. */
struct async_wait {
    TAILQ_ENTRY(async_wait) link; /* in the session's queue, while there are some */
    uint64_t element;             /* as in ctl_async_event */
    uint32_t events;              /* bits by ctl_async_event.type */
};
TAILQ_HEAD(async_queue, async_wait);

/* Events of a port: numeric values of enum ibv_event_type. */
enum port_event {
    PORT_EVENT_ACTIVE = 9,
    PORT_EVENT_ERR = 10,
    PORT_EVENT_GID_CHANGE = 18,
};

/* The port's events of a session: a port that went down before it came up is told so. */
enum async_port_wait { ASYNC_PORT_DOWN, ASYNC_PORT_UP, ASYNC_PORT_OTHER, ASYNC_PORT_WAITS };

/* Sends events (bits by enum qp_event) of an object to its application, or lets them wait. */
void async_tell(struct session *sn, struct async_wait *w, uint64_t element, uint32_t events);
/* The same, in later turns of the event loop: where many objects have an event at once. */
void async_tell_later(struct session *sn, struct async_wait *w, uint64_t element, uint32_t events);
/* Its object ends: the application has no use for them. */
void async_forget(struct session *sn, struct async_wait *w);
/* An event of the device's port, to all its applications. */
void async_port_event(struct device *d, enum port_event event);

/* Nothing watches the session's socket for room, so that another may watch it... */
void async_pause(struct session *sn);
/* ... until now. */
void async_resume(struct session *sn);

void async_open(struct session *sn);
/* What waits is dropped. */
void async_close(struct session *sn);

#endif
