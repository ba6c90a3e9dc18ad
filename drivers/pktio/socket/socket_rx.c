/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received datagrams become frames: the headers that the kernel has taken off are put back, so that
 * the engines see what was on the wire. All fields that the ICRC covers are known but one: the IPv4
 * identification. Datagrams of another port like this one begin with 0 and count on; in each packet
 * of another sender the ICRC itself tells it (icrc_id.h), which leaves less of the ICRC to find
 * damage with; the UDP checksum, where the sender has one, has found it before.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bytes.h"
#include "frame_peek.h"
#include "icrc_id.h"
#include "pkt.h"
#include "socket_internal.h"

#define PACKET_MIN 16 /* BTH and ICRC */

int socket_rx_init(struct socket_port *s)
{
    size_t bytes = (size_t)SOCKET_DATAGRAMS * SOCKET_BYTES;
    void *memory;

    if (posix_memalign(&memory, 4096, bytes))
        return -ENOMEM;
    madvise(memory, bytes, MADV_DONTDUMP);
    s->rx.bytes = memory;
    return 0;
}

void socket_rx_fini(struct socket_port *s)
{
    free(s->rx.bytes);
}

/* ---- from the kernel ---- */

struct received {
    struct sockaddr_in6 from;
    uint8_t control[256] __attribute__((aligned(8)));
};

static union gid mapped(const void *ipv4)
{
    union gid g = {.raw = {[10] = 0xFF, [11] = 0xFF}};

    memcpy(g.raw + 12, ipv4, 4);
    return g;
}

static void count_dropped(struct socket_port *s, unsigned socket, uint32_t dropped)
{
    counter_add(&s->counters.rx_overflow, dropped - s->rx.dropped[socket]);
    s->rx.dropped[socket] = dropped;
}

static void read_control(struct socket_port *s, unsigned socket, struct socket_datagram *d,
                         const struct cmsghdr *c)
{
    const uint8_t *data = CMSG_DATA(c);
    uint32_t number = 0;

    memcpy(&number, data, min_of(sizeof(number), c->cmsg_len - CMSG_LEN(0)));
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
        d->dst = mapped(data + offsetof(struct in_pktinfo, ipi_addr));
    else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
        memcpy(d->dst.raw, data, sizeof(d->dst.raw));
    else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
        d->traffic_class = data[0];
    else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
        d->traffic_class = (uint8_t)number;
    else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
        d->segment = number & 0xFFFF;
    else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL)
        count_dropped(s, socket, number);
}

static void note_datagram(struct socket_port *s, unsigned socket, struct socket_datagram *d,
                          struct mmsghdr *m)
{
    const struct received *r = m->msg_hdr.msg_name;

    *d = (struct socket_datagram){.len = m->msg_len,
                                  .segment = m->msg_len,
                                  .truncated = m->msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC),
                                  .sport = ntohs(r->from.sin6_port)};
    if (s->rx_ipv4[socket])
        d->src = mapped(&((const struct sockaddr_in *)&r->from)->sin_addr);
    else
        memcpy(d->src.raw, &r->from.sin6_addr, sizeof(d->src.raw));
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m->msg_hdr); c; c = CMSG_NXTHDR(&m->msg_hdr, c))
        read_control(s, socket, d, c);
    if (!d->segment)
        d->segment = d->len;
}

/* Asks the sockets in turn, so that none is left out. */
static void receive(struct socket_port *s)
{
    struct received r[SOCKET_DATAGRAMS];
    struct iovec part[SOCKET_DATAGRAMS];
    struct mmsghdr m[SOCKET_DATAGRAMS];
    struct socket_rx *rx = &s->rx;
    int count = 0;
    unsigned socket = 0;

    rx->next = rx->count = 0;
    for (unsigned i = 0; i < SOCKET_DATAGRAMS; i++)
        part[i] = (struct iovec){rx->bytes + (size_t)i * SOCKET_BYTES, SOCKET_BYTES};
    for (unsigned tried = 0; tried < s->rx_fds && count <= 0; tried++) {
        for (unsigned i = 0; i < SOCKET_DATAGRAMS; i++)
            m[i].msg_hdr = (struct msghdr){.msg_name = &r[i],
                                           .msg_namelen = sizeof(r[i].from),
                                           .msg_iov = &part[i],
                                           .msg_iovlen = 1,
                                           .msg_control = r[i].control,
                                           .msg_controllen = sizeof(r[i].control)};
        socket = rx->socket;
        rx->socket = (rx->socket + 1) % s->rx_fds;
        count = recvmmsg(s->rx_fd[socket], m, SOCKET_DATAGRAMS, MSG_DONTWAIT, NULL);
    }
    for (int i = 0; i < count; i++)
        note_datagram(s, socket, &rx->datagram[rx->count++], &m[i]);
}

/* ---- to frames ---- */

/* The headers of a flow are made once for all of its packets that come together. */
static void make_headers(struct socket_port *s, const struct socket_datagram *d)
{
    struct socket_rx *rx = &s->rx;
    struct address_vector av = {.sgid = d->src,
                                .dgid = d->dst,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .traffic_class = d->traffic_class,
                                .hop_limit = 64,
                                .udp_sport = d->sport};

    if (rx->has_headers && gid_eq(&rx->src, &d->src) && gid_eq(&rx->dst, &d->dst) &&
        rx->sport == d->sport && rx->traffic_class == d->traffic_class)
        return;
    memcpy(av.smac, s->info.router, sizeof(av.smac));
    memcpy(av.dmac, s->info.mac, sizeof(av.dmac));
    rx->has_headers = !encap_template_make(&rx->headers, &av);
    rx->src = d->src;
    rx->dst = d->dst;
    rx->sport = d->sport;
    rx->traffic_class = d->traffic_class;
}

/* Copies a packet behind its headers and checks the ICRC. False: it is wrong, and the engine will
 * find the same and say so. */
static bool copy_and_check(struct socket_datagram *d, uint8_t *l3, enum icrc_l3 kind,
                           const uint8_t *bytes, uint32_t len)
{
    if (frame_copy_verified(l3, kind, bytes, len))
        return true;
    if (kind != ICRC_IPV4 || len % 4 || len < PACKET_MIN ||
        !icrc_find_id(l3, icrc_headers(kind) + len))
        return false;
    d->id = get_be16(l3 + 4);
    ipv4_write_sum(l3);
    return true;
}

/* The next packet of a datagram, into a slot. */
static void take_packet(struct socket_port *s, struct socket_datagram *d, const uint8_t *bytes,
                        uint16_t slot)
{
    const struct encap_template *t = &s->rx.headers;
    uint32_t len = min_of(d->segment, d->len - d->at);
    uint8_t *frame = frame_slot(&s->slots, slot);

    encap_tx(frame, t, len, d->id);
    s->slots.len[slot] = t->len + len;
    s->slots.omitted[slot] =
        copy_and_check(d, frame + t->l3_off, (enum icrc_l3)t->l3_kind, bytes + d->at, len);
    if ((d->traffic_class & ECN_MASK) == ECN_CE)
        frame_mark(frame, s->slots.len[slot]);
    d->id++;
    d->at += len;
}

/* What no frame can hold, or is too short for a BTH and an ICRC. */
static bool is_usable(const struct socket_datagram *d)
{
    return !d->truncated && d->segment <= SOCKET_ROOM - ENCAP_MAX_LEN && d->len >= PACKET_MIN;
}

unsigned socket_rx_take(struct socket_port *s, struct frame *f, unsigned n)
{
    struct socket_rx *rx = &s->rx;
    unsigned count = 0;

    if (rx->next == rx->count && n)
        receive(s);
    while (rx->next < rx->count && count < n && s->slots.free_count) {
        struct socket_datagram *d = &rx->datagram[rx->next];

        if (!d->at)
            make_headers(s, d);
        if (!rx->has_headers || !is_usable(d)) {
            counter_inc(&s->counters.rx_unusable);
            d->at = d->len;
        } else {
            uint16_t slot = frame_slots_take(&s->slots);

            take_packet(s, d, rx->bytes + (size_t)rx->next * SOCKET_BYTES, slot);
            f[count++] = frame_slots_frame(&s->slots, slot);
        }
        if (d->at == d->len)
            rx->next++;
    }
    return count;
}
