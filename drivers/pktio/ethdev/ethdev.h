/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet I/O over any DPDK port. The EAL must run. */
#ifndef UROCE_PKTIO_ETHDEV_H
#define UROCE_PKTIO_ETHDEV_H

#include "pktio.h"

struct pktio_ethdev_config {
    /*
     * A device as DPDK names it: a PCI address, or a virtual device with its arguments
     * ("net_af_packet0,iface=eth1"). It is probed now unless it exists. net_af_packet gets
     * framesz, blocksz and framecnt for jumbo frames when the arguments name no framesz.
     */
    const char *device;
    /*
     * Wanted at most, 1 or more; pktio_info.queues tells how many there are. The driver's own
     * arguments bound them too (queue_count= of net_af_xdp, queues= of net_vhost and virtio_user);
     * net_af_packet gets qpairs when the arguments name none, net_memif has one queue always.
     * With several, received frames are spread by RSS as far as the device can.
     */
    unsigned queues;
    uint32_t mtu; /* to be set; 0: as it is */
};

/*
 * Opens, configures and starts a port. ops->close stops and frees it. Control thread.
 * NULL: it cannot; error (size bytes) then says why in one line.
 */
struct pktio *pktio_ethdev_open(const struct pktio_ethdev_config *config, char *error, size_t size);

#endif
