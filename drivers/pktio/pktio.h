/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet I/O: a port as the dataplane sees it. Frames are lent in both directions: received ones
 * for reading until released, empty ones for writing until sent. One queue belongs to one worker.
 *
 * A frame that carries the port's own MAC as its destination comes back as received, and of one to
 * a multicast MAC a copy does: a NIC would not do that, so a driver for one keeps such frames aside
 * (two queue pairs on one port may be connected, or in one group). They come back on the queue that
 * sent them.
 */
#ifndef UROCE_PKTIO_H
#define UROCE_PKTIO_H

#include <stdbool.h>

#include "common.h"
#include "counter.h"
#include "frame.h"
#include "predict.h"

struct pktio;

struct pktio_info {
    uint8_t mac[6];
    uint32_t mtu;        /* bytes of an Ethernet payload */
    unsigned queues;     /* receive and transmit queues, each for one worker */
    uint32_t speed_mbps; /* 0: unknown */
    bool link_up;
    char name[64];
    char netdev[16]; /* kernel interface below, or "" */
    uint32_t ifindex;
    /* The kernel below gets the same frames and answers ARP, ND and ICMP for its addresses itself.
     */
    bool kernel_sees;
    bool no_icrc; /* its frames stay inside (struct frame) */
};

/* Answers of wake_fd that are not descriptors. */
#define PKTIO_WAKE_POLL                                                       \
    -1 /* frames come unannounced: the queue must be polled from time to time \
        */
#define PKTIO_WAKE_NEVER \
    -2 /* frames come only from the queue's own worker: nobody else can wake it */

/*
 * A flow that is to arrive on a chosen queue: RoCEv2 packets with these outer headers (UDP
 * destination port 4791), or, when sport is 0, to this destination QPN from anybody.
 */
struct pktio_flow {
    union gid src, dst; /* both IPv4-mapped, or both IPv6 */
    uint16_t sport;     /* UDP source port, host order; 0: any, and then src means nothing */
    uint32_t dest_qpn;  /* BTH; of a flow with a source port it may be left out of the match */
};

/* What a driver counts of a queue; each has a single writer, a worker. */
struct pktio_counters {
    counter_t tx_refused;  /* frames the port did not take, dropped */
    counter_t rx_unusable; /* received frames that could not be handed up in one piece, dropped */
    counter_t rx_bad_checksum; /* received frames whose IPv4 header the port found bad, dropped */
    counter_t rx_overflow;     /* received frames that found their queue full, dropped */
    counter_t local; /* frames sent to the port's own MAC, or copies of multicast: kept inside */
    /* Of the first frames that were compared: where `rss` says otherwise than the port did. */
    counter_t rss_mismatch;
};

struct pktio_ops {
    const char *driver;
    /* Any thread. */
    void (*info)(struct pktio *io, struct pktio_info *info);
    /* Takes up to n received frames of `queue`; returns how many. They stay valid until rx_release.
     * n may be 0: a port that also sends what waits when it is asked, does that. */
    unsigned (*rx_burst)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
    void (*rx_release)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
    /* Lends up to n empty frames that can all be sent now; returns how many (0: the port is full).
     */
    unsigned (*tx_lend)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
    /* Sends the first `used` of the n lent frames (len set) and takes the others back. What the
     * port refuses is counted and dropped: RoCE recovers. */
    void (*tx_burst)(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);
    /* A descriptor that becomes readable when frames may have arrived while the worker sleeps;
     * armed by wake_arm. Or PKTIO_WAKE_POLL, PKTIO_WAKE_NEVER. The same answer each time. */
    int (*wake_fd)(struct pktio *io, unsigned queue);
    /* Before sleeping: arms wake_fd. Returns false if frames are already waiting. True does not say
     * that none is: the caller polls once more before it sleeps. The queue's worker. */
    bool (*wake_arm)(struct pktio *io, unsigned queue);
    /* Whether frames come unannounced although there is a descriptor, which tells of something
     * else. The same answer each time. NULL: no. */
    bool (*must_poll)(struct pktio *io, unsigned queue);
    /*
     * How the port spreads received RoCEv2 packets of an IP version over its queues: *rss gets its
     * hash, fields and table. 0; -ENOTSUP when nobody can tell (any more: packets arrived
     * elsewhere), or there is nothing to spread.
     * NULL: -ENOTSUP. Control thread.
     */
    int (*rss)(struct pktio *io, bool ipv6, struct rss *rss);
    /*
     * Makes the port put a flow on a queue, before its own rule, and no longer. *rule names it.
     * 0; -ENOTSUP when the port cannot (or cannot match on that), -ENOSPC when it has no room for
     * more, or another negative errno. NULL, both: -ENOTSUP. Control thread.
     */
    int (*flow_add)(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule);
    void (*flow_remove)(struct pktio *io, void *rule);
    /*
     * A descriptor that becomes readable when the link may have gone up or down: then link_ack
     * empties it and info tells what is. -1: it says nothing of itself, info must be asked from
     * time to time. The same answer each time. NULL, both: the link never changes. Control thread.
     */
    int (*link_fd)(struct pktio *io);
    void (*link_ack)(struct pktio *io);
    /* Counters of a queue, or NULL. May be NULL itself. Any thread. */
    const struct pktio_counters *(*counters)(struct pktio *io, unsigned queue);
    /* Nobody may use the port any more; all lent frames must be back. */
    void (*close)(struct pktio *io);
};

struct pktio {
    const struct pktio_ops *ops;
};

#endif
