/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames to the kernel. Packets of a flow leave as one long frame, which the kernel or the
 * interface cuts (VIRTIO_NET_HDR_GSO_UDP_L4, Linux 6.2): it copies the headers and counts the IPv4
 * identification on from the first. An engine counts in the same way, so that consecutive packets
 * are right as they are; between packets of other flows they get the number, and with it the ICRC,
 * that cutting will give them. The packets of several bursts do, until the worker has no more for
 * now, or has sent for long enough. What is left of the last frame then waits for the packets that
 * follow.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "bytes.h"
#include "packet_internal.h"

/* Behind the UDP header: interfaces take less than 65,536 bytes in all. */
#define LONG_BYTES_MAX 65000

/* ---- groups ---- */

/* Whether the packets' headers differ in nothing but lengths, checksums and identification. */
static bool same_headers(const uint8_t *a, const uint8_t *b, const struct packet_layout *l)
{
    const uint8_t *x = a + l->l3, *y = b + l->l3, *udp = a + l->payload - UDP_LEN;

    if (memcmp(a, b, l->l3) || memcmp(udp, b + l->payload - UDP_LEN, 4))
        return false;
    if (l->ipv4)
        return x[1] == y[1] && !memcmp(x + 6, y + 6, 4) && !memcmp(x + 12, y + 12, 8);
    return !memcmp(x, y, 4) && !memcmp(x + 6, y + 6, 34);
}

static bool same_layout(const struct packet_layout *a, const struct packet_layout *b)
{
    return a->l3 == b->l3 && a->ipv4 == b->ipv4;
}

/* The packet gets the identification of its place in the group. */
static void number(struct packet_queue *q, const struct packet_group *g, uint16_t slot)
{
    const uint8_t *first = frame_slot(&q->slots, g->slot[0]);
    uint16_t id = (uint16_t)(get_be16(first + g->layout.l3 + 4) + g->count);
    uint8_t *frame = frame_slot(&q->slots, slot);

    if (g->layout.ipv4 && get_be16(frame + g->layout.l3 + 4) != id)
        packet_renumber(frame, q->slots.len[slot], &g->layout, id);
}

/* Groups are sent in the order in which they began, and only the flow's last one takes more. */
static bool join_group(struct packet_queue *q, const struct packet_layout *l, uint16_t slot)
{
    const uint8_t *frame = frame_slot(&q->slots, slot);

    for (unsigned i = q->groups; i-- > 0;) {
        struct packet_group *g = &q->group[i];
        uint32_t len = q->slots.len[g->slot[0]];

        if (!g->layout.l3 || !same_layout(&g->layout, l) ||
            !same_headers(frame_slot(&q->slots, g->slot[0]), frame, l))
            continue;
        if (g->full || q->slots.len[slot] > len)
            return false;
        number(q, g, slot);
        g->slot[g->count++] = slot;
        g->full = q->slots.len[slot] < len || g->count == PACKET_SEGMENTS ||
                  (g->count + 1) * (len - l->payload) > LONG_BYTES_MAX;
        return true;
    }
    return false;
}

static void begin_group(struct packet_queue *q, const struct packet_layout *l, uint16_t slot)
{
    struct packet_group *g = &q->group[q->groups++];

    g->layout = *l;
    g->slot[0] = slot;
    g->count = 1;
    g->full = false;
}

void packet_tx_add(struct packet_queue *q, uint16_t slot)
{
    const uint8_t *frame = frame_slot(&q->slots, slot);
    uint32_t len = q->slots.len[slot];
    struct packet_layout l = {0};

    if (q->no_segments || !packet_find_layout(frame, len, &l) ||
        !packet_may_join(frame, len, &l, q->mtu))
        l = (struct packet_layout){0};
    else if (join_group(q, &l, slot))
        return;
    if (q->groups == ARRAY_SIZE(q->group))
        packet_tx_flush(q);
    if (q->groups < ARRAY_SIZE(q->group)) {
        begin_group(q, &l, slot);
    } else {
        counter_inc(&q->counters.tx_refused);
        frame_slots_free(&q->slots, slot);
    }
}

/* ---- to the kernel ---- */

/* Messages for the first of the packets that wait. */
struct outgoing {
    struct mmsghdr m[FRAME_BURST];
    uint8_t packets[FRAME_BURST]; /* in each message */
    unsigned messages;
    struct iovec part[2 * FRAME_BURST + PACKET_SEGMENTS];
    unsigned parts;
    alignas(8) uint8_t headers[FRAME_BURST][PACKET_HEADERS];
};

static void add_part(struct outgoing *o, void *base, size_t len)
{
    o->part[o->parts++] = (struct iovec){base, len};
}

/* The parts from `first` on are a message. */
static void add_message(struct outgoing *o, unsigned first, unsigned packets)
{
    o->packets[o->messages] = (uint8_t)packets;
    o->m[o->messages++] =
        (struct mmsghdr){.msg_hdr = {.msg_iov = &o->part[first], .msg_iovlen = o->parts - first}};
}

/* Whether there is room for another message, of that many parts. */
static bool has_room(const struct outgoing *o, unsigned parts)
{
    return o->messages < FRAME_BURST && o->parts + parts <= ARRAY_SIZE(o->part);
}

/* The headers of a long frame, behind what the kernel has to know of it. */
static bool add_long(const struct packet_queue *q, const struct packet_group *g, struct outgoing *o)
{
    const struct packet_layout *l = &g->layout;
    uint8_t *first = frame_slot(&q->slots, g->slot[0]), *headers = o->headers[o->messages];
    uint8_t *frame = headers + sizeof(struct virtio_net_hdr);
    struct virtio_net_hdr head = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = PACKET_GSO_UDP,
        .hdr_len = l->payload,
        .gso_size = (uint16_t)(q->slots.len[g->slot[0]] - l->payload),
        .csum_start = l->payload - UDP_LEN,
        .csum_offset = 6,
    };
    unsigned at = o->parts;
    uint32_t payload = 0;

    if (!has_room(o, 1 + g->count))
        return false;
    add_part(o, headers, sizeof(head) + l->payload);
    for (unsigned i = 0; i < g->count; i++) {
        uint32_t len = q->slots.len[g->slot[i]] - l->payload;

        add_part(o, frame_slot(&q->slots, g->slot[i]) + l->payload, len);
        payload += len;
    }
    memcpy(headers, &head, sizeof(head));
    memcpy(frame, first, l->payload);
    packet_write_lengths(frame, l, payload, get_be16(first + l->l3 + 4));
    put_be16(frame + l->payload - 2, packet_pseudo_sum(frame, l));
    add_message(o, at, g->count);
    return true;
}

/* The packets of a group one by one. */
static bool add_single(const struct packet_queue *q, const struct packet_group *g,
                       struct outgoing *o)
{
    for (unsigned i = 0; i < g->count; i++) {
        uint8_t *head = o->headers[o->messages];
        unsigned at = o->parts;

        if (!has_room(o, 2))
            return false;
        memset(head, 0, sizeof(struct virtio_net_hdr));
        add_part(o, head, sizeof(struct virtio_net_hdr));
        add_part(o, frame_slot(&q->slots, g->slot[i]), q->slots.len[g->slot[i]]);
        add_message(o, at, 1);
    }
    return true;
}

/* How many groups are to leave. A packet by itself, for which a peer may be waiting, does not wait
 * for others. */
static unsigned groups_to_send(const struct packet_queue *q)
{
    const struct packet_group *last;

    if (!q->groups || !q->more)
        return q->groups;
    last = &q->group[q->groups - 1];
    return q->groups - (!last->full && last->count > 1);
}

/* The first of n groups, as many as there is room for. */
static void prepare(const struct packet_queue *q, unsigned n, struct outgoing *o)
{
    bool all = true;

    o->parts = o->messages = 0;
    for (unsigned i = 0; i < n && all; i++) {
        const struct packet_group *g = &q->group[i];

        all = (g->count > 1 && !q->no_segments ? add_long : add_single)(q, g, o);
    }
}

/* The first n of the packets that wait have left. */
static void remove_packets(struct packet_queue *q, unsigned n)
{
    unsigned done = 0;

    while (n) {
        struct packet_group *g = &q->group[done];
        unsigned part = min_of(n, g->count);

        for (unsigned i = 0; i < part; i++)
            frame_slots_free(&q->slots, g->slot[i]);
        g->count -= part;
        memmove(g->slot, g->slot + part, g->count * sizeof(g->slot[0]));
        n -= part;
        done += !g->count;
    }
    q->groups -= done;
    memmove(q->group, q->group + done, q->groups * sizeof(q->group[0]));
}

/* Whether frames of ours wait below: what was refused may find room when they have left. Otherwise
 * a filter, a shaper or the other end of a veth pair has dropped it, and would each time. */
static bool has_unsent(const struct packet_queue *q)
{
    int bytes = 0;

    return !ioctl(q->fd, SIOCOUTQ, &bytes) && bytes;
}

/* What the kernel has against a message, which has the first packets that wait. False: it has no
 * room, and all wait. */
static bool handle_refusal(struct packet_queue *q, int err, unsigned packets)
{
    if (err == EAGAIN || (err == ENOBUFS && has_unsent(q)))
        return false;
    if (err == EINVAL && packets > 1) {
        q->no_segments = true; /* it does not know such frames */
        return true;
    }
    /* The interface is down or gone, or takes shorter frames only. */
    counter_add(&q->counters.tx_refused, packets);
    remove_packets(q, packets);
    return true;
}

static unsigned packets_in(const struct outgoing *o, unsigned messages)
{
    unsigned packets = 0;

    while (messages-- > 0)
        packets += o->packets[messages];
    return packets;
}

void packet_tx_flush(struct packet_queue *q)
{
    struct outgoing o;
    bool again = false;
    unsigned n;

    q->full = false;
    while ((n = groups_to_send(q)) && !q->full) {
        int sent;

        prepare(q, n, &o);
        sent = sendmmsg(q->fd, o.m, o.messages, MSG_DONTWAIT);
        if (sent >= 0) {
            remove_packets(q, packets_in(&o, (unsigned)sent));
            continue;
        }
        /* The socket remembers an error, of an interface that was down or of a frame that recvmmsg
         * could not pass on, and says so at the next call. */
        if (errno != EAGAIN && errno != ENOBUFS && !again)
            again = true;
        else
            q->full = !handle_refusal(q, errno, o.packets[0]);
    }
}
