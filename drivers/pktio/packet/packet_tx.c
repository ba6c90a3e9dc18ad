/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames to the kernel. Packets of a flow leave as one long frame, which the kernel or the
 * interface cuts (VIRTIO_NET_HDR_GSO_UDP_L4, Linux 6.2): it copies the headers and counts the IPv4
 * identification on from the first. An engine counts in the same way, so that consecutive packets
 * are right as they are; between packets of other flows they get the number, and with it the ICRC,
 * that cutting will give them.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "bytes.h"
#include "packet_internal.h"

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
        g->full = q->slots.len[slot] < len || (g->count + 1) * len > LONG_BYTES_MAX;
        return true;
    }
    return false;
}

void packet_tx_add(struct packet_queue *q, uint16_t slot)
{
    const uint8_t *frame = frame_slot(&q->slots, slot);
    uint32_t len = q->slots.len[slot];
    struct packet_layout l = {0};
    struct packet_group *g;

    if (q->no_segments || !packet_find_layout(frame, len, &l) ||
        !packet_may_join(frame, len, &l, q->mtu))
        l = (struct packet_layout){0};
    else if (join_group(q, &l, slot))
        return;
    g = &q->group[q->groups++];
    g->layout = l;
    g->slot[0] = slot;
    g->count = 1;
    g->full = false;
}

/* ---- to the kernel ---- */

struct outgoing {
    struct mmsghdr m[FRAME_BURST];
    struct iovec part[2 * FRAME_BURST]; /* of all messages: one for the headers of each, and those
                                           of FRAME_BURST frames */
    unsigned parts;
    alignas(8) uint8_t headers[FRAME_BURST][PACKET_HEADERS];
};

static void add_part(struct outgoing *o, void *base, size_t len)
{
    o->part[o->parts++] = (struct iovec){base, len};
}

/* The headers of a long frame, behind what the kernel has to know of it. */
static void prepare_long(const struct packet_queue *q, const struct packet_group *g,
                         struct outgoing *o, uint8_t *headers)
{
    const struct packet_layout *l = &g->layout;
    uint8_t *first = frame_slot(&q->slots, g->slot[0]), *frame;
    struct virtio_net_hdr head = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = PACKET_GSO_UDP,
        .hdr_len = l->payload,
        .gso_size = (uint16_t)(q->slots.len[g->slot[0]] - l->payload),
        .csum_start = l->payload - UDP_LEN,
        .csum_offset = 6,
    };
    uint32_t payload = 0;

    for (unsigned i = 0; i < g->count; i++)
        payload += q->slots.len[g->slot[i]] - l->payload;
    memcpy(headers, &head, sizeof(head));
    frame = headers + sizeof(head);
    memcpy(frame, first, l->payload);
    packet_write_lengths(frame, l, payload, get_be16(first + l->l3 + 4));
    put_be16(frame + l->payload - 2, packet_pseudo_sum(frame, l));
    add_part(o, headers, sizeof(head) + l->payload);
    for (unsigned i = 0; i < g->count; i++)
        add_part(o, frame_slot(&q->slots, g->slot[i]) + l->payload,
                 q->slots.len[g->slot[i]] - l->payload);
}

static void prepare(const struct packet_queue *q, struct outgoing *o)
{
    o->parts = 0;
    for (unsigned i = 0; i < q->groups; i++) {
        const struct packet_group *g = &q->group[i];
        unsigned first = o->parts;

        if (g->count > 1) {
            prepare_long(q, g, o, o->headers[i]);
        } else {
            memset(o->headers[i], 0, sizeof(struct virtio_net_hdr));
            add_part(o, o->headers[i], sizeof(struct virtio_net_hdr));
            add_part(o, frame_slot(&q->slots, g->slot[0]), q->slots.len[g->slot[0]]);
        }
        o->m[i] = (struct mmsghdr){
            .msg_hdr = {.msg_iov = &o->part[first], .msg_iovlen = o->parts - first}};
    }
}

static void free_group(struct packet_queue *q, const struct packet_group *g)
{
    for (unsigned i = 0; i < g->count; i++)
        frame_slots_free(&q->slots, g->slot[i]);
}

static void drop_groups(struct packet_queue *q, unsigned n)
{
    q->groups -= n;
    memmove(q->group, q->group + n, q->groups * sizeof(q->group[0]));
}

/* The kernel does not know such frames: each packet leaves by itself, from now on. */
static void dissolve(struct packet_queue *q)
{
    struct packet_group *copy = q->group;
    uint16_t slot[FRAME_BURST];
    unsigned slots = 0;

    for (unsigned i = 0; i < q->groups; i++)
        for (unsigned k = 0; k < copy[i].count; k++)
            slot[slots++] = copy[i].slot[k];
    q->no_segments = true;
    q->groups = 0;
    for (unsigned i = 0; i < slots; i++)
        packet_tx_add(q, slot[i]);
}

/* Whether frames of ours wait below: what was refused may find room when they have left. Otherwise
 * a filter, a shaper or the other end of a veth pair has dropped it, and would each time. */
static bool has_unsent(const struct packet_queue *q)
{
    int bytes = 0;

    return !ioctl(q->fd, SIOCOUTQ, &bytes) && bytes;
}

/* What the kernel has against the first group. False: it has no room, and all wait. */
static bool handle_refusal(struct packet_queue *q, int err)
{
    const struct packet_group *g = &q->group[0];

    if (err == EAGAIN || (err == ENOBUFS && has_unsent(q)))
        return false;
    if (err == EINVAL && g->count > 1) {
        dissolve(q);
        return true;
    }
    /* The interface is down or gone, or takes shorter frames only. */
    counter_add(&q->counters.tx_refused, g->count);
    free_group(q, g);
    drop_groups(q, 1);
    return true;
}

void packet_tx_flush(struct packet_queue *q)
{
    struct outgoing o;
    bool again = false;

    while (q->groups) {
        int sent;

        prepare(q, &o);
        sent = sendmmsg(q->fd, o.m, q->groups, MSG_DONTWAIT);
        /* The socket remembers an error, of an interface that was down or of a frame that recvmmsg
         * could not pass on, and says so at the next call. */
        if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && !again) {
            again = true;
            continue;
        }
        if (sent < 0) {
            if (!handle_refusal(q, errno))
                return;
            continue;
        }
        for (int i = 0; i < sent; i++)
            free_group(q, &q->group[i]);
        drop_groups(q, (unsigned)sent);
    }
}
