/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames become datagrams: consecutive packets of a flow that have one length leave by one system
 * call, and the kernel, or a NIC, cuts them (UDP_SEGMENT). The packets of several bursts do, until
 * the worker has no more for now, or has sent for long enough. What is left of the last datagram
 * then waits for the packets that follow.
 */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "socket_internal.h"

#define SEND_BYTES_MAX 65000 /* of one system call */

/* False: it is no frame of RoCEv2, or too short. */
static bool find_layout(const struct socket_port *s, uint16_t slot, struct socket_layout *l)
{
    const uint8_t *frame = frame_slot(&s->slots, slot);
    uint16_t type = get_be16(frame + 12);
    uint32_t len = s->slots.len[slot];

    *l = socket_layout_of(s, slot, type == ETHERTYPE_IPV4 ? ICRC_IPV4 : ICRC_IPV6);
    if (len < (size_t)(l->bth - frame) + 16 || len % 4 != 2)
        return false; /* Ethernet's header has 14 bytes, all else is a multiple of four */
    if (type == ETHERTYPE_IPV4 ? l->l3[0] != IPV4_VERSION_IHL || l->l3[9] != IP_PROTO_UDP
                               : type != ETHERTYPE_IPV6 || l->l3[6] != IP_PROTO_UDP)
        return false;
    return get_be16(l->bth - 6) == ROCE_UDP_PORT;
}

static void drop(struct socket_port *s, uint16_t slot)
{
    counter_inc(&s->counters.tx_refused);
    frame_slots_free(&s->slots, slot);
}

/* ---- groups ---- */

static bool is_same_flow(const struct socket_layout *a, const struct socket_layout *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == ICRC_IPV4)
        return a->l3[1] == b->l3[1] && a->l3[8] == b->l3[8] && !memcmp(a->l3 + 12, b->l3 + 12, 8);
    return !memcmp(a->l3, b->l3, 4) && !memcmp(a->l3 + 7, b->l3 + 7, 33);
}

static unsigned group_limit(const struct socket_port *s, const struct socket_group *g)
{
    return s->no_segments ? 1 : min_of(SOCKET_SEGMENTS, SEND_BYTES_MAX / g->first.len);
}

/* Groups are sent in the order in which they began, and only the flow's last one takes more. */
static bool join_group(struct socket_port *s, unsigned place, const struct socket_layout *l,
                       uint16_t slot)
{
    for (unsigned i = s->groups; i-- > 0;) {
        struct socket_group *g = &s->group[i];

        if (g->place != place || !is_same_flow(&g->first, l))
            continue;
        if (g->full || l->len > g->first.len)
            return false;
        g->slot[g->count++] = slot;
        g->full = l->len < g->first.len || g->count >= group_limit(s, g);
        return true;
    }
    return false;
}

static void begin_group(struct socket_port *s, unsigned place, const struct socket_layout *l,
                        uint16_t slot)
{
    struct socket_group *g = &s->group[s->groups++];

    g->place = place;
    g->first = *l;
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
    struct socket_layout l;
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
    place = socket_sport_choose(s, get_be16(l.bth - UDP_LEN), l.kind == ICRC_IPV4);
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

/* ---- to the kernel ---- */

/* One packet at a time: the kernel cannot cut this datagram. */
static int send_singly(struct socket_port *s, struct socket_group *g)
{
    struct socket_group single = *g;
    bool reported = false;

    for (unsigned i = 0; i < g->count; i++) {
        int err;

        single.count = 1;
        single.slot[0] = g->slot[i];
        single.first = socket_layout_of(s, g->slot[i], g->first.kind);
        err = socket_send(s, &single);
        if (err == EAGAIN || err == ENOBUFS) {
            memmove(g->slot, g->slot + i, (g->count - i) * sizeof(g->slot[0]));
            g->count -= i;
            g->first = single.first;
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
    int err = g->count > 1 && !s->no_segments ? socket_send(s, g) : EINVAL;

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

/* How many groups are to leave. A packet by itself, for which a peer may be waiting, does not wait
 * for others. */
static unsigned groups_to_send(const struct socket_port *s)
{
    const struct socket_group *last;

    if (!s->groups || !s->more)
        return s->groups;
    last = &s->group[s->groups - 1];
    return s->groups - (!last->full && last->count > 1);
}

void socket_tx_flush(struct socket_port *s)
{
    unsigned done = 0, n = groups_to_send(s);

    while (done < n && !finish_group(s, &s->group[done]))
        done++;
    s->groups -= done;
    memmove(s->group, s->group + done, s->groups * sizeof(s->group[0]));
}
