/* SPDX-License-Identifier: BSD-3-Clause */
/* How long frames may be, and how many buffers of what size a queue takes. */
#include "ethdev_internal.h"

/* Frames of a peer that knows nothing of our MTU: path MTU 4096 and every header. */
#define PEER_ROOM 4352
/* NICs fill buffers in units of this. */
#define ROOM_UNIT 1024
/* In front of a frame in net_af_packet's ring: the kernel's own header, an address, alignment. */
#define SLOT_OVERHEAD 80
#define SLOT_MIN      2048

uint32_t ethdev_packet_slot(uint32_t mtu)
{
    /* The driver takes slots to follow each other without a gap over the blocks of the ring. */
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
    /* The packet socket's driver wants mbufs that hold its whole slot. */
    room = max_of(room, slot);
    if (info->min_rx_bufsize <= UINT16_MAX - RTE_PKTMBUF_HEADROOM - ROOM_UNIT)
        room = max_of(room, info->min_rx_bufsize);
    return (uint32_t)round_up(room, ROOM_UNIT);
}

/*
 * As many mbufs as may be out at once, so that no ring, however full, starves another: a receive
 * that finds none loses frames, and a lend that finds none would wait for mbufs that only it could
 * free. Some drivers hold what their own default rings take whatever they are asked for
 * (net_af_xdp's fill and completion rings), so those count as well; others hold copies only.
 */
static unsigned choose_mbufs(const struct ethdev_kind *k, const struct rte_eth_dev_info *info,
                             uint16_t rx_desc, uint16_t tx_desc)
{
    unsigned rx = max_of(rx_desc, info->default_rxportconf.ring_size);
    unsigned tx = tx_desc + info->default_txportconf.ring_size;
    unsigned rings = k->copies ? 0 : rx + tx;
    /* Received ones with the worker, lent ones, and those that the port refused. */
    unsigned bursts = 3 * FRAME_BURST;
    /* The worker's cache and the control thread's keep up to half as much again as their size. */
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
