/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "common.h"
#include "rs_stream.h"

/* Bytes that the program may read. */
static uint32_t readable(const struct rs_stream *s)
{
    return s->read_shut ? s->kept : s->recv.filled;
}

static bool receive_decided(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return readable(s) || s->peer_finished || s->read_shut || s->state == RS_FAILED ||
           s->state == RS_DOWN || rs->closed;
}

/* Without bytes: 0 at the end of the stream, a negative errno, or 1: bytes may come. */
static int end_of_stream(struct rs_stream *s)
{
    int err;

    switch (s->state) {
    case RS_INIT:
    case RS_BOUND:
    case RS_LISTENING:
        return -ENOTCONN;
    case RS_FAILED:
        err = rs_take_error(&s->rs);
        return err ? -err : -ENOTCONN;
    case RS_DOWN:
        return -rs_take_error(&s->rs);
    default:
        return s->rs.closed ? -EBADF : s->peer_finished || s->read_shut ? 0 : 1;
    }
}

/* Copies without lock: the peer does not write bytes that are filled, nor does another thread. */
static uint32_t copy(struct rs_stream *s, const struct iovec *iov, size_t skip, size_t left)
{
    const struct rs_recv_ring at = s->recv;
    uint32_t n = 0, span;

    pthread_mutex_unlock(&s->rs.lock);
    while ((span = rs_recv_ring_span(&at, n, left - n))) {
        rs_iov_scatter(iov, skip + n, s->recv_bytes + (at.read + n) % at.size, span);
        n += span;
    }
    pthread_mutex_lock(&s->rs.lock);
    return n;
}

/* With the turn. */
static ssize_t receive(struct rs_stream *s, const struct iovec *iov, size_t size, int flags)
{
    bool all = flags & MSG_WAITALL && !(flags & MSG_PEEK);
    int64_t deadline = rs_deadline(s->rs.options.recv_timeout_ms);
    size_t done = 0;

    while (done < size) {
        uint32_t n;

        if (readable(s) < size - done)
            rs_stream_process(&s->rs, false);
        if (!readable(s)) {
            int err = done && !all ? 0 : end_of_stream(s);

            if (err == 1)
                err = rs_nonblocking(&s->rs, flags) ? -EAGAIN
                                                    : rs_wait(&s->rs, receive_decided, deadline);
            else if (!err)
                return (ssize_t)done;
            if (err && done && err != -EAGAIN && err != -EINTR)
                s->rs.error = -err; /* for the next call */
            if (err)
                return done ? (ssize_t)done : err;
            continue;
        }
        n = copy(s, iov, done, min_of(size - done, (size_t)readable(s)));
        done += n;
        if (flags & MSG_PEEK)
            break;
        if (readable(s) >= n) { /* else the socket was closed, and they were dropped by now */
            s->kept -= min_of(n, s->kept);
            rs_recv_ring_consume(&s->recv, n);
            rs_stream_drop_unread(s);
            rs_stream_control(s);
        }
    }
    return (ssize_t)done;
}

ssize_t rs_stream_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                       struct sockaddr_storage *from)
{
    struct rs_stream *s = rs_stream_of(rs);
    ssize_t done;

    if (flags & (MSG_OOB | MSG_ERRQUEUE))
        return -EOPNOTSUPP;
    if (from)
        from->ss_family = AF_UNSPEC; /* as with TCP, no address */
    pthread_mutex_lock(&rs->lock);
    done = rs_turn_take(rs, &rs->receiving, rs_nonblocking(rs, flags), rs->options.recv_timeout_ms);
    if (!done) {
        done = receive(s, iov, rs_iov_size(iov, n), flags);
        rs_turn_leave(&rs->receiving);
    }
    pthread_mutex_unlock(&rs->lock);
    return done;
}
