/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's connections: each receives requests for a session, and sends its replies. Control
 * thread. */
#ifndef UROCE_DEVICE_CONNECTION_H
#define UROCE_DEVICE_CONNECTION_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <time.h>

#include "control/heirs.h"
#include "control/turn.h"

struct connection;
struct event_loop;
struct rnic;

struct connections {
    struct rnic *rnic;
    struct event_loop *loop;
    TAILQ_HEAD(, connection) list, waiting; /* all; those that are parked, or closing */
    struct turn_list turns;
    struct heirs heirs;
    unsigned count;
    unsigned closing;       /* refused ones that are not yet closed */
    time_t idle_since;      /* when the last one ended */
    struct rlimit fd_limit; /* that a message's descriptors may use; see reserve_fds */
    rlim_t fd_limit_usual;
};

/* No connections. Requests are answered again when the rnic calls for it (rnic_on_retry). */
void connections_init(struct connections *cs, struct rnic *rnic, struct event_loop *loop);

/* Whether clients may send descriptors to a socket, or to those that it accepts from now on. Linux
 * 6.16 and later: before, they always may. */
void connection_allow_fds(int fd, bool allow);

/* A connection on an accepted socket, which is closed on failure. 0 or a negative errno. */
int connection_open(struct connections *cs, int fd);

/* Tells the client on an accepted socket that it may have no connection, and closes the socket. */
void connection_refuse(struct connections *cs, int fd);

/* Closes all connections, and waits for those whose requests run on another thread, for at most
 * this time. False: some have not ended, or a refused one is not closed; cs must stay. */
bool connections_close(struct connections *cs, unsigned seconds);

#endif
