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
     * The largest number of queues, 1 or more; pktio_info.queues is how many there are. The
     * driver's arguments limit them too (queue_count= of net_af_xdp, queues= of net_vhost and
     * virtio_user); net_af_packet gets qpairs if the arguments do not name it, and net_memif always
     * has one queue. RSS spreads received frames over several queues as far as the device can.
     */
    unsigned queues;
    uint32_t mtu; /* 0: leave it unchanged */
    /* What a port without flow control cannot do fails, but for PKTIO_PAUSE_OFF and _RX: the frames
     * come up then, and pktio_info.pause stays PKTIO_PAUSE_DEFAULT. */
    enum pktio_pause pause;
};

/*
 * Opens, configures and starts a port. ops->close stops and frees it. Control thread.
 * NULL: that failed; error (size bytes) says why in one line.
 */
struct pktio *pktio_ethdev_open(const struct pktio_ethdev_config *config, char *error, size_t size);

#endif
