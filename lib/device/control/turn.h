/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes take turns: the connections of a process have an event loop of their own within the
 * server's, which serves one event of it, and then one of another process.
 */
#ifndef UROCE_DEVICE_TURN_H
#define UROCE_DEVICE_TURN_H

#include <sys/queue.h>
#include <sys/socket.h>

#include "event_loop.h"

/* The loop of a process. */
struct turn {
    LIST_ENTRY(turn) link;
    struct event_loop *outer, *loop;
    struct event_source source; /* the loop, in the outer one */
    struct ucred peer;
    unsigned refs; /* connections */
};

LIST_HEAD(turn_list, turn);

/* The loop of a process, for one more connection. NULL: no memory or descriptor is left. */
struct turn *turn_get(struct turn_list *list, struct event_loop *outer, const struct ucred *peer);
/* The connection watches nothing in it any more. */
void turn_put(struct turn *t);

#endif
