/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port over UDP sockets of the kernel: RoCEv2 without any privilege, beside the host's other
 * traffic and with its addresses and routes. The kernel makes and reads Ethernet, IP and UDP
 * headers; for the engines the port is a segment of Ethernet on which a router is the only
 * neighbour (struct pktio_info, routed).
 *
 * Datagrams leave and arrive in batches of one system call (UDP_SEGMENT, UDP_GRO). Their ICRC is
 * computed and checked here, as it covers fields that the kernel chooses: see socket_tx.c and
 * socket_rx.c. One queue.
 */
#ifndef UROCE_PKTIO_SOCKET_H
#define UROCE_PKTIO_SOCKET_H

#include "gid.h"
#include "pktio.h"

#define SOCKET_ADDRESSES_MAX 16

struct pktio_socket_config {
    /* The host's addresses whose datagrams to port 4791 are the port's; none: those to all. */
    union gid address[SOCKET_ADDRESSES_MAX];
    unsigned addresses;
    bool no_segmentation; /* the kernel gets one packet at a time, and numbers each 0 */
    /* Bytes of an IP packet, at most 4334; 0: of the interface by which the host sends. */
    uint32_t mtu;
};

/* Opens a port; ops->close frees it. NULL: the reason is in error. */
struct pktio *pktio_socket_open(const struct pktio_socket_config *config, char *error, size_t size);

#endif
