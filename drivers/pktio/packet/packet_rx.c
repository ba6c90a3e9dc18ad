/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What arrives becomes frames. A short frame arrives in the slot that it is handed up in. A long
 * one, which is several packets, continues behind the slot, and each packet is copied into a slot
 * of its own. The kernel takes an 802.1Q tag off, and says so beside the frame.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bytes.h"
#include "icrc_id.h"
#include "packet_internal.h"

#define ASK_LONG 4        /* frames that the kernel is asked for while it has long ones */
#define TAG_AT   12       /* behind the MACs */
#define RX_AT    VLAN_LEN /* of a slot: a tag goes in front */
#define GSO_KIND 0x7F     /* of gso_type, without VIRTIO_NET_HDR_GSO_ECN */

int packet_rx_init(struct packet_queue *q)
{
    size_t bytes = (size_t)FRAME_BURST * PACKET_BYTES;
    struct packet_rx *rx = &q->rx;
    void *memory;

    if (posix_memalign(&memory, 4096, bytes))
        return -ENOMEM;
    madvise(memory, bytes, MADV_DONTDUMP); /* bytes of applications */
    rx->behind = memory;
    rx->asked = FRAME_BURST;
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        rx->part[i][0] = (struct iovec){&rx->head[i], sizeof(rx->head[i])};
        rx->part[i][1].iov_len = q->slots.room - RX_AT;
        rx->part[i][2] = (struct iovec){rx->behind + (size_t)i * PACKET_BYTES, PACKET_BYTES};
        rx->m[i].msg_hdr = (struct msghdr){
            .msg_iov = rx->part[i], .msg_iovlen = 3, .msg_control = rx->control[i].bytes};
    }
    return 0;
}

void packet_rx_fini(struct packet_queue *q)
{
    free(q->rx.behind);
}

/* ---- from the kernel ---- */

static void arm(struct packet_queue *q)
{
    struct packet_rx *rx = &q->rx;

    while (rx->armed < rx->asked && q->slots.free_count) {
        uint16_t slot = frame_slots_take(&q->slots);

        rx->part[rx->armed][1].iov_base = frame_slot(&q->slots, slot) + RX_AT;
        rx->slot[rx->armed++] = slot;
    }
}

static void receive(struct packet_queue *q)
{
    struct packet_rx *rx = &q->rx;
    unsigned asked;
    int count;

    arm(q);
    asked = min_of(rx->armed, rx->asked);
    for (unsigned i = 0; i < asked; i++)
        rx->m[i].msg_hdr.msg_controllen = sizeof(rx->control[i].bytes);
    count = asked ? recvmmsg(q->fd, rx->m, asked, MSG_DONTWAIT, NULL) : 0;
    /* Linux before 6.2 has lost a frame that was several packets: it cannot say so. */
    if (count < 0 && errno == EINVAL)
        counter_inc(&q->counters.rx_unusable);
    rx->next = 0;
    rx->count = count > 0 ? (unsigned)count : 0;
    rx->asked = FRAME_BURST;
}

static void read_control(struct packet_queue *q, struct packet_message *p, const struct cmsghdr *c)
{
    struct tpacket_auxdata aux;
    uint32_t dropped;

    if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
        memcpy(&aux, CMSG_DATA(c), sizeof(aux));
        p->tagged = aux.tp_status & TP_STATUS_VLAN_VALID;
        p->vlan_tci = aux.tp_vlan_tci;
        p->vlan_tpid =
            aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETHERTYPE_VLAN;
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
        memcpy(&dropped, CMSG_DATA(c), sizeof(dropped));
        counter_add(&q->counters.rx_overflow, dropped - q->rx.dropped);
        q->rx.dropped = dropped;
    }
}

static void begin_message(struct packet_queue *q)
{
    struct packet_rx *rx = &q->rx;
    struct msghdr *m = &rx->m[rx->next].msg_hdr;
    struct packet_message *p = &rx->message;
    uint32_t len = rx->m[rx->next].msg_len;

    *p = (struct packet_message){.slot = rx->slot[rx->next],
                                 .len = len > sizeof(struct virtio_net_hdr)
                                            ? len - (uint32_t)sizeof(struct virtio_net_hdr)
                                            : 0,
                                 .truncated = m->msg_flags & MSG_TRUNC};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
        read_control(q, p, c);
    rx->has_message = true;
}

/* The slot becomes another one's: the frame in it was handed up. */
static void replace_slot(struct packet_queue *q)
{
    struct packet_rx *rx = &q->rx;
    unsigned i = rx->next;

    rx->slot[i] = frame_slots_take(&q->slots);
    rx->part[i][1].iov_base = frame_slot(&q->slots, rx->slot[i]) + RX_AT;
}

static void end_message(struct packet_queue *q)
{
    q->rx.has_message = false;
    q->rx.next++;
}

/* ---- to frames ---- */

/* Opens a gap for the tag, behind the MACs; `frame` is behind a gap of that size. Returns the
 * frame's first byte. */
static uint8_t *restore_tag(const struct packet_message *p, uint8_t *frame)
{
    if (!p->tagged)
        return frame;
    memmove(frame - VLAN_LEN, frame, TAG_AT);
    put_be16(frame - VLAN_LEN + TAG_AT, p->vlan_tpid);
    put_be16(frame - VLAN_LEN + TAG_AT + 2, p->vlan_tci);
    return frame - VLAN_LEN;
}

/* The sender's kernel has left a checksum to the interface (struct virtio_net_hdr). */
static void complete_checksum(const struct virtio_net_hdr *head, uint8_t *frame, uint32_t len)
{
    uint32_t start = head->csum_start, at = start + head->csum_offset;
    uint16_t sum;

    if (!(head->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || at + 2 > len)
        return;
    sum = (uint16_t)~words_sum(0, frame + start, len - start);
    put_be16(frame + at, sum ? sum : UINT16_MAX);
}

static bool take_short(struct packet_queue *q, struct frame *f)
{
    struct packet_rx *rx = &q->rx;
    const struct packet_message *p = &rx->message;
    uint8_t *data = frame_slot(&q->slots, p->slot) + RX_AT;

    if (p->truncated || p->len < ETH_LEN || p->len > q->slots.room - RX_AT)
        return false;
    complete_checksum(&rx->head[rx->next], data, p->len);
    *f = (struct frame){.data = restore_tag(p, data),
                        .len = p->len + (p->tagged ? VLAN_LEN : 0),
                        .cookie = (void *)(uintptr_t)p->slot};
    return true;
}

/* Copies bytes of a message, from its slot and what is behind. */
static void copy_out(const struct packet_queue *q, uint8_t *to, uint32_t at, uint32_t len)
{
    const struct packet_rx *rx = &q->rx;
    uint32_t room = q->slots.room - RX_AT, n = at < room ? min_of(len, room - at) : 0;

    if (n)
        memcpy(to, frame_slot(&q->slots, rx->message.slot) + RX_AT + at, n);
    if (len > n)
        memcpy(to + n, rx->behind + (size_t)rx->next * PACKET_BYTES + (at + n - room), len - n);
}

/* Whether the message is packets of RoCEv2 that slots can hold. */
static bool begin_long(struct packet_queue *q)
{
    struct packet_rx *rx = &q->rx;
    struct packet_message *p = &rx->message;
    const struct virtio_net_hdr *head = &rx->head[rx->next];
    const uint8_t *frame = frame_slot(&q->slots, p->slot) + RX_AT;

    if (p->truncated || (head->gso_type & GSO_KIND) != PACKET_GSO_UDP || !head->gso_size ||
        !packet_find_layout(frame, p->len, &p->layout) || p->layout.l3 != ETH_LEN ||
        p->layout.payload + head->gso_size > q->slots.room - RX_AT)
        return false;
    p->segment = head->gso_size;
    p->at = p->layout.payload;
    p->id = p->layout.ipv4 ? get_be16(frame + p->layout.l3 + 4) : 0;
    return true;
}

/* Where a message has these bytes, or NULL: some are in its slot and the others behind. */
static const uint8_t *find_bytes(const struct packet_queue *q, uint32_t at, uint32_t len)
{
    const struct packet_rx *rx = &q->rx;
    uint32_t room = q->slots.room - RX_AT;

    if (at >= room)
        return rx->behind + (size_t)rx->next * PACKET_BYTES + (at - room);
    return at + len <= room ? frame_slot(&q->slots, rx->message.slot) + RX_AT + at : NULL;
}

/*
 * A frame that has not been cut yet has packets whose identifications count on from the first.
 * Packets that a NIC or the kernel has put together may have had any: the ICRC of the second says
 * which of both it is, and if they do not count on, each one's tells its own (icrc_id.h). True: the
 * ICRC is right.
 */
static bool find_number(struct packet_message *p, uint8_t *l3, uint32_t len)
{
    if (p->numbers_known || !p->layout.ipv4 || p->at == p->layout.payload || len % 4 ||
        len < IPV4_LEN + UDP_LEN + PACKET_MIN || !icrc_find_id(l3, len))
        return false;
    p->id = get_be16(l3 + 4);
    ipv4_write_sum(l3);
    return true;
}

/* Copies a packet behind its headers. True: its ICRC is right. */
static bool copy_and_check(struct packet_queue *q, uint8_t *l3, uint32_t len)
{
    struct packet_message *p = &q->rx.message;
    enum icrc_l3 kind = p->layout.ipv4 ? ICRC_IPV4 : ICRC_IPV6;
    unsigned headers = icrc_headers(kind);
    const uint8_t *bytes = find_bytes(q, p->at, len);
    bool right;

    if (bytes) {
        right = frame_copy_verified(l3, kind, bytes, len);
    } else {
        copy_out(q, l3 + headers, p->at, len);
        right = !(len % 4) && icrc_verify(kind, l3, headers + len);
    }
    if (!right)
        return find_number(p, l3, headers + len);
    p->numbers_known |= p->at != p->layout.payload;
    return true;
}

/* The next packet of a long message, into a slot of its own. */
static void take_packet(struct packet_queue *q, struct frame *f)
{
    struct packet_message *p = &q->rx.message;
    const struct packet_layout *l = &p->layout;
    uint32_t payload = min_of(p->segment, p->len - p->at);
    uint16_t slot = frame_slots_take(&q->slots);
    uint8_t *frame = frame_slot(&q->slots, slot) + RX_AT;
    bool omitted;

    copy_out(q, frame, 0, l->payload);
    packet_write_lengths(frame, l, payload, p->id);
    omitted = copy_and_check(q, frame + l->l3, payload);
    *f = (struct frame){.data = restore_tag(p, frame),
                        .len = l->payload + payload + (p->tagged ? VLAN_LEN : 0),
                        .cookie = (void *)(uintptr_t)slot,
                        .icrc_omitted = omitted};
    p->id++;
    p->at += payload;
}

/* What no slot can hold. Packets of TCP that are together no longer than one of ours are not meant
 * for the port. */
static void drop_message(struct packet_queue *q)
{
    uint8_t kind = q->rx.head[q->rx.next].gso_type & GSO_KIND;

    if (kind == VIRTIO_NET_HDR_GSO_NONE || kind == PACKET_GSO_UDP)
        counter_inc(&q->counters.rx_unusable);
    end_message(q);
}

/* One frame of the message. False: there was none. */
static bool take_frame(struct packet_queue *q, struct frame *f)
{
    struct packet_rx *rx = &q->rx;
    struct packet_message *p = &rx->message;

    if (!rx->has_message)
        begin_message(q);
    if (rx->head[rx->next].gso_type == VIRTIO_NET_HDR_GSO_NONE) {
        if (!take_short(q, f)) {
            drop_message(q);
            return false;
        }
        replace_slot(q);
        end_message(q);
        return true;
    }
    if (!p->at && !begin_long(q)) {
        drop_message(q);
        return false;
    }
    rx->asked = ASK_LONG;
    take_packet(q, f);
    if (p->at >= p->len)
        end_message(q);
    return true;
}

unsigned packet_rx_take(struct packet_queue *q, struct frame *f, unsigned n)
{
    struct packet_rx *rx = &q->rx;
    unsigned count = 0;

    if (rx->next == rx->count && n)
        receive(q);
    while (rx->next < rx->count && count < n && q->slots.free_count)
        count += take_frame(q, &f[count]);
    return count;
}
