/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the packet port share. Only a queue's worker touches the queue. */
#ifndef UROCE_PKTIO_PACKET_INTERNAL_H
#define UROCE_PKTIO_PACKET_INTERNAL_H

#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdalign.h>
#include <sys/socket.h>

#include "encap.h"
#include "encap_layout.h"
#include "frame_slots.h"
#include "packet.h"

#define PACKET_GSO_UDP 5     /* VIRTIO_NET_HDR_GSO_UDP_L4, of Linux 6.2 */
#define PACKET_BYTES   65536 /* of a long frame, at least */
#define PACKET_HEADERS                                                        \
    128 /* room for a struct virtio_net_hdr and every header before a payload \
         */
#define PACKET_MTU_MAX  9600
#define PACKET_SEGMENTS 64 /* packets in a long frame */
#define PACKET_MIN      16 /* bytes behind a UDP header: BTH and ICRC */

/* Where things are in a frame of RoCEv2, from its first byte. */
struct packet_layout {
    uint8_t l3, payload; /* payload: behind the UDP header */
    bool ipv4;
};

/* A received frame, whose first bytes are in a slot and whose others are behind; or several packets
 * in one (struct virtio_net_hdr). */
struct packet_message {
    uint16_t slot;
    uint32_t len, at; /* at: the next packet's payload; 0: none was taken */
    uint16_t vlan_tpid, vlan_tci;
    bool tagged, truncated, numbers_known;
    struct packet_layout layout;
    uint16_t segment; /* bytes of a packet's payload */
    uint16_t id;      /* of the next packet */
};

struct packet_rx {
    uint8_t *behind; /* FRAME_BURST times PACKET_BYTES */
    uint16_t slot[FRAME_BURST];
    unsigned armed; /* slot[0] to slot[armed - 1] are taken, for the next frames */
    unsigned asked; /* frames that the kernel is asked for; fewer where they are long */
    struct virtio_net_hdr head[FRAME_BURST];
    struct iovec part[FRAME_BURST][3];
    struct mmsghdr m[FRAME_BURST];
    struct {
        alignas(struct cmsghdr) uint8_t bytes[128];
    } control[FRAME_BURST];
    unsigned next, count;          /* of m[], which hold what has arrived */
    struct packet_message message; /* m[next] */
    bool has_message;
    uint32_t dropped; /* by the kernel, as it counts (SO_RXQ_OVFL) */
};

/* Packets that leave as one frame: one flow's, of one length but for the last, which may be
 * shorter. */
struct packet_group {
    uint16_t slot[PACKET_SEGMENTS];
    unsigned count;
    struct packet_layout layout;
    bool full; /* takes no more */
};

struct packet_queue {
    alignas(64) int fd; /* neighbours belong to other workers */
    struct frame_slots slots;
    struct packet_rx rx;
    struct packet_group group[FRAME_BURST]; /* to be sent */
    unsigned groups;
    bool more;        /* packets that may join the last group are about to follow */
    bool full;        /* the kernel had no room for them */
    bool no_segments; /* the kernel cannot cut such frames */
    uint32_t mtu;
    struct pktio_counters counters;
};

struct packet_port {
    struct pktio io;
    char netdev[IFNAMSIZ];
    uint32_t ifindex, mtu, mtu_before;
    uint8_t mac[6];
    int ask_fd, groups_fd, guard_fd[2], link_fd;
    unsigned queues;
    struct packet_queue queue[];
};

static inline struct packet_port *packet_port_of(struct pktio *io)
{
    return container_of(io, struct packet_port, io);
}

/* ---- packet_layout.c ---- */

/* Finds the layout of a whole frame of RoCEv2 with `len` bytes, at most one tag and neither options
 * nor extension headers. False: it is another frame. */
bool packet_find_layout(const uint8_t *frame, uint32_t len, struct packet_layout *l);
/* Whether cutting, which writes lengths and checksums, yields the frame as it is, which no more
 * than `mtu` bytes of IP make too long. */
bool packet_may_join(const uint8_t *frame, uint32_t len, const struct packet_layout *l,
                     uint32_t mtu);
/* Writes lengths and, in IPv4, identification and checksum for a packet of `payload` bytes. The UDP
 * checksum becomes 0. */
void packet_write_lengths(uint8_t *frame, const struct packet_layout *l, uint32_t payload,
                          uint16_t id);
/* Gives a whole packet of IPv4 another identification. The ICRC covers it: a right one is right for
 * the new one, and a wrong one is wrong. */
void packet_renumber(uint8_t *frame, uint32_t len, const struct packet_layout *l, uint16_t id);
/* The sum, with the UDP length, that the kernel wants in the UDP checksum of a long frame. */
uint16_t packet_pseudo_sum(const uint8_t *frame, const struct packet_layout *l);

/* ---- packet_rx.c ---- */

/* Allocates what receiving needs. 0 or -ENOMEM. */
int packet_rx_init(struct packet_queue *q);
void packet_rx_fini(struct packet_queue *q);
/* Takes what has arrived; it asks the kernel once at most. */
unsigned packet_rx_take(struct packet_queue *q, struct frame *f, unsigned n);

/* ---- packet_tx.c ---- */

/* Takes a frame to be sent; what there is no room for is counted and dropped. */
void packet_tx_add(struct packet_queue *q, uint16_t slot);
/* Sends what was added; what the kernel has no room for stays, and so does the last group as long
 * as more packets follow. */
void packet_tx_flush(struct packet_queue *q);

#endif
