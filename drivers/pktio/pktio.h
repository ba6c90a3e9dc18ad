/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet I/O: a port as the dataplane sees it. Frames are lent in both directions: received ones for
 * reading until released, empty ones for writing until sent. One queue belongs to one worker.
 */
#ifndef UROCE_PKTIO_H
#define UROCE_PKTIO_H

#include <stdbool.h>

#include "common.h"
#include "frame.h"

struct pktio;

struct pktio_info {
    uint8_t mac[6];
    uint32_t mtu;        /* bytes of an Ethernet payload */
    uint32_t speed_mbps; /* 0: unknown */
    bool link_up;
    char name[64];
    char netdev[16]; /* kernel interface below, or "" */
    uint32_t ifindex;
};

struct pktio_ops {
    const char *driver;
    void (*info)(struct pktio *io, struct pktio_info *info);
    /* Takes up to n received frames of `queue`; returns how many. They stay valid until rx_release. */
    unsigned (*rx_burst)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
    void (*rx_release)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
    /* Lends up to n empty frames that can all be sent now; returns how many (0: the port is full). */
    unsigned (*tx_lend)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
    /* Sends the first `used` of the n lent frames (len set) and takes the others back. What the port
     * refuses is counted and dropped: RoCE recovers. */
    void (*tx_burst)(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);
    /* A descriptor that becomes readable when frames may have arrived while the worker sleeps; armed
     * by wake_arm. -1: the port must be polled. */
    int (*wake_fd)(struct pktio *io, unsigned queue);
    /* Before sleeping: arms wake_fd. Returns false if frames are already waiting. */
    bool (*wake_arm)(struct pktio *io, unsigned queue);
    void (*close)(struct pktio *io);
};

struct pktio {
    const struct pktio_ops *ops;
};

#endif
