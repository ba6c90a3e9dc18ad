/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port over packet sockets of a kernel interface (AF_PACKET), without DPDK. Consecutive packets
 * of a connection pass the kernel as one long frame in either direction (PACKET_VNET_HDR), as those
 * of TCP do, and the interface below cuts it, or a virtual one hands it on whole.
 *
 * The kernel sees the same frames, and the port keeps it from answering those of RoCE. A frame to
 * the port's own MAC stays inside.
 */
#ifndef UROCE_PKTIO_PACKET_H
#define UROCE_PKTIO_PACKET_H

#include "pktio.h"

#define PACKET_QUEUES_MAX 16

struct pktio_packet_config {
    const char *netdev;
    unsigned queues;      /* at most PACKET_QUEUES_MAX; by a hash of the kernel's over the flow */
    uint32_t mtu;         /* the interface gets it; 0: stays as it is */
    bool no_segmentation; /* the kernel gets one packet at a time */
};

/* Opens a port; ops->close frees it. CAP_NET_RAW, with another MTU also CAP_NET_ADMIN. NULL: the
 * reason is in error. */
struct pktio *pktio_packet_open(const struct pktio_packet_config *config, char *error, size_t size);

#endif
