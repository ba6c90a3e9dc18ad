/* SPDX-License-Identifier: BSD-3-Clause */
/* See connection.h. */
#include "control/connection.h"

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

/* Errands of a user that have not ended, after which no more descriptors are taken from that user.
 */
#define PENDING_MAX UINT64_C(4096)

/* Posted requests of a process that are served in a turn of another one of its connections. */
#define POSTS_MAX 8

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

/* ---- connections ---- */

static struct event_loop *loop_of(const struct connection *cn)
{
    return cn->turn && !cn->is_direct ? cn->turn->loop : cn->all->loop;
}

/* Those of the daemon's own files. */
static void close_fds(int *fd, unsigned *n)
{
    while (*n)
        close(fd[--*n]);
}

/* Those that the application passed. */
static void close_passed(struct connection *cn, int *fd, unsigned *n)
{
    while (*n)
        errands_close(cn->all->rnic->errands, &cn->peer, fd[--*n]);
}

static void set_waiting(struct connection *cn, bool waiting)
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
static void connection_end(struct connection *cn)
{
    set_waiting(cn, false);
    close_passed(cn, cn->fd, &cn->fds);
    cn->end.run = end_some;
    if (end_some(&cn->end))
        event_loop_start(cn->all->loop, &cn->end);
}

static bool is_busy(const struct connection *cn)
{
    return cn->is_dropping || session_busy(cn->session);
}

/* Other sessions may still use its objects, though not its memory. */
static bool may_end(struct connection *cn)
{
    if (is_busy(cn))
        return false;
    if (session_is_joined(cn->session))
        session_process_ended(cn->session);
    return !session_is_joined(cn->session);
}

/* Nothing of it is read any more. */
static void forget_posting(struct connection *cn)
{
    if (cn->turn && cn->turn->posting == cn)
        cn->turn->posting = NULL;
}

/* At once, unless a request runs on another thread, or other sessions have joined. */
static void connection_close(struct connection *cn)
{
    forget_posting(cn);
    event_loop_remove(loop_of(cn), &cn->socket);
    event_loop_remove(loop_of(cn), &cn->process);
    heirs_forget(&cn->heir);
    cn->closing = true;
    if (may_end(cn))
        connection_end(cn);
    else
        set_waiting(cn, true);
}

static void heir_ends(struct heir_wait *w)
{
    connection_close(container_of(w, struct connection, heir));
}

/* The process has ended or closed its socket. That closes the descriptors of the context, too,
 * unless a child has inherited them. */
static void connection_left(struct connection *cn)
{
    int async_fd = is_busy(cn) || cn->parked ? -1 : session_leave(cn->session);

    forget_posting(cn);
    event_loop_remove(loop_of(cn), &cn->socket);
    event_loop_remove(loop_of(cn), &cn->process);
    cn->heir = (struct heir_wait){.end = heir_ends};
    if (async_fd < 0 || !heirs_possible(async_fd) ||
        heirs_await(&cn->all->heirs, &cn->heir, async_fd))
        connection_close(cn);
}

/* cn's session has inherited another connection's, which ends. */
static void take_session(struct connection *cn, struct session *left)
{
    struct connection *from;

    TAILQ_FOREACH (from, &cn->all->list, link)
        if (from->session == left)
            break;
    session_inherit(left, cn->session);
    from->session = cn->session;
    cn->session = left;
    connection_close(from);
}

/* The last reply to a client that breaks the protocol, or (request NULL) may not have another
 * connection. */
static void send_refusal(int sock, const struct ctl_msg *request, int status)
{
    struct ctl_msg reply = {.magic = CTL_MAGIC, .version = CTL_VERSION, .status = status};

    if (status == -EPROTONOSUPPORT) {
        reply.type = request->type;
        reply.seq = request->seq;
    }
    ctl_send(sock, &reply, NULL, 0, MSG_DONTWAIT);
}

/* A posted request has none. 0 or a negative errno. */
static int send_reply(struct connection *cn, const struct ctl_call *call)
{
    if (cn->request.seq)
        return ctl_send(cn->socket.fd, &call->reply, call->out_fd, call->out_fds, MSG_DONTWAIT);
    if (call->reply.status)
        session_post_failed(cn->session, &cn->request, call->reply.status);
    return 0;
}

/* Answers the request in cn, or parks it. Returns 0, or the error for which the connection must
 * end. */
static int answer_request(struct connection *cn)
{
    struct ctl_call call = {
        .request = &cn->request, .in_fd = cn->fd, .in_fds = cn->fds, .again = cn->parked};
    struct event_loop *loop = loop_of(cn);
    bool was_parked = cn->parked;
    int err;

    /* Also before the first one: librdmacm makes a channel, and then posts. */
    if (cn->turn && (!cn->request.seq || cn->request.type == CTL_CM_CREATE_CHANNEL))
        cn->turn->posting = cn;
    session_dispatch(cn->session, &call);
    cn->parked = call.reply.status == -EINPROGRESS;
    set_waiting(cn, cn->parked);
    if (!call.reply.status && cn->session->inherits)
        take_session(cn, cn->session->inherits);
    if (cn->parked) /* until it is answered, only the end of the connection matters */
        return was_parked ? 0 : event_loop_add(loop, &cn->socket, EPOLLRDHUP);
    err = send_reply(cn, &call);
    close_fds(call.out_fd, &call.out_fds);
    close_passed(cn, cn->fd, &cn->fds);
    if (!err && was_parked)
        err = event_loop_add(loop, &cn->socket, EPOLLIN);
    return err;
}

/*
 * A descriptor that an application passed may block the thread that closes it, so the control
 * thread lets the kernel close none. There is room for all descriptors that a message can have, and
 * free numbers for them: apart from this call the limit is lower by as many.
 */
static void reserve_fds(struct connections *cs)
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
static bool has_too_many_errands(const struct rnic *r, uid_t uid)
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

    if (has_too_many_errands(cs->rnic, cn->peer.uid))
        return -EBUSY;
    set_fd_limit(cs, cs->fd_limit.rlim_cur);
    err = ctl_recv_any(cn->socket.fd, &cn->request, fd, &n, MSG_DONTWAIT);
    set_fd_limit(cs, cs->fd_limit_usual);
    if (err) {
        close_passed(cn, fd, &n);
        return err;
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
        if (may_end(cn))
            connection_end(cn);
        return;
    }
    if (cn->drop_status != -EINVAL)
        send_refusal(cn->socket.fd, &cn->request, cn->drop_status);
    else if (!ctl_send(cn->socket.fd, &reply, NULL, 0, MSG_DONTWAIT) &&
             !event_loop_add(loop_of(cn), &cn->socket, EPOLLIN))
        return;
    connection_close(cn);
}

/* Then answers with the status, and closes the connection unless that is -EINVAL. */
static void drop_message(struct connection *cn, int status)
{
    event_loop_remove(loop_of(cn), &cn->socket);
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

/* Returns 0; -EAGAIN: there is none (yet); or the error for which the connection must end. */
static int receive_request(struct connection *cn)
{
    int err;

    if (cn->parked)
        return -ECONNRESET;
    err = receive_message(cn);
    if (err == -EAGAIN || err == -EINTR)
        return -EAGAIN;
    if (err == -EPROTO || err == -EPROTONOSUPPORT || err == -EBUSY)
        send_refusal(cn->socket.fd, &cn->request, err);
    return err ? err : answer_request(cn);
}

static int serve_one(struct connection *cn)
{
    int err = receive_request(cn);

    if (err == -ECONNRESET)
        connection_left(cn);
    else if (err && err != -EAGAIN)
        connection_close(cn);
    return err;
}

/* What the process has posted on another connection comes before what it asks on this one. False:
 * there is more of it than fits in a turn. What waits is not waited for. */
static bool posts_are_served(const struct connection *cn)
{
    struct connection *posting = cn->turn ? cn->turn->posting : NULL;

    if (!posting || posting == cn)
        return true;
    for (unsigned i = 0; i < POSTS_MAX; i++)
        if (posting->parked || posting->is_dropping || serve_one(posting))
            return true;
    return false;
}

static void on_socket(struct event_source *source, uint32_t events)
{
    struct connection *cn = container_of(source, struct connection, socket);

    if (posts_are_served(cn))
        serve_one(cn);
}

/* The network answered, or an errand ended, so parked requests can be answered. */
static void retry_waiting(void *ctx)
{
    struct connections *cs = ctx;
    struct connection *cn, *next;

    for (cn = TAILQ_FIRST(&cs->waiting); cn; cn = next) {
        next = TAILQ_NEXT(cn, waiting);
        if (is_busy(cn) || (cn->closing && !may_end(cn)))
            continue;
        if (cn->closing)
            connection_end(cn);
        else if (answer_request(cn))
            connection_close(cn);
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
    event_loop_remove(loop_of(cn), source);
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

/* In a line of its own for each user: all those of the user's processes may wait. */
void connection_refuse(struct connections *cs, int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};

    peer_of(fd, &peer);
    peer.pid = -1;
    send_refusal(fd, NULL, -ENOMEM);
    socket_end(cs->rnic->errands, &peer, fd, NULL, NULL, &cs->closing);
}

static struct connection *connection_create(struct connections *cs, const struct ucred *peer,
                                            int fd)
{
    struct connection *cn = calloc(1, sizeof(*cn));

    if (cn && !has_too_many_errands(cs->rnic, peer->uid))
        cn->session = session_create(cs->rnic, peer);
    if (!cn || !cn->session) {
        free(cn);
        return NULL;
    }
    cn->session->socket = fd;
    cn->all = cs;
    cn->peer = *peer;
    cn->socket = (struct event_source){.fd = fd, .ready = on_socket};
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
    err = event_loop_add(loop_of(cn), &cn->socket, EPOLLIN);
    if (!err && cn->process.fd >= 0)
        err = event_loop_add(loop_of(cn), &cn->process, EPOLLIN);
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
    reserve_fds(cs);
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
