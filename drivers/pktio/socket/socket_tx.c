/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames become datagrams: consecutive packets of a flow that have one length leave by one system
 * call, and the kernel, or a NIC, cuts them (UDP_SEGMENT). It writes the IPv4 identification 0 into
 * the first, as nothing may be fragmented, and counts on from there; so the ICRC is computed here,
 * with what the kernel will write.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "bytes.h"
#include "socket_internal.h"

#define SEND_BYTES_MAX 65000 /* of one system call */

/* Where things are in a frame of RoCEv2. */
struct layout {
    uint8_t *l3, *udp;
    enum icrc_l3 kind;
};

static bool find_layout(const struct socket_port *s, uint16_t slot, struct layout *l)
{
    uint8_t *frame = frame_slot(&s->slots, slot);
    uint16_t type = get_be16(frame + 12);

    l->l3 = frame + ETH_LEN;
    l->kind = type == ETHERTYPE_IPV4 ? ICRC_IPV4 : ICRC_IPV6;
    l->udp = l->l3 + (type == ETHERTYPE_IPV4 ? IPV4_LEN : IPV6_LEN);
    if (s->slots.len[slot] < (size_t)(l->udp - frame) + UDP_LEN + 16 || s->slots.len[slot] % 4 != 2)
        return false; /* Ethernet's header has 14 bytes, all else is a multiple of four */
    if (type == ETHERTYPE_IPV4 ? l->l3[0] != IPV4_VERSION_IHL || l->l3[9] != IP_PROTO_UDP
                               : type != ETHERTYPE_IPV6 || l->l3[6] != IP_PROTO_UDP)
        return false;
    return get_be16(l->udp + 2) == ROCE_UDP_PORT;
}

static void drop(struct socket_port *s, uint16_t slot)
{
    counter_inc(&s->counters.tx_refused);
    frame_slots_free(&s->slots, slot);
}

/* ---- groups ---- */

static bool same_flow(const struct layout *a, const struct layout *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == ICRC_IPV4)
        return a->l3[1] == b->l3[1] && !memcmp(a->l3 + 12, b->l3 + 12, 8);
    return !memcmp(a->l3, b->l3, 4) && !memcmp(a->l3 + 8, b->l3 + 8, 32);
}

static unsigned group_limit(const struct socket_port *s, const struct socket_group *g)
{
    return s->no_segments ? 1 : min_of(SOCKET_SEGMENTS, SEND_BYTES_MAX / g->len);
}

/* Groups are sent in the order in which they began, and only the flow's last one takes more. */
static bool join_group(struct socket_port *s, unsigned place, const struct layout *l, uint16_t slot)
{
    for (unsigned i = s->groups; i-- > 0;) {
        struct socket_group *g = &s->group[i];
        struct layout first;

        if (g->place != place || !find_layout(s, g->slot[0], &first) || !same_flow(&first, l))
            continue;
        if (g->full || s->slots.len[slot] > g->len)
            return false;
        g->full = s->slots.len[slot] < g->len || g->count + 1 >= group_limit(s, g);
        g->slot[g->count++] = slot;
        return true;
    }
    return false;
}

static void begin_group(struct socket_port *s, unsigned place, const struct layout *l,
                        uint16_t slot)
{
    struct socket_group *g = &s->group[s->groups++];

    g->place = place;
    g->ipv4 = l->kind == ICRC_IPV4;
    g->len = s->slots.len[slot];
    g->slot[0] = slot;
    g->count = 1;
    g->full = group_limit(s, g) == 1;
}

/* The port's own MAC, or a group's: the kernel gets no multicast. */
static bool stays_here(const struct socket_port *s, const uint8_t *frame)
{
    return frame[0] & 1 || !memcmp(frame, s->info.mac, MAC_LEN);
}

void socket_tx_add(struct socket_port *s, uint16_t slot)
{
    struct layout l;
    unsigned place;

    if (stays_here(s, frame_slot(&s->slots, slot))) {
        counter_inc(&s->counters.local);
        frame_slots_put_local(&s->slots, slot);
        return;
    }
    if (!find_layout(s, slot, &l)) {
        drop(s, slot);
        return;
    }
    place = socket_sport_choose(s, get_be16(l.udp), l.kind == ICRC_IPV4);
    if (place == SOCKET_SPORTS)
        drop(s, slot);
    else if (!join_group(s, place, &l, slot)) {
        if (s->groups == ARRAY_SIZE(s->group))
            socket_tx_flush(s);
        if (s->groups == ARRAY_SIZE(s->group))
            drop(s, slot);
        else
            begin_group(s, place, &l, slot);
    }
}

/* ---- the kernel's headers, and the ICRC ---- */

static void write_headers(const struct layout *l, uint16_t sport, uint16_t id)
{
    put_be16(l->udp, sport);
    if (l->kind != ICRC_IPV4)
        return;
    put_be16(l->l3 + 4, id);
    put_be16(l->l3 + 6, IPV4_DF);
}

/* A packet that has an ICRC already was made by a program or the control thread. A wrong one stays
 * wrong. */
static void seal(struct socket_port *s, uint16_t slot, uint16_t sport, uint16_t id)
{
    struct layout l;
    size_t covered;
    uint32_t error;

    find_layout(s, slot, &l);
    covered = s->slots.len[slot] - ETH_LEN - 4;
    error = s->slots.omitted[slot] ? 0 : icrc_error(l.kind, l.l3, covered);
    write_headers(&l, sport, id);
    icrc_seal_wrong(l.kind, l.l3, covered, error);
    s->slots.omitted[slot] = false;
}

/* ---- to the kernel ---- */

struct outgoing {
    struct msghdr m;
    struct sockaddr_in6 to;
    struct iovec part[SOCKET_SEGMENTS];
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

static void address_ipv4(struct outgoing *o, const struct layout *l)
{
    struct sockaddr_in *to = (struct sockaddr_in *)&o->to;
    struct in_pktinfo from = {0};
    int tos = l->l3[1];

    *to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    memcpy(&from.ipi_spec_dst, l->l3 + 12, 4);
    memcpy(&to->sin_addr, l->l3 + 16, 4);
    o->m.msg_namelen = sizeof(*to);
    add_control(o, IPPROTO_IP, IP_PKTINFO, &from, sizeof(from));
    add_control(o, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
}

static void address_ipv6(struct outgoing *o, const struct layout *l)
{
    struct in6_pktinfo from = {0};
    int tclass = (uint8_t)(get_be16(l->l3) >> 4);

    o->to = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
    memcpy(&from.ipi6_addr, l->l3 + 8, 16);
    memcpy(&o->to.sin6_addr, l->l3 + 24, 16);
    o->m.msg_namelen = sizeof(o->to);
    add_control(o, IPPROTO_IPV6, IPV6_PKTINFO, &from, sizeof(from));
    add_control(o, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass));
}

static void prepare(struct socket_port *s, const struct socket_group *g, struct outgoing *o)
{
    struct layout l;

    memset(&o->m, 0, sizeof(o->m));
    memset(o->control, 0, sizeof(o->control));
    o->m = (struct msghdr){
        .msg_name = &o->to, .msg_control = o->control, .msg_iov = o->part, .msg_iovlen = g->count};
    find_layout(s, g->slot[0], &l);
    if (g->ipv4)
        address_ipv4(o, &l);
    else
        address_ipv6(o, &l);
    for (unsigned i = 0; i < g->count; i++) {
        seal(s, g->slot[i], s->sport[g->place].port, (uint16_t)i);
        find_layout(s, g->slot[i], &l);
        o->part[i].iov_base = l.udp + UDP_LEN;
        o->part[i].iov_len = s->slots.len[g->slot[i]] -
                             (size_t)(l.udp + UDP_LEN - frame_slot(&s->slots, g->slot[i]));
    }
    if (g->count > 1) {
        uint16_t segment = (uint16_t)o->part[0].iov_len;

        add_control(o, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    }
}

/* 0: sent, or not to be sent at all; or what the kernel has against it. */
static int send_group(struct socket_port *s, const struct socket_group *g)
{
    struct outgoing o;

    prepare(s, g, &o);
    return sendmsg(s->sport[g->place].fd[g->ipv4], &o.m, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* One packet at a time: the kernel cannot cut this datagram. */
static int send_singly(struct socket_port *s, struct socket_group *g)
{
    struct socket_group single = *g;
    bool reported = false;

    for (unsigned i = 0; i < g->count; i++) {
        int err;

        single.count = 1;
        single.slot[0] = g->slot[i];
        err = send_group(s, &single);
        if (err == EAGAIN || err == ENOBUFS) {
            memmove(g->slot, g->slot + i, (g->count - i) * sizeof(g->slot[0]));
            g->count -= i;
            return err;
        }
        if (err == EMSGSIZE && !reported)
            socket_report_too_big(s, g->slot[i]);
        reported |= err == EMSGSIZE;
        if (err)
            counter_inc(&s->counters.tx_refused);
        frame_slots_free(&s->slots, g->slot[i]);
    }
    g->count = 0;
    return 0;
}

/* 0: nothing is left of the group; else the kernel has no room for it. EIO: an interface without
 * checksums, whose datagrams cannot be cut; EINVAL, EMSGSIZE: the path takes less. */
static int finish_group(struct socket_port *s, struct socket_group *g)
{
    int err = g->count > 1 && !s->no_segments ? send_group(s, g) : EINVAL;

    if (!err) {
        for (unsigned i = 0; i < g->count; i++)
            frame_slots_free(&s->slots, g->slot[i]);
        return 0;
    }
    if (err == EAGAIN || err == ENOBUFS)
        return err;
    s->no_segments |= err == EIO;
    return send_singly(s, g);
}

void socket_tx_flush(struct socket_port *s)
{
    unsigned done = 0;

    while (done < s->groups && !finish_group(s, &s->group[done]))
        done++;
    s->groups -= done;
    memmove(s->group, s->group + done, s->groups * sizeof(s->group[0]));
}
