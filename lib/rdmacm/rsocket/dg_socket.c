/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending datagram sockets. */
#include "dg_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common.h"

#define CLOSE_MS 1000 /* what was posted is sent until then, unless the device hangs */

static const struct rs_ops dgram_ops;

static int open_fds(struct dgram *d, int family)
{
    d->rs.object.fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->rs.object.fd < 0)
        return -errno;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll < 0)
        return -errno;
    d->channel = rdma_create_event_channel();
    return d->channel ? rs_set_nonblocking(d->channel->fd) : -errno;
}

int rs_dgram_create(int family, int flags)
{
    struct dgram *d = calloc(1, sizeof(*d));
    int err;

    if (!d)
        return -ENOMEM;
    rs_init(&d->rs, &dgram_ops, family, SOCK_DGRAM, NULL);
    d->rs.flags = flags;
    d->rs.object.fd = d->epoll = -1;
    d->last = &d->first;
    d->youngest = &d->oldest;
    err = open_fds(d, family);
    if (!err)
        err = rs_table_add(&d->rs.object);
    if (err)
        dgram_ops.destroy(&d->rs);
    return err ? err : d->rs.object.fd;
}

static int dgram_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t length)
{
    struct dgram *d = dg_of(rs);

    if (bind(rs->object.fd, addr, length))
        return -errno;
    d->bound = true;
    return 0;
}

int dg_bind_any(struct dgram *d)
{
    struct sockaddr_storage any = {.ss_family = (sa_family_t)d->rs.family};

    return d->bound ? 0 : dgram_bind(&d->rs, (struct sockaddr *)&any, rs_addr_size(d->rs.family));
}

static int dgram_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t length)
{
    struct dgram *d = dg_of(rs);
    struct sockaddr_storage to;
    int err = dg_bind_any(d);

    if (err)
        return err;
    if (length >= sizeof(addr->sa_family) && addr->sa_family == AF_UNSPEC) {
        d->peer = NULL;
        return 0;
    }
    err = dg_addr_of(d, addr, length, &to);
    return err ? err : dg_peer_get(d, &to, &d->peer);
}

static int dgram_name(struct rsocket *rs, bool peer, struct sockaddr_storage *addr)
{
    struct dgram *d = dg_of(rs);
    socklen_t length = sizeof(*addr);

    memset(addr, 0, sizeof(*addr));
    if (!peer)
        return getsockname(rs->object.fd, (struct sockaddr *)addr, &length) ? -errno : 0;
    if (!d->peer)
        return -ENOTCONN;
    *addr = rs_addr_given(rs, (const struct sockaddr *)&d->peer->addr);
    return 0;
}

static int dgram_shutdown(struct rsocket *rs, int how)
{
    struct dgram *d = dg_of(rs);

    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    d->read_shut |= how != SHUT_WR;
    d->write_shut |= how != SHUT_RD;
    rs_wake(rs);
    return 0;
}

static int dgram_apply(struct rsocket *rs, int level, int name, int value)
{
    if ((level == SOL_SOCKET && name == SO_REUSEADDR) ||
        (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) || (level == IPPROTO_IP && name == IP_TOS))
        return setsockopt(rs->object.fd, level, name, &value, sizeof(value)) ? -errno : 0;
    return 0;
}

static short dgram_events(struct rsocket *rs)
{
    struct dgram *d = dg_of(rs);
    short events = 0;

    if (d->first || d->read_shut)
        events |= POLLIN;
    if (d->write_shut || dg_can_send(d))
        events |= POLLOUT;
    if (rs->error)
        events |= POLLERR;
    return events;
}

static unsigned dgram_fds(const struct rsocket *rs, struct pollfd *fds)
{
    const struct dgram *d = (const struct dgram *)rs;

    fds[0] = (struct pollfd){.fd = rs->object.fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = d->channel->fd, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = d->epoll, .events = POLLIN};
    return 3;
}

static bool dgram_armed(const struct rsocket *rs)
{
    const struct dgram *d = (const struct dgram *)rs;

    for (const struct dg_qp *qp = d->qps; qp; qp = qp->next)
        if (!qp->armed)
            return false;
    return !d->ended;
}

static bool all_sent(struct rsocket *rs)
{
    for (const struct dg_qp *qp = dg_of(rs)->qps; qp; qp = qp->next)
        if (qp->free_slots < qp->send_slots)
            return rs->error;
    return true;
}

static void dgram_close(struct rsocket *rs)
{
    int64_t deadline = rs_now_ns() + CLOSE_MS * (int64_t)NS_PER_MS;

    pthread_mutex_lock(&rs->lock);
    rs->error = 0;
    while (rs_wait(rs, all_sent, deadline) == -EINTR)
        ;
    rs->closed = true;
    rs_wake(rs);
    pthread_mutex_unlock(&rs->lock);
}

static void dgram_finish(struct rsocket *rs)
{
    rs->error = 0;
}

static bool dgram_is_sent(struct rsocket *rs)
{
    struct dgram *d = dg_of(rs);

    for (struct dg_qp *qp = d->qps; qp; qp = qp->next)
        dg_qp_poll(d, qp);
    return all_sent(rs);
}

static void dgram_destroy(struct rsocket *rs)
{
    struct dgram *d = dg_of(rs);

    for (struct dg_message *m = d->first, *next; m; m = next) {
        next = m->next;
        if (!m->qp)
            free(m);
    }
    dg_peers_destroy(d);
    for (struct dg_qp *qp = d->qps, *next; qp; qp = next) {
        next = qp->next;
        dg_qp_destroy(qp);
    }
    if (d->channel)
        rdma_destroy_event_channel(d->channel);
    if (d->epoll >= 0)
        close(d->epoll);
    if (rs->object.fd >= 0)
        close(rs->object.fd);
    rs_fini(rs);
    free(d);
}

static const struct rs_ops dgram_ops = {
    .process = dg_process,
    .arm = dg_arm,
    .armed = dgram_armed,
    .fds = dgram_fds,
    .events = dgram_events,
    .bind = dgram_bind,
    .connect = dgram_connect,
    .name = dgram_name,
    .shutdown = dgram_shutdown,
    .finish = dgram_finish,
    .is_sent = dgram_is_sent,
    .apply = dgram_apply,
    .recv = dg_recv,
    .send = dg_send,
    .close = dgram_close,
    .destroy = dgram_destroy,
};
