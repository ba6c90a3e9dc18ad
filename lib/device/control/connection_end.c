/* SPDX-License-Identifier: BSD-3-Clause */
/* What all files of a connection use, and its end. */
#include <stdlib.h>
#include <unistd.h>

#include "control/connection_state.h"
#include "control/inherit.h"
#include "control/session_state.h"

struct event_loop *connection_loop(const struct connection *cn)
{
    return cn->turn && !cn->is_direct ? cn->turn->loop : cn->all->loop;
}

/* Those that the application passed. */
void connection_close_passed(struct connection *cn, int *fd, unsigned *n)
{
    while (*n)
        errands_close(cn->all->rnic->errands, &cn->peer, fd[--*n]);
}

void connection_set_waiting(struct connection *cn, bool waiting)
{
    if (waiting == cn->is_waiting)
        return;
    cn->is_waiting = waiting;
    if (waiting)
        TAILQ_INSERT_TAIL(&cn->all->waiting, cn, waiting);
    else
        TAILQ_REMOVE(&cn->all->waiting, cn, waiting);
}

static void connection_free(struct connection *cn)
{
    struct connections *cs = cn->all;

    if (cn->process.fd >= 0)
        close(cn->process.fd);
    if (cn->turn)
        turn_put(cn->turn, cn->is_direct);
    TAILQ_REMOVE(&cs->list, cn, link);
    if (!--cs->count)
        cs->idle_since = monotonic_seconds();
    free(cn);
}

static bool end_some(struct event_job *j)
{
    struct connection *cn = container_of(j, struct connection, end);

    if (session_close_some(cn->session)) /* and at the end the socket */
        return true;
    connection_free(cn);
    return false;
}

/* What the application has may be much: after the first slice others are served in between. */
void connection_end(struct connection *cn)
{
    connection_set_waiting(cn, false);
    connection_close_passed(cn, cn->fd, &cn->fds);
    cn->end.run = end_some;
    if (end_some(&cn->end))
        event_loop_start(cn->all->loop, &cn->end);
}

bool connection_is_busy(const struct connection *cn)
{
    return cn->is_dropping || session_busy(cn->session);
}

/* Other sessions may still use its objects, though not its memory. */
bool connection_may_end(struct connection *cn)
{
    if (connection_is_busy(cn))
        return false;
    if (session_is_joined(cn->session))
        session_process_ended(cn->session);
    return !session_is_joined(cn->session);
}

/* Nothing of it is read any more. */
static void stop_reading(struct connection *cn)
{
    if (cn->turn && cn->turn->posting == cn)
        cn->turn->posting = NULL;
    event_loop_remove(connection_loop(cn), &cn->socket);
    event_loop_remove(connection_loop(cn), &cn->process);
}

/* At once, unless a request runs on another thread, or other sessions have joined. */
void connection_close(struct connection *cn)
{
    stop_reading(cn);
    heirs_forget(&cn->heir);
    cn->closing = true;
    if (connection_may_end(cn))
        connection_end(cn);
    else
        connection_set_waiting(cn, true);
}

static void heir_ends(struct heir_wait *w)
{
    connection_close(container_of(w, struct connection, heir));
}

/* The process has ended or closed its socket. That closes the descriptors of the context, too,
 * unless a child has inherited them. */
void connection_left(struct connection *cn)
{
    int async_fd = connection_is_busy(cn) || cn->parked ? -1 : session_leave(cn->session);

    stop_reading(cn);
    cn->heir = (struct heir_wait){.end = heir_ends};
    if (async_fd < 0 || !heirs_possible(async_fd) ||
        heirs_await(&cn->all->heirs, &cn->heir, async_fd))
        connection_close(cn);
}

/* cn's session has inherited another connection's, which ends. If that waits for its end already,
 * it stays among those that wait, through which the caller may be going. */
void connection_take_session(struct connection *cn, struct session *left)
{
    struct connection *from;

    TAILQ_FOREACH (from, &cn->all->list, link)
        if (from->session == left)
            break;
    heirs_forget(&from->heir);
    session_inherit(left, cn->session);
    from->session = cn->session;
    cn->session = left;
    if (from->closing)
        rnic_retry_later(cn->all->rnic);
    else
        connection_close(from);
}
