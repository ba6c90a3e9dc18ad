/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group of packets goes to the kernel in one piece of memory: with one for each packet the system
 * call takes a quarter longer. The copy is made while the ICRC is computed: with what the kernel
 * will write into the headers. The IPv4 identification is 0 in the first packet, as nothing may be
 * fragmented, and counts on from there.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bytes.h"
#include "pkt.h"
#include "socket_internal.h"

#define HEADERS_MAX 48 /* IPv6, UDP */

int socket_send_init(struct socket_port *s)
{
    void *memory;

    if (posix_memalign(&memory, 4096, HEADERS_MAX + SOCKET_BYTES))
        return -ENOMEM;
    madvise(memory, HEADERS_MAX + SOCKET_BYTES, MADV_DONTDUMP);
    s->outgoing = memory;
    return 0;
}

void socket_send_fini(struct socket_port *s)
{
    free(s->outgoing);
}

/* ---- the kernel's headers, and the ICRC ---- */

static void write_headers(uint8_t *l3, const struct socket_layout *l, uint16_t sport, uint16_t id)
{
    memcpy(l3, l->l3, icrc_headers(l->kind) + BTH_LEN);
    put_be16(l3 + icrc_headers(l->kind) - UDP_LEN, sport);
    if (l->kind != ICRC_IPV4)
        return;
    put_be16(l3 + 4, id);
    put_be16(l3 + 6, IPV4_DF);
}

/* A packet that has an ICRC already was made by a program or the control thread. A wrong one stays
 * wrong. */
static uint32_t error_of(const struct socket_port *s, uint16_t slot, const struct socket_layout *l)
{
    return s->slots.omitted[slot]
               ? 0
               : icrc_error(l->kind, l->l3, icrc_headers(l->kind) + l->len - ICRC_LEN);
}

/* Copies a packet from its BTH on, with its ICRC. Its headers are in front of it for as long as
 * that takes: the end of the packet before is there, and is kept aside. */
static void copy_packet(struct socket_port *s, uint16_t slot, const struct socket_layout *l,
                        uint8_t *to, uint16_t sport, uint16_t id)
{
    unsigned headers = icrc_headers(l->kind);
    uint32_t error = error_of(s, slot, l);
    uint8_t before[HEADERS_MAX], *end = to + l->len - ICRC_LEN;

    memcpy(before, to - headers, headers);
    write_headers(to - headers, l, sport, id);
    icrc_seal_copy(l->kind, to - headers, headers + BTH_LEN, l->bth + BTH_LEN,
                   l->len - BTH_LEN - ICRC_LEN);
    put_be32(end, get_be32(end) ^ error);
    memcpy(to - headers, before, headers);
}

/* ---- to the kernel ---- */

struct outgoing {
    struct msghdr m;
    struct sockaddr_in6 to;
    struct iovec bytes;
    uint8_t control[256] __attribute__((aligned(8)));
};

static void add_control(struct outgoing *o, int level, int type, const void *data, size_t len)
{
    struct cmsghdr *c = (struct cmsghdr *)(o->control + o->m.msg_controllen);

    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    o->m.msg_controllen += CMSG_SPACE(len);
}

static void address_ipv4(struct outgoing *o, const struct socket_layout *l)
{
    struct sockaddr_in *to = (struct sockaddr_in *)&o->to;
    struct in_pktinfo from = {0};
    int tos = l->l3[1], ttl = l->l3[8];

    *to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    memcpy(&from.ipi_spec_dst, l->l3 + 12, 4);
    memcpy(&to->sin_addr, l->l3 + 16, 4);
    o->m.msg_namelen = sizeof(*to);
    add_control(o, IPPROTO_IP, IP_PKTINFO, &from, sizeof(from));
    add_control(o, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
    if (ttl) /* 0 is the kernel's default for IPv6, and an error for IPv4 */
        add_control(o, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
}

static void address_ipv6(struct outgoing *o, const struct socket_layout *l)
{
    struct in6_pktinfo from = {0};
    int tclass = (uint8_t)(get_be16(l->l3) >> 4), hop_limit = l->l3[7];

    o->to = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
    memcpy(&from.ipi6_addr, l->l3 + 8, 16);
    memcpy(&o->to.sin6_addr, l->l3 + 24, 16);
    o->m.msg_namelen = sizeof(o->to);
    add_control(o, IPPROTO_IPV6, IPV6_PKTINFO, &from, sizeof(from));
    add_control(o, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass));
    add_control(o, IPPROTO_IPV6, IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

static void address(struct outgoing *o, const struct socket_layout *l)
{
    memset(o->control, 0, sizeof(o->control));
    o->m = (struct msghdr){
        .msg_name = &o->to, .msg_control = o->control, .msg_iov = &o->bytes, .msg_iovlen = 1};
    if (l->kind == ICRC_IPV4)
        address_ipv4(o, l);
    else
        address_ipv6(o, l);
}

int socket_send(struct socket_port *s, const struct socket_group *g)
{
    uint8_t *first = s->outgoing + HEADERS_MAX, *to = first;
    struct outgoing o;

    address(&o, &g->first);
    for (unsigned i = 0; i < g->count; i++) {
        struct socket_layout l = socket_layout_of(s, g->slot[i], g->first.kind);

        copy_packet(s, g->slot[i], &l, to, s->sport[g->place].port, (uint16_t)i);
        to += l.len;
    }
    if (g->count > 1) {
        uint16_t segment = (uint16_t)g->first.len;

        add_control(&o, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    }
    o.bytes = (struct iovec){first, (size_t)(to - first)};
    return sendmsg(s->sport[g->place].fd[g->first.kind == ICRC_IPV4], &o.m, MSG_DONTWAIT) < 0
               ? errno
               : 0;
}
