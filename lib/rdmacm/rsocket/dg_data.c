/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and receiving datagrams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "dg_socket.h"

#define UDP_BATCH  32   /* packets of one look */
#define LOOK_CALLS 8    /* calls between looks at the UDP socket, of a program that only polls */
#define UDP_MAX    2400 /* bytes of a packet: a message and its header */

/*
 * A peer that was started again has another queue pair, and what goes to the old one is lost. So
 * when nothing has come from a peer for SILENT_NS, one datagram in that time goes by UDP, and its
 * answer says which queue pair it is. A peer that only receives says that it lives, in time: its
 * datagrams need not go by UDP then, where others would overtake them.
 */
#define SILENT_NS ((int64_t)NS_PER_SEC)
#define LISTEN_NS (SILENT_NS / 2)      /* of silence, until the UDP socket is looked at */
#define TELL_NS   (SILENT_NS * 2 / 5)  /* after which a receiver says that it lives */
#define GLANCE_NS ((int64_t)NS_PER_MS) /* between looks that a silent peer causes */

/* ---- messages that wait ---- */

/* Of the receive buffer, by a message that came by UDP: one without bytes takes memory, too. */
static size_t charge(size_t size)
{
    return max_of(size, sizeof(struct dg_message));
}

void dg_message_free(struct dgram *d, struct dg_message *m)
{
    if (m->qp) {
        dg_qp_repost(m->qp, m->slot);
        return;
    }
    d->queued -= charge(m->size);
    free(m);
}

/* A connected socket takes its peer's alone. */
void dg_queue(struct dgram *d, struct dg_message *m)
{
    m->next = NULL;
    if (d->read_shut || (d->peer && !dg_same_addr(&d->peer->addr, &m->from))) {
        dg_message_free(d, m);
        return;
    }
    *d->last = m;
    d->last = &m->next;
}

static void queue_udp(struct dgram *d, const struct sockaddr_storage *from, const uint8_t *bytes,
                      size_t size)
{
    struct dg_message *m;

    if (d->queued + charge(size) > d->rs.options.recv_buffer) /* as a full socket drops them */
        return;
    m = malloc(sizeof(*m) + size);
    if (!m)
        return;
    *m = (struct dg_message){.size = (uint32_t)size, .from = *from, .bytes = (uint8_t *)(m + 1)};
    memcpy(m + 1, bytes, size);
    d->queued += charge(size);
    dg_queue(d, m);
}

/* ---- UDP ---- */

static int send_udp(struct dgram *d, struct dg_peer *peer, enum rs_dgram_op op,
                    const struct iovec *iov, size_t size)
{
    struct rs_udp_header h = {op, peer->qp->id->qp->qp_num, peer->qp->local};
    struct sockaddr_storage to = rs_addr_given(&d->rs, (const struct sockaddr *)&peer->addr);
    uint8_t packet[UDP_MAX];
    size_t header = rs_udp_header_write(packet, &h);

    rs_iov_gather(packet + header, iov, 0, size);
    if (sendto(d->rs.object.fd, packet, header + size, MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)&to, rs_addr_size(to.ss_family)) < 0)
        return -errno;
    return 0;
}

static void tell(struct dgram *d, struct dg_peer *peer, int64_t now)
{
    send_udp(d, peer, RS_DGRAM_CONTROL, NULL, 0);
    peer->told = now;
}

void dg_heard(struct dgram *d, const struct sockaddr_storage *from, int64_t now)
{
    struct dg_peer *peer = dg_peer_find(d, from);

    if (!peer)
        return;
    peer->heard = now;
    if (now - peer->told > TELL_NS)
        tell(d, peer, now);
}

static void receive_udp(struct dgram *d, const struct sockaddr_storage *from, const uint8_t *packet,
                        size_t size)
{
    struct rs_udp_header h;
    int header = rs_udp_header_read(&h, packet, size);
    struct dg_peer *peer;

    if (header < 0)
        return;
    if (!dg_peer_get(d, from, &peer)) {
        peer->heard = rs_now_ns();
        if (h.op == RS_DGRAM_DATA)
            tell(d, peer, peer->heard);
        dg_peer_learn(d, peer, h.qpn);
    }
    if (h.op == RS_DGRAM_DATA)
        queue_udp(d, from, packet + header, size - (size_t)header);
}

static void take_udp(struct dgram *d)
{
    uint8_t packet[UDP_MAX];
    struct sockaddr_storage from;

    for (int i = 0; i < UDP_BATCH; i++) {
        socklen_t length = sizeof(from);
        ssize_t n = recvfrom(d->rs.object.fd, packet, sizeof(packet), MSG_DONTWAIT,
                             (struct sockaddr *)&from, &length);

        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR)
                d->rs.error = errno; /* the network's answer to what was sent */
            return;
        }
        rs_addr_plain(&from);
        receive_udp(d, &from, packet, (size_t)n);
    }
}

/* ---- news ---- */

void dg_process(struct rsocket *rs, bool cm)
{
    struct dgram *d = dg_of(rs);
    struct dg_message **before = d->last;
    struct dg_qp *first = d->qps;
    int error = rs->error;

    for (struct dg_qp *qp = d->qps; qp; qp = qp->next) {
        dg_qp_poll(d, qp);
        if (qp->stopped)
            dg_qp_go_on(qp);
    }
    if (cm || !d->qps || ++d->idle % LOOK_CALLS == 0) {
        take_udp(d);
        if (cm || d->resolving || d->ended) /* who sleeps has the channel's descriptor */
            dg_peer_events(d);
        d->idle = 0;
    }
    /* Those that sleep have not the descriptors of a new queue pair. */
    if (d->last != before || d->qps != first || rs->error != error)
        rs_wake(rs);
}

void dg_arm(struct rsocket *rs)
{
    struct dgram *d = dg_of(rs);

    for (struct dg_qp *qp = d->qps; qp; qp = qp->next)
        if (dg_qp_arm(qp) > 0) {
            dg_qp_poll(d, qp);
            qp->armed = true;
        }
}

/* ---- receiving ---- */

static bool receive_decided(struct rsocket *rs)
{
    struct dgram *d = dg_of(rs);

    return d->first || d->read_shut || rs->error || rs->closed;
}

static size_t take(struct dgram *d, const struct iovec *iov, size_t room, int flags,
                   struct sockaddr_storage *from)
{
    struct dg_message *m = d->first;
    size_t size = m->size, n = size < room ? size : room;

    rs_iov_scatter(iov, 0, m->bytes, n);
    if (from)
        *from = rs_addr_given(&d->rs, (const struct sockaddr *)&m->from);
    if (!(flags & MSG_PEEK)) {
        d->first = m->next;
        if (!d->first)
            d->last = &d->first;
        dg_message_free(d, m);
    }
    return flags & MSG_TRUNC ? size : n;
}

static ssize_t receive(struct dgram *d, const struct iovec *iov, size_t room, int flags,
                       struct sockaddr_storage *from)
{
    struct rsocket *rs = &d->rs;
    int err = 0;

    if (!d->first)
        dg_process(rs, rs_nonblocking(rs, flags));
    if (!receive_decided(rs))
        err = rs_nonblocking(rs, flags)
                  ? -EAGAIN
                  : rs_wait(rs, receive_decided, rs_deadline(rs->options.recv_timeout_ms));
    if (err)
        return err;
    if (d->first)
        return (ssize_t)take(d, iov, room, flags, from);
    return rs->closed ? -EBADF : -rs_take_error(rs);
}

ssize_t dg_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                struct sockaddr_storage *from)
{
    struct dgram *d = dg_of(rs);
    ssize_t got;
    int err;

    if (flags & (MSG_OOB | MSG_ERRQUEUE))
        return -EOPNOTSUPP;
    pthread_mutex_lock(&rs->lock);
    err = dg_bind_any(d);
    got = err ? err : receive(d, iov, rs_iov_size(iov, n), flags, from);
    pthread_mutex_unlock(&rs->lock);
    return got;
}

/* ---- sending ---- */

bool dg_can_send(const struct dgram *d)
{
    if (d->peer)
        return d->peer->qp->free_slots;
    for (const struct dg_qp *qp = d->qps; qp; qp = qp->next)
        if (!qp->free_slots)
            return false;
    return true;
}

static bool send_decided(struct rsocket *rs)
{
    struct dgram *d = dg_of(rs);

    return dg_can_send(d) || rs->error || rs->closed || d->write_shut;
}

static int find_peer(struct dgram *d, const struct sockaddr *to, socklen_t length,
                     struct dg_peer **peer)
{
    struct sockaddr_storage addr;
    int err;

    if (!to) {
        *peer = d->peer;
        return d->peer ? 0 : -EDESTADDRREQ;
    }
    err = dg_addr_of(d, to, length, &addr);
    if (!err)
        err = dg_bind_any(d);
    return err ? err : dg_peer_get(d, &addr, peer);
}

/* Whether the UDP socket may have what this send depends on. */
static bool must_look(struct dgram *d, const struct dg_peer *peer, int64_t now)
{
    if (!peer->ah)
        return true;
    if (now - peer->heard <= LISTEN_NS || now - d->looked <= GLANCE_NS)
        return false;
    d->looked = now;
    return true;
}

static int send_to(struct dgram *d, struct dg_peer *peer, const struct iovec *iov, size_t size,
                   int64_t now)
{
    int err;

    peer->told = now;
    if (!peer->ah || (now - peer->heard > SILENT_NS && now - peer->asked > SILENT_NS)) {
        peer->asked = now;
        err = send_udp(d, peer, RS_DGRAM_DATA, iov, size);
        if (!err || !peer->ah)
            return err;
    }
    return dg_qp_send(peer, iov, size);
}

/* A program may pass any size, such as the -1 of a read that failed. */
static bool is_too_long(const struct dg_qp *qp, size_t size)
{
    return size > qp->max || size + rs_ud_header_size(qp->local.ss_family) > qp->max;
}

/* Peers may be forgotten when others are heard of, so the peer is looked up again after that. */
static ssize_t send_message(struct dgram *d, const struct iovec *iov, size_t size, int flags,
                            const struct sockaddr *to, socklen_t length)
{
    int64_t deadline = rs_deadline(d->rs.options.send_timeout_ms);
    bool nonblocking = rs_nonblocking(&d->rs, flags);
    struct dg_peer *peer;
    int64_t now;
    bool look;
    int err;

    for (;;) {
        now = rs_now_ns();
        err = find_peer(d, to, length, &peer);
        if (err)
            return err;
        if (is_too_long(peer->qp, size))
            return -EMSGSIZE;
        look = must_look(d, peer, now);
        if (look || !peer->qp->free_slots) {
            dg_process(&d->rs, look);
            err = find_peer(d, to, length, &peer);
        }
        if (d->write_shut || d->rs.closed)
            return -EPIPE;
        if (d->rs.error)
            return -rs_take_error(&d->rs);
        if (err)
            return err;
        if (!peer->ah || peer->qp->free_slots)
            break;
        err = nonblocking ? -EAGAIN : rs_wait(&d->rs, send_decided, deadline);
        if (err)
            return err;
    }
    err = send_to(d, peer, iov, size, now);
    return err ? err : (ssize_t)size;
}

ssize_t dg_send(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                const struct sockaddr *to, socklen_t length)
{
    ssize_t sent;

    if (flags & MSG_OOB)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&rs->lock);
    sent = send_message(dg_of(rs), iov, rs_iov_size(iov, n), flags, to, length);
    pthread_mutex_unlock(&rs->lock);
    return sent;
}
