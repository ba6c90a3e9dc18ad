/* SPDX-License-Identifier: BSD-3-Clause */
/* See connection.h. */
#include "control/connection_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/inherit.h"
#include "control/session_state.h"
#include "control/socket_end.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* The network answered, or an errand ended, so parked requests can be answered. */
static void retry_waiting(void *ctx)
{
    struct connections *cs = ctx;
    struct connection *cn, *next;

    for (cn = TAILQ_FIRST(&cs->waiting); cn; cn = next) {
        next = TAILQ_NEXT(cn, waiting);
        if (connection_is_busy(cn) || (cn->closing && !connection_may_end(cn)))
            continue;
        if (cn->closing)
            connection_end(cn);
        else
            connection_answer_again(cn);
    }
}

/* The process ended: its objects are destroyed, even if a child of it still holds the connection. A
 * connection without objects stays open: such a child may hold it to keep the daemon running
 * (`uroce run`). */
static void on_process(struct event_source *source, uint32_t events)
{
    struct connection *cn = container_of(source, struct connection, process);

    if (session_process_ended(cn->session)) {
        connection_left(cn);
        return;
    }
    event_loop_remove(connection_loop(cn), source);
    close(source->fd);
    source->fd = -1;
}

static int pidfd_of(int sock, pid_t pid)
{
    int fd = -1;
    socklen_t len = sizeof(fd);

    if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
        return fd;
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int peer_of(int sock, struct ucred *peer)
{
    socklen_t len = sizeof(*peer);

    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, peer, &len) ? -errno : 0;
}

void connection_allow_fds(int fd, bool allow)
{
    const int on = allow;

    setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
}

/* In a line of its own for each user: all those of the user's processes may wait. */
void connection_refuse(struct connections *cs, int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};

    peer_of(fd, &peer);
    peer.pid = -1;
    connection_send_refusal(fd, NULL, -ENOMEM);
    socket_end(cs->rnic->errands, &peer, fd, NULL, NULL, &cs->closing);
}

static struct connection *connection_create(struct connections *cs, const struct ucred *peer,
                                            int fd)
{
    struct connection *cn = calloc(1, sizeof(*cn));

    if (cn && !connection_has_too_many_errands(cs->rnic, peer->uid))
        cn->session = session_create(cs->rnic, peer);
    if (!cn || !cn->session) {
        free(cn);
        return NULL;
    }
    cn->session->socket = fd;
    cn->all = cs;
    cn->peer = *peer;
    cn->socket = (struct event_source){.fd = fd, .ready = connection_on_socket};
    cn->process = (struct event_source){.fd = pidfd_of(fd, peer->pid), .ready = on_process};
    cn->turn = turn_get(&cs->turns, cs->loop, peer, &cn->is_direct);
    TAILQ_INSERT_TAIL(&cs->list, cn, link);
    cs->count++;
    return cn;
}

int connection_open(struct connections *cs, int fd)
{
    struct connection *cn = NULL;
    struct ucred peer;
    int err = peer_of(fd, &peer);

    if (!err && !(cn = connection_create(cs, &peer, fd)))
        err = -ENOMEM;
    if (err) {
        connection_refuse(cs, fd);
        return err;
    }
    connection_allow_fds(fd, true);
    err = event_loop_add(connection_loop(cn), &cn->socket, EPOLLIN);
    if (!err && cn->process.fd >= 0)
        err = event_loop_add(connection_loop(cn), &cn->process, EPOLLIN);
    if (err)
        connection_close(cn);
    return err;
}

void connections_init(struct connections *cs, struct rnic *rnic, struct event_loop *loop)
{
    *cs = (struct connections){.rnic = rnic, .loop = loop, .idle_since = monotonic_seconds()};
    LIST_INIT(&cs->turns);
    TAILQ_INIT(&cs->list);
    TAILQ_INIT(&cs->waiting);
    heirs_init(&cs->heirs, loop);
    connection_reserve_fds(cs);
    rnic_on_retry(rnic, retry_waiting, cs);
}

bool connections_close(struct connections *cs, unsigned seconds)
{
    struct connection *cn, *next;
    time_t until = monotonic_seconds() + (time_t)seconds;

    for (cn = TAILQ_FIRST(&cs->list); cn; cn = next) {
        next = TAILQ_NEXT(cn, link);
        if (!cn->closing)
            connection_close(cn);
    }
    while (!TAILQ_EMPTY(&cs->list) && (TAILQ_EMPTY(&cs->waiting) || monotonic_seconds() <= until))
        event_loop_step(cs->loop, 100);
    while (cs->closing && monotonic_seconds() <= until)
        event_loop_step(cs->loop, 100);
    rnic_on_retry(cs->rnic, NULL, NULL);
    heirs_fini(&cs->heirs);
    return TAILQ_EMPTY(&cs->list) && !cs->closing;
}
