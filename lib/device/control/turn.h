/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes take turns: the connections of a process have an event loop of their own within the
 * server's, which serves one event of it, and then one of another process. A loop within a loop
 * costs a system call for each message, so the first TURN_DIRECT connections of a process, which
 * are all that most programs have, are in the server's loop itself. However many connections a
 * process has, TURN_DIRECT + 1 of its messages are served between two of another one.
 */
#ifndef UROCE_DEVICE_TURN_H
#define UROCE_DEVICE_TURN_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "event_loop.h"

/* One of librdmacm, and one of a device. */
#define TURN_DIRECT 2

struct connection;

/* The loop of a process. */
struct turn {
    LIST_ENTRY(turn) link;
    struct event_loop *outer, *loop;
    struct event_source source; /* the loop, in the outer one */
    struct ucred peer;
    unsigned refs;              /* connections */
    unsigned direct;            /* of them, those in the outer loop */
    struct connection *posting; /* the one that may have requests without a reply, or NULL */
};

LIST_HEAD(turn_list, turn);

/* The loop of a process, for one more connection, which belongs into the outer loop if *is_direct.
 * NULL: no memory or descriptor is left. */
struct turn *turn_get(struct turn_list *list, struct event_loop *outer, const struct ucred *peer,
                      bool *is_direct);
/* The connection, for which turn_get has said is_direct, watches nothing in it any more. */
void turn_put(struct turn *t, bool is_direct);

#endif
