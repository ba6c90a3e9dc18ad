/* SPDX-License-Identifier: BSD-3-Clause */
/* See server.h. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct connection {
    TAILQ_ENTRY(connection) link;
    struct server *server;
    struct session *session;
    struct event_source socket;
    struct event_source process; /* pidfd, or fd -1 */
    bool parked; /* the request below waits for the network; until then no other is read */
    struct ctl_msg request;
    int fd[CTL_MAX_FDS];
    unsigned fds;
};

struct server {
    struct server_config config;
    struct event_source listener, stop;
    struct sockaddr_un addr;
    TAILQ_HEAD(, connection) connections;
    unsigned connection_count;
    int spare_fd; /* closed to refuse a connection when descriptors run out */
    bool stopping;
    time_t idle_since;
};

static time_t monotonic_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

/* ---- connections ---- */

static void close_fds(int *fd, unsigned *n)
{
    while (*n)
        close(fd[--*n]);
}

static void connection_close(struct connection *cn)
{
    struct server *s = cn->server;

    event_loop_remove(s->config.loop, &cn->socket);
    event_loop_remove(s->config.loop, &cn->process);
    if (cn->session)
        session_close(cn->session);
    close_fds(cn->fd, &cn->fds);
    close(cn->socket.fd);
    if (cn->process.fd >= 0)
        close(cn->process.fd);
    TAILQ_REMOVE(&s->connections, cn, link);
    if (!--s->connection_count)
        s->idle_since = monotonic_seconds();
    free(cn);
}

/* The last reply to a client that breaks the protocol. */
static void send_refusal(struct connection *cn, const struct ctl_msg *request, int status)
{
    struct ctl_msg reply = {.magic = CTL_MAGIC, .version = CTL_VERSION, .status = status};

    if (status == -EPROTONOSUPPORT) {
        reply.type = request->type;
        reply.seq = request->seq;
    }
    ctl_send(cn->socket.fd, &reply, NULL, 0, MSG_DONTWAIT);
}

/* Answers the request in cn, or parks it. Returns 0, or the error for which the connection must
 * end. */
static int answer_request(struct connection *cn)
{
    struct ctl_call call = {.request = &cn->request, .in_fd = cn->fd, .in_fds = cn->fds};
    struct event_loop *loop = cn->server->config.loop;
    bool was_parked = cn->parked;
    int err;

    session_dispatch(cn->session, &call);
    cn->parked = call.reply.status == -EINPROGRESS;
    if (cn->parked) /* until it is answered, only the end of the connection matters */
        return was_parked ? 0 : event_loop_add(loop, &cn->socket, EPOLLRDHUP);
    err = ctl_send(cn->socket.fd, &call.reply, call.out_fd, call.out_fds, MSG_DONTWAIT);
    close_fds(call.out_fd, &call.out_fds);
    close_fds(cn->fd, &cn->fds);
    if (!err && was_parked)
        err = event_loop_add(loop, &cn->socket, EPOLLIN);
    return err;
}

/* Returns 0, or the error for which the connection must end. */
static int receive_request(struct connection *cn)
{
    int err;

    if (cn->parked)
        return -ECONNRESET;
    err = ctl_recv(cn->socket.fd, &cn->request, cn->fd, &cn->fds, MSG_DONTWAIT);
    if (err)
        cn->fds = 0;
    if (err == -EAGAIN || err == -EINTR)
        return 0;
    if (err == -EPROTO || err == -EPROTONOSUPPORT)
        send_refusal(cn, &cn->request, err);
    return err ? err : answer_request(cn);
}

static void on_socket(struct event_source *source, uint32_t events)
{
    struct connection *cn = container_of(source, struct connection, socket);

    if (receive_request(cn))
        connection_close(cn);
}

/* The network answered, so parked requests can be answered. */
static void retry_parked(void *ctx)
{
    struct server *s = ctx;
    struct connection *cn, *next;

    for (cn = TAILQ_FIRST(&s->connections); cn; cn = next) {
        next = TAILQ_NEXT(cn, link);
        if (cn->parked && answer_request(cn))
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
        connection_close(cn);
        return;
    }
    event_loop_remove(cn->server->config.loop, source);
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

static int connection_open(struct server *s, int fd)
{
    struct connection *cn = calloc(1, sizeof(*cn));
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    int err;

    if (!cn || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
        free(cn);
        close(fd);
        return -ENOMEM;
    }
    cn->server = s;
    cn->socket = (struct event_source){.fd = fd, .ready = on_socket};
    cn->process = (struct event_source){.fd = pidfd_of(fd, peer.pid), .ready = on_process};
    TAILQ_INSERT_TAIL(&s->connections, cn, link);
    s->connection_count++;
    cn->session = session_create(s->config.rnic, &peer);
    err = cn->session ? event_loop_add(s->config.loop, &cn->socket, EPOLLIN) : -ENOMEM;
    if (!err && cn->process.fd >= 0)
        err = event_loop_add(s->config.loop, &cn->process, EPOLLIN);
    if (err)
        connection_close(cn);
    return err;
}

/* When descriptors run out, the connection would wait, and the listener stay readable, forever. */
static void refuse_connection(struct server *s)
{
    int fd;

    if (s->spare_fd < 0)
        return;
    close(s->spare_fd);
    fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_listener(struct event_source *source, uint32_t events)
{
    struct server *s = container_of(source, struct server, listener);
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        connection_open(s, fd);
    else if (errno == EMFILE || errno == ENFILE)
        refuse_connection(s);
}

static void on_stop(struct event_source *source, uint32_t events)
{
    container_of(source, struct server, stop)->stopping = true;
}

/* ---- the socket ---- */

/* 0: the path is free. A socket that refuses connections is that of a dead daemon. */
static int clear_path(const struct sockaddr_un *addr)
{
    struct stat st;
    int fd, err;

    if (lstat(addr->sun_path, &st))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    err = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? errno : 0;
    close(fd);
    if (err == ECONNREFUSED)
        return unlink(addr->sun_path) && errno != ENOENT ? -errno : 0;
    return -EADDRINUSE;
}

/* The socket appears under its name only when it has its permissions and listens. */
static int bind_socket(struct server *s)
{
    struct sockaddr_un temporary = {.sun_family = AF_UNIX};
    int fd = s->listener.fd;
    int len = snprintf(temporary.sun_path, sizeof(temporary.sun_path), "%s.%d", s->addr.sun_path,
                       getpid());

    if (len < 0 || (size_t)len >= sizeof(temporary.sun_path))
        return -ENAMETOOLONG;
    unlink(temporary.sun_path);
    if (bind(fd, (struct sockaddr *)&temporary, sizeof(temporary)))
        return -errno;
    if (chmod(temporary.sun_path, s->config.mode) || listen(fd, 128) ||
        rename(temporary.sun_path, s->addr.sun_path)) {
        int err = -errno;

        unlink(temporary.sun_path);
        return err;
    }
    return 0;
}

static int open_listener(struct server *s)
{
    const struct server_config *config = &s->config;
    int err;

    if ((size_t)snprintf(s->addr.sun_path, sizeof(s->addr.sun_path), "%s", config->path) >=
        sizeof(s->addr.sun_path))
        return -ENAMETOOLONG;
    err = clear_path(&s->addr);
    if (err)
        return err;
    s->listener.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener.fd < 0)
        return -errno;
    err = bind_socket(s);
    if (err)
        return err;
    err = event_loop_add(config->loop, &s->listener, EPOLLIN);
    if (!err && config->stop_fd >= 0)
        err = event_loop_add(config->loop, &s->stop, EPOLLIN);
    return err;
}

struct server *server_open(const struct server_config *config, int *err)
{
    struct server *s = calloc(1, sizeof(*s));

    if (!s) {
        *err = -ENOMEM;
        return NULL;
    }
    s->config = *config;
    s->addr.sun_family = AF_UNIX;
    s->listener = (struct event_source){.fd = -1, .ready = on_listener};
    s->stop = (struct event_source){.fd = config->stop_fd, .ready = on_stop};
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    s->idle_since = monotonic_seconds();
    TAILQ_INIT(&s->connections);
    rnic_on_retry(config->rnic, retry_parked, s);
    *err = open_listener(s);
    if (*err) {
        /* The path belongs to another daemon or file. */
        s->addr.sun_path[0] = 0;
        server_close(s);
        return NULL;
    }
    return s;
}

/* Milliseconds until the server ends because there is no application; -1: never. */
static int idle_timeout(const struct server *s)
{
    time_t left;

    if (!s->config.idle_exit || s->connection_count)
        return -1;
    left = s->idle_since + (time_t)s->config.idle_exit - monotonic_seconds();
    return left > 0 ? (int)left * 1000 : 0;
}

void server_run(struct server *s)
{
    while (!s->stopping) {
        int timeout = idle_timeout(s);

        if (!event_loop_step(s->config.loop, timeout) && timeout >= 0 && !idle_timeout(s))
            return;
    }
}

void server_close(struct server *s)
{
    rnic_on_retry(s->config.rnic, NULL, NULL);
    while (!TAILQ_EMPTY(&s->connections))
        connection_close(TAILQ_FIRST(&s->connections));
    event_loop_remove(s->config.loop, &s->listener);
    event_loop_remove(s->config.loop, &s->stop);
    if (s->addr.sun_path[0])
        unlink(s->addr.sun_path);
    if (s->listener.fd >= 0)
        close(s->listener.fd);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    free(s);
}
