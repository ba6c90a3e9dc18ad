/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a connection's socket, and the descriptors that they bring. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "control/connection_state.h"
#include "control/session_state.h"

/* Errands of a user that have not ended, after which no more descriptors are taken from that user.
 */
#define PENDING_MAX UINT64_C(4096)

/* The last reply to a client that breaks the protocol, or (request NULL) may not have another
 * connection. */
void connection_send_refusal(int sock, const struct ctl_msg *request, int status)
{
    struct ctl_msg reply = {.magic = CTL_MAGIC, .version = CTL_VERSION, .status = status};

    if (status == -EPROTONOSUPPORT) {
        reply.type = request->type;
        reply.seq = request->seq;
    }
    ctl_send(sock, &reply, NULL, 0, MSG_DONTWAIT);
}

/*
 * A descriptor that an application passed may block the thread that closes it, so the control
 * thread lets the kernel close none. There is room for all descriptors that a message can have, and
 * free numbers for them: apart from this call the limit is lower by as many.
 */
void connection_reserve_fds(struct connections *cs)
{
    rlim_t reserve = CTL_ANY_FDS + ERRAND_USER_THREADS;
    struct rlimit lower;

    if (getrlimit(RLIMIT_NOFILE, &cs->fd_limit))
        cs->fd_limit.rlim_cur = 0;
    lower = cs->fd_limit;
    if (lower.rlim_cur > 4 * reserve)
        lower.rlim_cur -= reserve;
    cs->fd_limit_usual = lower.rlim_cur;
    if (lower.rlim_cur != cs->fd_limit.rlim_cur)
        setrlimit(RLIMIT_NOFILE, &lower);
}

static void set_fd_limit(struct connections *cs, rlim_t limit)
{
    struct rlimit l = {.rlim_cur = limit, .rlim_max = cs->fd_limit.rlim_max};

    if (cs->fd_limit_usual != cs->fd_limit.rlim_cur)
        setrlimit(RLIMIT_NOFILE, &l);
}

/* Each may be the close of a descriptor that waits: at most half as many as the user may have
 * otherwise. */
bool connection_has_too_many_errands(const struct rnic *r, uid_t uid)
{
    uint64_t descriptors = quota_user_limit(&r->quota, uid, QUOTA_DESCRIPTOR);

    return errands_pending(r->errands, uid) >= min_of(PENDING_MAX, descriptors / 2);
}

/* Receives a message that has descriptors, of a type that may have some. */
static int receive_fds(struct connection *cn)
{
    struct connections *cs = cn->all;
    int fd[CTL_ANY_FDS], err;
    unsigned n;

    if (connection_has_too_many_errands(cs->rnic, cn->peer.uid))
        return -EBUSY;
    set_fd_limit(cs, cs->fd_limit.rlim_cur);
    err = ctl_recv_any(cn->socket.fd, &cn->request, fd, &n, MSG_DONTWAIT);
    set_fd_limit(cs, cs->fd_limit_usual);
    if (err) {
        connection_close_passed(cn, fd, &n);
        return err == -EMFILE ? -EPROTO : err;
    }
    memcpy(cn->fd, fd, n * sizeof(*fd));
    cn->fds = n;
    return 0;
}

/* ---- messages with descriptors that nothing takes ---- */

/* Without room for descriptors the kernel releases them, and asks no file system for its consent.
 */
static void run_drop(struct errand *e)
{
    struct connection *cn = container_of(e, struct connection, drop);

    recv(cn->socket.fd, NULL, 0, MSG_DONTWAIT);
}

static void drop_done(struct errand *e)
{
    struct connection *cn = container_of(e, struct connection, drop);
    struct ctl_msg reply = cn->request;

    cn->is_dropping = false;
    reply.version = CTL_VERSION;
    reply.status = cn->drop_status;
    if (cn->closing) {
        if (connection_may_end(cn))
            connection_end(cn);
        return;
    }
    if (cn->drop_status != -EINVAL)
        connection_send_refusal(cn->socket.fd, &cn->request, cn->drop_status);
    else if (!ctl_send(cn->socket.fd, &reply, NULL, 0, MSG_DONTWAIT) &&
             !event_loop_add(connection_loop(cn), &cn->socket, EPOLLIN))
        return;
    connection_close(cn);
}

/* Then answers with the status, and closes the connection unless that is -EINVAL. */
static void drop_message(struct connection *cn, int status)
{
    event_loop_remove(connection_loop(cn), &cn->socket);
    cn->is_dropping = true;
    cn->drop_status = status;
    cn->drop = (struct errand){.run = run_drop, .done = drop_done, .is_close = true};
    errands_post(cn->all->rnic->errands, &cn->peer, &cn->drop);
}

/* -EAGAIN: there is none (yet). */
static int receive_message(struct connection *cn)
{
    bool has_fds;
    int err = ctl_peek(cn->socket.fd, &cn->request, &has_fds, MSG_DONTWAIT);

    if (err == -EAGAIN || err == -ECONNRESET)
        return err;
    if (!has_fds) { /* it has been read, and need not be copied again */
        recv(cn->socket.fd, NULL, 0, MSG_DONTWAIT);
        return err;
    }
    if (!err && session_takes_fds(cn->request.type))
        return receive_fds(cn);
    drop_message(cn, err ? err : -EINVAL);
    return -EAGAIN;
}

int connection_receive(struct connection *cn)
{
    int err = receive_message(cn);

    if (err == -EAGAIN || err == -EINTR)
        return -EAGAIN;
    if (err == -EPROTO || err == -EPROTONOSUPPORT || err == -EBUSY)
        connection_send_refusal(cn->socket.fd, &cn->request, err);
    return err;
}
