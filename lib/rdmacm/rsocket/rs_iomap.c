/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mapping is an entry in a table of the peer, which is written before the next data, also
 * that of riowrite. riowrite looks the offset up in our own table, which the peer writes: its
 * addresses are never used as ours.
 */
#include "rs_iomap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rs_stream.h"

/* ---- mapping ---- */

static int map_local(struct rs_stream *s, struct ibv_mr *mr)
{
    struct rs_local_map *m = calloc(1, sizeof(*m));

    if (!m)
        return -ENOMEM;
    m->mr = mr;
    m->next = s->local_maps;
    s->local_maps = m;
    return 0;
}

/* Changes an entry; the peer learns of it before what we write next. */
static void set_mapping(struct rs_stream *s, struct rs_mapping *m, const struct rs_iomap *to)
{
    m->iomap = *to;
    s->mappings_dirty += !m->dirty;
    m->dirty = true;
}

static int map_remote(struct rs_stream *s, struct ibv_mr *mr, uint64_t offset)
{
    struct rs_iomap iomap = {offset, {(uintptr_t)mr->addr, mr->rkey, (uint32_t)mr->length}};

    for (uint32_t i = 0; i < s->peer_iomaps; i++)
        if (!s->mappings[i].mr) {
            s->mappings[i].mr = mr;
            set_mapping(s, &s->mappings[i], &iomap);
            return 0;
        }
    return -ENOBUFS;
}

static bool is_decided(struct rsocket *rs)
{
    return rs_stream_of(rs)->state >= RS_CONNECTED || rs->closed;
}

/* An accepted socket may be a message away from being connected. Waits also when the socket does
 * not block: rpoll has no event for that. */
static int await_connected(struct rs_stream *s)
{
    int err = 0;

    if (s->state < RS_RESOLVING)
        return -ENOTCONN;
    rs_stream_process(&s->rs, false);
    if (!is_decided(&s->rs))
        err = rs_wait(&s->rs, is_decided, RS_FOREVER);
    return err || s->state == RS_CONNECTED ? err : -ENOTCONN;
}

off_t rs_iomap(struct rsocket *rs, void *buf, size_t len, int prot, off_t offset)
{
    struct rs_stream *s = rs_stream_of(rs);
    int access = IBV_ACCESS_LOCAL_WRITE | (prot & PROT_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
    struct ibv_mr *mr;
    int err;

    if (!len || len > UINT32_MAX || prot & ~PROT_WRITE)
        return -EINVAL;
    if (offset == -1)
        offset = (off_t)(uintptr_t)buf;
    pthread_mutex_lock(&rs->lock);
    err = await_connected(s);
    if (err) {
        pthread_mutex_unlock(&rs->lock);
        return err;
    }
    mr = ibv_reg_mr(s->device->pd, buf, len, access);
    if (!mr)
        err = -errno;
    else
        err = prot & PROT_WRITE ? map_remote(s, mr, (uint64_t)offset) : map_local(s, mr);
    if (mr && err)
        ibv_dereg_mr(mr);
    pthread_mutex_unlock(&rs->lock);
    return err ? err : offset;
}

static bool is_of(const struct ibv_mr *mr, const void *buf, size_t len)
{
    return mr && mr->addr == buf && mr->length == len;
}

static int unmap(struct rs_stream *s, const void *buf, size_t len)
{
    static const struct rs_iomap none;

    for (struct rs_local_map **p = &s->local_maps, *m; (m = *p); p = &m->next)
        if (is_of(m->mr, buf, len)) {
            *p = m->next;
            ibv_dereg_mr(m->mr);
            free(m);
            return 0;
        }
    for (uint32_t i = 0; s->mappings && i < s->peer_iomaps; i++)
        if (is_of(s->mappings[i].mr, buf, len)) {
            ibv_dereg_mr(s->mappings[i].mr);
            s->mappings[i].mr = NULL;
            set_mapping(s, &s->mappings[i], &none);
            return 0;
        }
    return -EINVAL;
}

int rs_iounmap(struct rsocket *rs, const void *buf, size_t len)
{
    int err;

    pthread_mutex_lock(&rs->lock);
    err = unmap(rs_stream_of(rs), buf, len);
    pthread_mutex_unlock(&rs->lock);
    return err;
}

void rs_stream_unmap_all(struct rs_stream *s)
{
    for (struct rs_local_map *m = s->local_maps, *next; m; m = next) {
        next = m->next;
        ibv_dereg_mr(m->mr);
        free(m);
    }
    s->local_maps = NULL;
    for (uint32_t i = 0; s->mappings && i < s->peer_iomaps; i++)
        if (s->mappings[i].mr)
            ibv_dereg_mr(s->mappings[i].mr);
    s->mappings_dirty = 0;
}

/* ---- telling the peer ---- */

int rs_stream_send_mapping(struct rs_stream *s)
{
    uint32_t index = 0;
    struct rs_iomap iomap;
    struct iovec iov = {&iomap, sizeof(iomap)};
    struct rs_buffer to;
    struct rs_staged st;
    uint32_t imm;
    int err;

    while (!s->mappings[index].dirty)
        index++;
    s->mappings[index].dirty = false;
    s->mappings_dirty--;
    iomap = s->mappings[index].iomap;
    rs_iomap_to_peer(&iomap, s->peer_big_endian);
    rs_stage(s, &st, &iov, 0, sizeof(iomap));
    to = s->peer_table;
    to.addr += s->peer_table.length * sizeof(struct rs_buffer) + index * sizeof(iomap);
    imm = rs_msg_imm(RS_MSG_IOMAP, index);
    rs_flow_sent(&s->flow);
    err = rs_post_write(s, rs_work_id(RS_WORK_DATA, st.ring), st.sge, st.n, &imm, &to, st.flags);
    if (err)
        rs_stream_down(s, -err);
    return err;
}

/* ---- writing ---- */

/* Where offset leads, and to how many bytes; length 0: nowhere. */
static struct rs_buffer find(const struct rs_stream *s, uint64_t offset)
{
    for (uint32_t i = 0; i < s->iomap_entries; i++) {
        struct rs_iomap m;

        memcpy(&m, &s->iomaps[i], sizeof(m)); /* one copy: the peer may change it */
        if (offset >= m.offset && offset - m.offset < m.buffer.length)
            return (struct rs_buffer){m.buffer.addr + (offset - m.offset), m.buffer.key,
                                      m.buffer.length - (uint32_t)(offset - m.offset)};
    }
    return (struct rs_buffer){0};
}

static bool write_decided(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return s->state >= RS_FAILED || s->write_shut || rs->closed ||
           (s->state == RS_CONNECTED && s->flow.slots && rs_send_ring_room(&s->send));
}

static int await_room(struct rs_stream *s, bool nonblocking, int64_t deadline)
{
    rs_stream_process(&s->rs, false);
    if (write_decided(&s->rs))
        return 0;
    return nonblocking ? -EAGAIN : rs_wait(&s->rs, write_decided, deadline);
}

/* Tells the peer of one mapping, or waits until that is possible. */
static int write_mapping(struct rs_stream *s, bool nonblocking, int64_t deadline)
{
    if (!rs_stream_can_send(s))
        return rs_send_wait(s, nonblocking, deadline);
    rs_stream_send_mapping(s); /* an error is the stream's */
    return 0;
}

/* One RDMA WRITE. Returns its bytes, or a negative errno. */
static ssize_t write_some(struct rs_stream *s, const struct iovec *iov, size_t done,
                          uint64_t offset)
{
    struct rs_buffer to = find(s, offset);
    size_t left = iov->iov_len - done;
    struct rs_staged st;
    uint32_t n;
    int err;

    if (!to.length)
        return -EINVAL;
    n = rs_stage_room(s, left < to.length ? left : to.length);
    rs_stage(s, &st, iov, done, n);
    if (s->state != RS_CONNECTED) {
        rs_send_ring_cancel(&s->send, st.ring);
        return 0;
    }
    s->flow.slots--;
    err = rs_post_write(s, rs_work_id(RS_WORK_DATA, st.ring), st.sge, st.n, NULL, &to, st.flags);
    if (err)
        rs_stream_down(s, -err);
    return err ? 0 : (ssize_t)n;
}

static ssize_t write_all(struct rs_stream *s, const struct iovec *iov, uint64_t offset,
                         bool nonblocking)
{
    int64_t deadline = rs_deadline(s->rs.options.send_timeout_ms);
    size_t done = 0;
    ssize_t n = 0;

    while (done < iov->iov_len && n >= 0) {
        n = rs_stream_send_error(s, done);
        if (!n && s->mappings_dirty)
            n = write_mapping(s, nonblocking, deadline);
        else if (!n && !(s->state == RS_CONNECTED && s->flow.slots && rs_send_ring_room(&s->send)))
            n = await_room(s, nonblocking, deadline);
        else if (!n)
            n = write_some(s, iov, done, offset + done);
        if (n > 0)
            done += (size_t)n;
    }
    return done ? (ssize_t)done : n;
}

ssize_t rs_iowrite(struct rsocket *rs, const void *buf, size_t count, off_t offset, int flags)
{
    struct iovec iov = {(void *)(uintptr_t)buf, count};
    bool nonblocking = rs_nonblocking(rs, flags);
    ssize_t done;

    pthread_mutex_lock(&rs->lock);
    done = rs_send_turn(rs, nonblocking);
    if (!done) {
        done = write_all(rs_stream_of(rs), &iov, (uint64_t)offset, nonblocking);
        rs_turn_leave(&rs->sending);
    }
    pthread_mutex_unlock(&rs->lock);
    return done;
}
