/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported functions, rsocket(7), but those of rs_ask.c. Streams and datagrams are in files of
 * their own. */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "rs_accept.h"
#include "rs_call.h"
#include "rs_select.h"
#include "rs_set.h"
#include "rs_socket.h"

/* Declared in rdma/rsocket.h since version 65 of rdma-core. */
EXPORT int repoll_create(int flags);
EXPORT int repoll_ctl(int set, int op, int fd, struct epoll_event *event);
EXPORT int repoll_wait(int set, struct epoll_event *events, int max, int timeout);

/* ---- making and ending ---- */

EXPORT int rsocket(int domain, int type, int protocol)
{
    CALL(RS_CANCEL_NEVER);
    int flags = type & SOCK_NONBLOCK ? O_NONBLOCK : 0;
    int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (domain != AF_INET && domain != AF_INET6)
        return result_int(-EAFNOSUPPORT);
    if (kind == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP))
        return result_int(rs_stream_create(domain, flags));
    if (kind == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP))
        return result_int(rs_dgram_create(domain, flags));
    return result_int(-EPROTONOSUPPORT);
}

EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);

    return rs ? LOCKED(rs, rs->ops->bind(rs, addr, addrlen)) : -1;
}

EXPORT int rlisten(int socket, int backlog)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);

    return rs ? LOCKED(rs, is_stream(rs) ? rs_stream_listen(rs, backlog) : -EOPNOTSUPP) : -1;
}

EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);
    struct sockaddr_storage peer;
    int fd;

    if (!rs)
        return -1;
    fd = LOCKED(rs, is_stream(rs) ? rs_stream_accept(rs, 0, &peer) : -EOPNOTSUPP);
    if (fd >= 0)
        rs_give_addr(&peer, addr, addrlen);
    return fd;
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);

    return rs ? LOCKED(rs, rs->ops->connect(rs, addr, addrlen)) : -1;
}

EXPORT int rshutdown(int socket, int how)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs = get(socket);

    return rs ? LOCKED(rs, rs->ops->shutdown(rs, how)) : -1;
}

EXPORT int rclose(int socket)
{
    CALL(RS_CANCEL_NEVER);
    struct rsocket *rs;

    if (rs_set_close(socket))
        return 0;
    rs = get(socket);
    if (!rs)
        return -1;
    if (!rs_table_remove(&rs->object)) { /* another thread closes it */
        rs_put(rs);
        return result_int(-EBADF);
    }
    if (rs->owner != getpid()) { /* the parent keeps it, and its memory here is not worth a risk */
        close(socket);
        return 0;
    }
    rs->ops->close(rs);
    rs_put(rs); /* the table's */
    rs_put(rs);
    return 0;
}

/* ---- data ---- */

/* A datagram that is longer than the pieces says so in msg_flags. */
static ssize_t receive_message(struct rsocket *rs, struct msghdr *msg, int flags,
                               struct sockaddr_storage *from)
{
    int pieces = (int)msg->msg_iovlen;
    size_t room;
    ssize_t n;

    if (is_stream(rs)) {
        n = rs->ops->recv(rs, msg->msg_iov, pieces, flags, from);
        if (n >= 0)
            msg->msg_flags = 0;
        return n;
    }
    n = rs->ops->recv(rs, msg->msg_iov, pieces, flags | MSG_TRUNC, from);
    if (n < 0)
        return n;
    room = rs_iov_size(msg->msg_iov, pieces);
    msg->msg_flags = (size_t)n > room ? MSG_TRUNC : 0;
    return msg->msg_flags && !(flags & MSG_TRUNC) ? (ssize_t)room : n;
}

EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);
    struct sockaddr_storage from = {0};
    ssize_t n;

    if (!rs)
        return -1;
    n = receive_message(rs, msg, flags, &from);
    rs_put(rs);
    if (n >= 0) {
        if (msg->msg_name)
            rs_give_addr(&from, msg->msg_name, &msg->msg_namelen);
        msg->msg_controllen = 0;
    }
    return result(n);
}

EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
                         socklen_t *addrlen)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);
    struct iovec iov = {buf, len};
    struct sockaddr_storage from = {0};
    ssize_t n;

    if (!rs)
        return -1;
    n = rs->ops->recv(rs, &iov, 1, flags, &from);
    rs_put(rs);
    if (n >= 0)
        rs_give_addr(&from, src_addr, addrlen);
    return result(n);
}

EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);
    struct iovec iov = {buf, len};
    ssize_t n;

    if (!rs)
        return -1;
    n = rs->ops->recv(rs, &iov, 1, flags, NULL);
    rs_put(rs);
    return result(n);
}

EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
    return rrecv(socket, buf, count, 0);
}

EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs;
    ssize_t n;

    if (iovcnt < 0 || iovcnt > IOV_MAX)
        return result(-EINVAL);
    rs = get(socket);
    if (!rs)
        return -1;
    n = rs->ops->recv(rs, iov, iovcnt, 0, NULL);
    rs_put(rs);
    return result(n);
}

static ssize_t send_pieces(int socket, const struct iovec *iov, int n, int flags,
                           const struct sockaddr *to, socklen_t length)
{
    CALL(RS_CANCEL_SLEEP);
    struct rsocket *rs = get(socket);
    ssize_t sent;

    if (!rs)
        return -1;
    sent = rs->ops->send(rs, iov, n, flags, to, length);
    rs_put(rs);
    return result(sent);
}

EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
    if (msg->msg_control && msg->msg_controllen)
        return result(-EOPNOTSUPP);
    return send_pieces(socket, msg->msg_iov, (int)msg->msg_iovlen, flags,
                       msg->msg_namelen ? msg->msg_name : NULL, msg->msg_namelen);
}

EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
                       const struct sockaddr *dest_addr, socklen_t addrlen)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return send_pieces(socket, &iov, 1, flags, dest_addr, addrlen);
}

EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
    return rsendto(socket, buf, len, flags, NULL, 0);
}

EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
    return rsendto(socket, buf, count, 0, NULL, 0);
}

EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
    if (iovcnt < 0 || iovcnt > IOV_MAX)
        return result(-EINVAL);
    return send_pieces(socket, iov, iovcnt, 0, NULL, 0);
}

/* ---- polling ---- */

EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    CALL(RS_CANCEL_SLEEP);
    return result_int(rs_poll(fds, nfds, timeout, -1));
}

EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
                   struct timeval *timeout)
{
    CALL(RS_CANCEL_SLEEP);
    return result_int(rs_select(nfds, readfds, writefds, exceptfds, timeout));
}

EXPORT int repoll_create(int flags)
{
    CALL(RS_CANCEL_NEVER);
    return result_int(rs_set_create(flags));
}

EXPORT int repoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    CALL(RS_CANCEL_NEVER);
    return result_int(rs_set_ctl(set, op, fd, event));
}

EXPORT int repoll_wait(int set, struct epoll_event *events, int max, int timeout)
{
    CALL(RS_CANCEL_SLEEP);
    return result_int(rs_set_wait(set, events, max, timeout));
}
