/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending streams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "rs_accept.h"
#include "rs_service.h"
#include "rs_stream.h"

#define CLOSE_MS \
    10000 /* what was sent reaches the peer's memory until then, unless the peer hangs */

static const struct rs_ops stream_ops;

/* ---- creating ---- */

int rs_stream_make(int family, const struct rsocket *parent, struct rdma_event_channel *channel,
                   struct rdma_cm_id *id, struct rs_stream **made)
{
    struct rs_stream *s = calloc(1, sizeof(*s));
    int err;

    if (!s)
        return -ENOMEM;
    rs_init(&s->rs, &stream_ops, family, SOCK_STREAM, parent);
    s->channel = channel;
    s->id = id;
    s->requests_end = &s->requests;
    s->children_end = &s->children;
    s->rs.object.fd = channel->fd;
    err = rs_set_nonblocking(channel->fd);
    if (err) {
        rs_fini(&s->rs);
        free(s);
        return err;
    }
    *made = s;
    return 0;
}

int rs_stream_create(int family, int flags)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = NULL;
    struct rs_stream *s;
    int err;

    if (!channel)
        return -errno;
    err = rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ? -errno : 0;
    if (!err)
        err = rs_stream_make(family, NULL, channel, id, &s);
    if (err) {
        if (id)
            rdma_destroy_id(id);
        rdma_destroy_event_channel(channel);
        return err;
    }
    s->rs.flags = flags;
    err = rs_table_add(&s->rs.object);
    if (err)
        s->rs.ops->destroy(&s->rs);
    return err ? err : s->rs.object.fd;
}

/* ---- binding ---- */

int rs_stream_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t length)
{
    struct rs_stream *s = rs_stream_of(rs);
    struct sockaddr_storage plain;
    int err = s->state == RS_INIT ? rs_addr_of(rs, addr, length, &plain) : -EINVAL;

    if (err)
        return err;
    if (rdma_bind_addr(s->id, (struct sockaddr *)&plain))
        return -errno;
    s->state = RS_BOUND;
    s->bound = true;
    return 0;
}

/* ---- state ---- */

static short stream_events(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);
    short events = 0;

    switch (s->state) {
    case RS_INIT:
    case RS_BOUND:
        return POLLOUT | POLLHUP;
    case RS_LISTENING:
        return s->children || s->requests ? POLLIN : 0;
    case RS_FAILED:
        return POLLIN | POLLOUT | POLLHUP | (rs->error ? POLLERR : 0);
    case RS_DOWN: /* as with TCP: what the peer alone has ended is no hang-up */
        events = POLLIN | POLLOUT | POLLRDHUP;
        if (s->write_shut || s->failed)
            events |= POLLHUP;
        return rs->error ? events | POLLERR : events;
    default:
        if (s->recv.filled || s->peer_finished || s->read_shut)
            events |= POLLIN;
        if (s->peer_finished)
            events |= POLLRDHUP;
        if (s->write_shut || rs_stream_can_send(s))
            events |= POLLOUT;
        return s->state == RS_CONNECTED ? events : events & POLLIN;
    }
}

static unsigned stream_fds(const struct rsocket *rs, struct pollfd *fds)
{
    const struct rs_stream *s = (const struct rs_stream *)rs;

    fds[0] = (struct pollfd){.fd = s->channel->fd, .events = POLLIN};
    if (!s->comp)
        return 1;
    fds[1] = (struct pollfd){.fd = s->comp->fd, .events = POLLIN};
    return 2;
}

static bool stream_armed(const struct rsocket *rs)
{
    const struct rs_stream *s = (const struct rs_stream *)rs;

    return !s->cq || s->armed;
}

static int stream_name(struct rsocket *rs, bool peer, struct sockaddr_storage *addr)
{
    struct rs_stream *s = rs_stream_of(rs);
    const struct sockaddr *from = peer ? rdma_get_peer_addr(s->id) : rdma_get_local_addr(s->id);

    if (peer && s->state != RS_CONNECTED && s->state != RS_ACCEPTING && s->state != RS_DOWN)
        return -ENOTCONN;
    memset(addr, 0, sizeof(*addr));
    addr->ss_family = (sa_family_t)rs->family;
    if (from->sa_family == AF_INET || from->sa_family == AF_INET6)
        *addr = rs_addr_given(rs, from);
    return 0;
}

/* An address in use is shared or not, and the next one follows the option. */
static bool is_late(const struct rs_stream *s, int option, int err)
{
    return option == RDMA_OPTION_ID_REUSEADDR && s->state != RS_INIT && err == EINVAL;
}

static int stream_apply(struct rsocket *rs, int level, int name, int value)
{
    struct rs_stream *s = rs_stream_of(rs);
    uint8_t tos = (uint8_t)value;
    int option, err;

    if (level == SOL_SOCKET && name == SO_REUSEADDR)
        option = RDMA_OPTION_ID_REUSEADDR;
    else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
        option = RDMA_OPTION_ID_AFONLY;
    else if (level == IPPROTO_IP && name == IP_TOS)
        option = RDMA_OPTION_ID_TOS;
    else
        return 0;
    err = option == RDMA_OPTION_ID_TOS
              ? rdma_set_option(s->id, RDMA_OPTION_ID, option, &tos, sizeof(tos))
              : rdma_set_option(s->id, RDMA_OPTION_ID, option, &value, sizeof(value));
    return err && !is_late(s, option, errno) ? -errno : 0;
}

/* ---- ending ---- */

static bool told(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return !s->control_due || s->state != RS_CONNECTED;
}

static int stream_shutdown(struct rsocket *rs, int how)
{
    struct rs_stream *s = rs_stream_of(rs);

    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    if (s->state == RS_LISTENING) /* as with TCP, there is nothing to send */
        return how == SHUT_WR ? 0 : rs_stream_unlisten(rs);
    if (s->state == RS_DOWN)
        return 0;
    if (s->state != RS_CONNECTED && s->state != RS_ACCEPTING)
        return -ENOTCONN;
    if (how != SHUT_WR && !s->read_shut) {
        rs_stream_process(rs, false);
        s->read_shut = true;
        s->kept = s->recv.filled;
    }
    if (how != SHUT_RD && !s->write_shut) {
        s->write_shut = true;
        s->control_due = true;
    } else if (how == SHUT_RD && s->write_shut && !s->peer_finished) {
        s->control_due = true; /* it only knew of one direction */
    }
    rs_stream_process(rs, false);
    rs_stream_control(s);
    rs_wake(rs);
    return rs_nonblocking(rs, 0) ? 0 : rs_wait(rs, told, RS_FOREVER);
}

static bool all_sent(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return s->gone || s->state < RS_ACCEPTING || s->state == RS_FAILED ||
           (!s->control_due && !s->flow.controls && s->flow.slots == s->send_slots);
}

static void stream_finish(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    if (s->state != RS_CONNECTED && s->state != RS_ACCEPTING)
        return;
    s->control_due |= !s->write_shut && !s->gone;
    s->write_shut = true;
    rs_stream_take(s);
    rs_stream_control(s);
}

static bool stream_is_sent(struct rsocket *rs)
{
    rs_stream_take(rs_stream_of(rs));
    return all_sent(rs);
}

static int64_t longest_close(const struct linger *l)
{
    return l->l_onoff ? l->l_linger * (int64_t)NS_PER_SEC : CLOSE_MS * (int64_t)NS_PER_MS;
}

static void stream_close(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs), *children;
    int64_t deadline;

    pthread_mutex_lock(&rs->lock);
    deadline = rs_now_ns() + longest_close(&rs->options.linger);
    if (s->state == RS_CONNECTED || s->state == RS_ACCEPTING) {
        s->read_shut = true;
        s->kept = 0;
        s->control_due = !s->gone;
        s->write_shut = true;
        rs_stream_process(rs, false);
        rs_stream_control(s);
    }
    while (s->cq && rs_wait(rs, all_sent, deadline) == -EINTR)
        ;
    rs->closed = true;
    if (s->state == RS_DOWN || s->state == RS_CONNECTED || s->state == RS_ACCEPTING)
        rdma_disconnect(s->id);
    children = rs_stream_take_children(s);
    rs_wake(rs);
    pthread_mutex_unlock(&rs->lock);
    rs_stream_abandon(children);
}

static void stream_destroy(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    if (s->backlog)
        rs_service_unwatch(rs); /* before its descriptor is another's */
    rs_stream_refuse_all(s);
    rs_stream_release(s);
    rs_id_destroy(s->id);
    rdma_destroy_event_channel(s->channel);
    rs_fini(rs);
    free(s);
}

static const struct rs_ops stream_ops = {
    .process = rs_stream_process,
    .arm = rs_stream_arm,
    .armed = stream_armed,
    .fds = stream_fds,
    .events = stream_events,
    .bind = rs_stream_bind,
    .connect = rs_stream_connect,
    .name = stream_name,
    .shutdown = stream_shutdown,
    .finish = stream_finish,
    .is_sent = stream_is_sent,
    .apply = stream_apply,
    .recv = rs_stream_recv,
    .send = rs_stream_send,
    .close = stream_close,
    .destroy = stream_destroy,
    .serve = rs_stream_serve,
};
