/* SPDX-License-Identifier: BSD-3-Clause */
/* The longest frame of a port, and the number and size of a queue's buffers. */
#include "ethdev_internal.h"

/* Frames of a peer that does not know our MTU: path MTU 4096 and every header. */
#define PEER_ROOM 4352
/* NICs fill buffers in units of this size. */
#define ROOM_UNIT 1024
/* In front of a frame in net_af_packet's ring: the kernel's header, an address, alignment. */
#define SLOT_OVERHEAD 80
#define SLOT_MIN      2048

uint32_t ethdev_packet_slot(uint32_t mtu)
{
    /* The driver assumes that slots are adjacent across the blocks of the ring. */
    return max_of(pow2_at_least(mtu + ETHDEV_OVERHEAD + SLOT_OVERHEAD), SLOT_MIN);
}

uint32_t ethdev_packet_slot_mtu(uint32_t slot)
{
    return slot > ETHDEV_OVERHEAD + SLOT_OVERHEAD ? slot - ETHDEV_OVERHEAD - SLOT_OVERHEAD : 0;
}

uint32_t ethdev_mtu_limit(const struct ethdev_kind *k, const struct rte_eth_dev_info *info,
                          uint32_t slot)
{
    /* An mbuf counts its bytes in 16 bits. */
    uint32_t limit = UINT16_MAX - RTE_PKTMBUF_HEADROOM - ROOM_UNIT - ETHDEV_OVERHEAD;

    if (slot)
        limit = min_of(limit, ethdev_packet_slot_mtu(slot));
    if (k->max_mtu)
        limit = min_of(limit, k->max_mtu);
    if (k->any_mtu)
        return limit;
    if (info->max_mtu)
        limit = min_of(limit, info->max_mtu);
    if (info->max_rx_pktlen > RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN)
        limit = min_of(limit, info->max_rx_pktlen - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN);
    return limit;
}

static uint32_t choose_room(const struct ethdev_kind *k, const struct rte_eth_dev_info *info,
                            uint32_t mtu, uint32_t slot)
{
    uint32_t room = mtu + ETHDEV_OVERHEAD;

    if (k->room)
        return k->room;
    if (k->peer_frames)
        room = max_of(room, PEER_ROOM);
    /* net_af_packet requires mbufs that hold a whole slot. */
    room = max_of(room, slot);
    if (info->min_rx_bufsize <= UINT16_MAX - RTE_PKTMBUF_HEADROOM - ROOM_UNIT)
        room = max_of(room, info->min_rx_bufsize);
    return (uint32_t)round_up(room, ROOM_UNIT);
}

/*
 * As many mbufs as can be in use at once, so that a full ring never starves another: a receive
 * without an mbuf loses frames, and a lend without one would wait for mbufs that only it could
 * free. Some drivers fill rings of their default size, whatever size they get (net_af_xdp's fill
 * and completion rings), so these count too; others hold copies only.
 */
static unsigned choose_mbufs(const struct ethdev_kind *k, const struct rte_eth_dev_info *info,
                             uint16_t rx_desc, uint16_t tx_desc)
{
    unsigned rx = max_of(rx_desc, info->default_rxportconf.ring_size);
    unsigned tx = tx_desc + info->default_txportconf.ring_size;
    unsigned rings = k->copies ? 0 : rx + tx;
    /* Received, lent and refused ones. */
    unsigned bursts = 3 * FRAME_BURST;
    /* The caches of the worker and the control thread hold up to one and a half times their size.
     */
    unsigned caches = 2 * (ETHDEV_CACHE + ETHDEV_CACHE / 2);

    return rings + ETHDEV_LOCAL + bursts + caches;
}

struct ethdev_sizes ethdev_choose_sizes(const struct ethdev_kind *k,
                                        const struct rte_eth_dev_info *info, uint32_t mtu,
                                        uint32_t slot, uint16_t rx_desc, uint16_t tx_desc)
{
    return (struct ethdev_sizes){
        .rx_desc = rx_desc,
        .tx_desc = tx_desc,
        .room = choose_room(k, info, mtu, slot),
        .mbufs = choose_mbufs(k, info, rx_desc, tx_desc),
    };
}
