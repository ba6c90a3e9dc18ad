/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection as its files see it; each of them uses those before it: connection_end.c,
 * connection_receive.c (messages of the socket, with descriptors), connection_serve.c (requests and
 * their replies) and connection.c (all connections).
 */
#ifndef UROCE_DEVICE_CONNECTION_STATE_H
#define UROCE_DEVICE_CONNECTION_STATE_H

#include "control/connection.h"
#include "control/errand.h"
#include "event_loop.h"
#include "session.h"

struct connection {
    TAILQ_ENTRY(connection) link;
    struct connections *all;
    struct session *session;
    struct ucred peer;
    struct turn *turn; /* NULL: the server's loop, when descriptors are scarce */
    bool is_direct;    /* in the server's loop, too: turn.h */
    struct event_source socket;
    struct event_source process; /* pidfd, or fd -1 */
    bool parked;  /* the request below waits for the network; until then no other is read */
    bool closing; /* as soon as the session lets it */
    struct ctl_msg request;
    int fd[CTL_MAX_FDS];
    unsigned fds;
    TAILQ_ENTRY(connection) waiting; /* while is_waiting: parked or closing */
    bool is_waiting;
    struct heir_wait heir; /* for a child that goes on with the context */
    struct event_job end;  /* of a connection that is closed */
    struct errand drop; /* while is_dropping: of a message that is refused, with its descriptors */
    bool is_dropping;
    int drop_status;
};

/* ---- connection_end.c ---- */

struct event_loop *connection_loop(const struct connection *cn);
/* Closes descriptors that the application passed. */
void connection_close_passed(struct connection *cn, int *fd, unsigned *n);
void connection_set_waiting(struct connection *cn, bool waiting);
/* Whether a request of it runs on another thread. */
bool connection_is_busy(const struct connection *cn);
/* Whether nothing of it is in use any more, and then connection_end. */
bool connection_may_end(struct connection *cn);
void connection_end(struct connection *cn);
/* At once, unless a request runs on another thread, or other sessions have joined. */
void connection_close(struct connection *cn);
/* The process has ended or closed its socket. */
void connection_left(struct connection *cn);
/* cn's session has inherited another connection's, which ends. */
void connection_take_session(struct connection *cn, struct session *left);

/* ---- connection_receive.c ---- */

/* Once, before there are connections. */
void connection_reserve_fds(struct connections *cs);
/* Whether the user has too many errands for more descriptors to be taken. */
bool connection_has_too_many_errands(const struct rnic *r, uid_t uid);
/* The next message of the socket, with its descriptors, into cn. 0; -EAGAIN: there is none (yet);
 * or the error for which the connection must end. */
int connection_receive(struct connection *cn);
/* The last reply to a client that breaks the protocol, or (request NULL) may not have another
 * connection. */
void connection_send_refusal(int sock, const struct ctl_msg *request, int status);

/* ---- connection_serve.c ---- */

/* The socket's function in the loop. */
void connection_on_socket(struct event_source *source, uint32_t events);
/* The request in cn, which was parked, is dispatched again. */
void connection_answer_again(struct connection *cn);

#endif
