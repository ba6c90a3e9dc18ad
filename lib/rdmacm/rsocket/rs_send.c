/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "rs_stream.h"

#define ROOM_MIN    sizeof(struct rs_iomap) /* a mapping is sent whole */
#define MESSAGE_MAX 65536u /* bytes; smaller ones let the peer read while we copy */

/* ---- whether it can be sent ---- */

/* Takes the next announced buffer when the last one is full. Its length is written last. */
static bool take_target(struct rs_stream *s)
{
    struct rs_buffer *entry = &s->table[s->table_next];

    if (s->target.length)
        return true;
    if (!__atomic_load_n(&entry->length, __ATOMIC_ACQUIRE))
        return false;
    s->target = *entry;
    entry->length = 0; /* the peer writes it again when the buffer is full */
    s->table_next = (s->table_next + 1) % RS_TABLE_ENTRIES;
    return true;
}

bool rs_stream_can_send(struct rs_stream *s)
{
    return s->state == RS_CONNECTED && rs_flow_can_send(&s->flow) &&
           rs_send_ring_room(&s->send) >= ROOM_MIN && take_target(s);
}

int rs_stream_send_error(struct rs_stream *s, size_t done)
{
    int err;

    switch (s->state) {
    case RS_INIT:
    case RS_BOUND:
    case RS_LISTENING:
        return -ENOTCONN;
    case RS_FAILED:
    case RS_DOWN:
        err = done ? s->rs.error : rs_take_error(&s->rs);
        return err ? -err : s->state == RS_DOWN ? -EPIPE : -ENOTCONN;
    default:
        return s->rs.closed ? -EBADF : s->write_shut ? -EPIPE : 0;
    }
}

static bool send_decided(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return rs_stream_can_send(s) || s->state == RS_FAILED || s->state == RS_DOWN || s->write_shut ||
           rs->closed;
}

int rs_send_wait(struct rs_stream *s, bool nonblocking, int64_t deadline)
{
    if (!nonblocking)
        return rs_wait(&s->rs, send_decided, deadline);
    rs_stream_process(&s->rs, false);
    return send_decided(&s->rs) ? 0 : -EAGAIN;
}

int rs_send_turn(struct rsocket *rs, bool nonblocking)
{
    return rs_turn_take(rs, &rs->sending, nonblocking, rs->options.send_timeout_ms);
}

/* ---- staging: from the program's memory to registered memory, or inline ---- */

uint32_t rs_stage_room(const struct rs_stream *s, size_t left)
{
    uint32_t n = left < MESSAGE_MAX ? (uint32_t)left : MESSAGE_MAX, room;

    if (n <= s->inline_size)
        return n;
    room = rs_send_ring_room(&s->send);
    return n < room ? n : room;
}

static void stage_inline(struct rs_staged *st, const struct iovec *iov, size_t skip, uint32_t n)
{
    rs_iov_gather(st->small, iov, skip, n);
    st->sge[0] = (struct ibv_sge){.addr = (uintptr_t)st->small, .length = n};
    st->n = 1;
    st->flags = IBV_SEND_INLINE;
    st->ring = 0;
}

void rs_stage(struct rs_stream *s, struct rs_staged *st, const struct iovec *iov, size_t skip,
              uint32_t n)
{
    struct rs_pieces p;

    if (n <= s->inline_size) {
        stage_inline(st, iov, skip, n);
        return;
    }
    p = rs_send_ring_take(&s->send, n);
    st->n = 0;
    st->flags = 0;
    st->ring = n;
    pthread_mutex_unlock(&s->rs.lock);
    for (int i = 0; i < 2 && p.length[i]; i++) {
        uint8_t *to = s->send_bytes + p.offset[i];

        rs_iov_gather(to, iov, skip, p.length[i]);
        skip += p.length[i];
        st->sge[st->n++] = (struct ibv_sge){(uintptr_t)to, p.length[i], s->local_mr->lkey};
    }
    pthread_mutex_lock(&s->rs.lock);
}

/* ---- sending ---- */

/* One message from offset skip of the pieces. Returns its bytes, or a negative errno. */
static ssize_t send_message(struct rs_stream *s, const struct iovec *iov, size_t skip, size_t left)
{
    size_t most = left < s->target.length ? left : s->target.length;
    uint32_t n = rs_stage_room(s, most), imm = rs_msg_imm(RS_MSG_DATA, n);
    struct rs_staged st;
    struct rs_buffer to;
    int err;

    rs_stage(s, &st, iov, skip, n);
    if (s->state != RS_CONNECTED || s->write_shut) { /* since the lock was released */
        rs_send_ring_cancel(&s->send, st.ring);
        return 0;
    }
    to = s->target;
    s->target.addr += n;
    s->target.length -= n;
    rs_flow_sent(&s->flow);
    err = rs_post_write(s, rs_work_id(RS_WORK_DATA, st.ring), st.sge, st.n, &imm, &to, st.flags);
    if (err) {
        rs_stream_down(s, -err);
        return 0;
    }
    return n;
}

/* With the turn: all bytes, or those that can be sent. */
static ssize_t send_all(struct rs_stream *s, const struct iovec *iov, size_t size, bool nonblocking)
{
    int64_t deadline = rs_deadline(s->rs.options.send_timeout_ms);
    size_t done = 0;
    int err = size ? 0 : rs_stream_send_error(s, 0);

    while (done < size) {
        err = rs_stream_send_error(s, done);
        if (err)
            break;
        if (!rs_stream_can_send(s)) {
            err = rs_send_wait(s, nonblocking, deadline);
            if (err)
                break;
        } else if (s->mappings_dirty) {
            rs_stream_send_mapping(s);
        } else {
            done += (size_t)send_message(s, iov, done, size - done);
        }
    }
    return done ? (ssize_t)done : err;
}

ssize_t rs_stream_send(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                       const struct sockaddr *to, socklen_t length)
{
    struct rs_stream *s = rs_stream_of(rs);
    bool nonblocking = rs_nonblocking(rs, flags);
    ssize_t done;

    (void)to; /* of a connected socket: ignored */
    (void)length;
    if (flags & MSG_OOB)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&rs->lock);
    done = rs_send_turn(rs, nonblocking);
    if (!done) {
        done = send_all(s, iov, rs_iov_size(iov, n), nonblocking);
        rs_turn_leave(&rs->sending);
    }
    pthread_mutex_unlock(&rs->lock);
    return done;
}
