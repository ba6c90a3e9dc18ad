/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
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

/** A port. */
struct pktio;

/** Flow control by pause frames (IEEE 802.3, annex 31B). */
enum pktio_pause {
    PKTIO_PAUSE_DEFAULT, /**< as the port has it */
    PKTIO_PAUSE_OFF,
    PKTIO_PAUSE_RX,   /**< pause frames from the link are heeded */
    PKTIO_PAUSE_TX,   /**< a port whose receive queues fill up sends some */
    PKTIO_PAUSE_BOTH, /**< both */
};

/** What a port is. */
struct pktio_info {
    uint8_t mac[6];
    uint32_t mtu;        /**< bytes of an Ethernet payload */
    unsigned queues;     /**< receive and transmit queues, each for one worker */
    uint32_t speed_mbps; /**< 0: unknown */
    bool link_up;
    char name[64];
    char netdev[16]; /**< kernel interface below, or "" */
    uint32_t ifindex;
    uint32_t mtu_before; /**< of the kernel interface, if opening the port has changed it; or 0 */
    /** The kernel below receives the same frames, and answers ARP, ND and ICMP itself. */
    bool kernel_sees;
    bool no_icrc; /**< its frames stay inside (struct frame) */
    /** Frames other than RoCEv2 stay here, and `router` is the port's only neighbour: all addresses
     * but the port's own are behind it. */
    bool routed;
    uint8_t router[6];
    enum pktio_pause pause; /**< what the port itself was told to do */
};

/** Answer of wake_fd: frames arrive without a wakeup, and the queue is polled from time to time. */
#define PKTIO_WAKE_POLL -1
/** Answer of wake_fd: frames come from the queue's own worker only, which is awake then. */
#define PKTIO_WAKE_NEVER -2

/**
 * A flow that is to arrive on a chosen queue: RoCEv2 packets with these outer headers (UDP
 * destination port 4791), or, when sport is 0, to this destination QPN from any peer.
 */
struct pktio_flow {
    union gid src, dst; /**< both IPv4-mapped, or both IPv6 */
    uint16_t sport;     /**< UDP source port, host order; 0: any, and then src means nothing */
    uint32_t dest_qpn;  /**< BTH; of a flow with a source port it may be left out of the match */
};

/** What a driver counts of a queue; each has a single writer, a worker. */
struct pktio_counters {
    counter_t tx_refused;  /**< frames the port did not take, dropped */
    counter_t rx_unusable; /**< received frames that could not be handed up in one piece, dropped */
    counter_t rx_bad_checksum; /**< received frames whose IPv4 header the port found bad, dropped */
    counter_t rx_overflow;     /**< received frames that found their queue full, dropped */
    counter_t local; /**< frames sent to the port's own MAC, or copies of multicast: kept inside */
    /** Of the first frames that were compared: where `rss` says otherwise than the port did. */
    counter_t rss_mismatch;
};

/**
 * What a driver does. A port's queue has one worker; "the worker" below is that of the queue. What
 * says NULL may be left out.
 */
struct pktio_ops {
    const char *driver; /**< The driver's name, for people. */

    /**
     * What the port is now. Any thread.
     *
     * @param io  The port.
     * @param info  Set.
     */
    void (*info)(struct pktio *io, struct pktio_info *info);

    /**
     * Take received frames. A port that keeps frames to send sends them in this call, also with n
     * = 0. The worker.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @param f  Set to the frames, which stay valid until rx_release.
     * @param n  Room at f, at most FRAME_BURST.
     * @return  How many frames.
     */
    unsigned (*rx_burst)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);

    /**
     * Return received frames. The worker.
     *
     * @param io  The port.
     * @param queue  The queue that they came from.
     * @param f  The frames.
     * @param n  How many.
     */
    void (*rx_release)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);

    /**
     * Lend empty frames that can all be sent now. The worker.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @param f  Set to the frames; the next tx_burst gives all of them back.
     * @param n  Room at f, at most FRAME_BURST.
     * @return  How many frames; 0: the port is full.
     */
    unsigned (*tx_lend)(struct pktio *io, unsigned queue, struct frame *f, unsigned n);

    /**
     * Send lent frames, and take the others back. What the port refuses is counted and dropped:
     * RoCE recovers. A port with tx_flush may keep frames until then. The worker.
     *
     * @param io  The port.
     * @param queue  The queue that lent them.
     * @param f  All frames that tx_lend lent.
     * @param n  How many.
     * @param used  How many of them, from the first on, are sent; their len is set.
     */
    void (*tx_burst)(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);

    /**
     * Send the frames that tx_burst has kept. Those that the port has no room for wait for
     * rx_burst. NULL: tx_burst keeps none; else several bursts with one flush cost less than one
     * each. The worker.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @param more  More frames are ready, and another flush follows before the worker sleeps: the
     *     port may keep those that can leave together with the next ones.
     */
    void (*tx_flush)(struct pktio *io, unsigned queue, bool more);

    /**
     * What wakes the worker. The same answer each time. Control thread.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @return  A descriptor that becomes readable when frames may have arrived while the worker
     *     sleeps, after wake_arm; it remains the port's. A worker does not sleep while it is
     *     readable: rx_burst or wake_arm has to end that. Or PKTIO_WAKE_POLL, PKTIO_WAKE_NEVER.
     */
    int (*wake_fd)(struct pktio *io, unsigned queue);

    /**
     * Arm the descriptor before the worker sleeps. The worker.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @return  False: frames are waiting already. True does not say that none is: the caller polls
     *     once more before it sleeps.
     */
    bool (*wake_arm)(struct pktio *io, unsigned queue);

    /**
     * Whether frames arrive without a wakeup although there is a descriptor, which reports other
     * things. The same answer each time. NULL: no. Control thread.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @return  True when the queue must be polled from time to time.
     */
    bool (*must_poll)(struct pktio *io, unsigned queue);

    /**
     * How the port spreads received RoCEv2 packets over its queues. NULL: -ENOTSUP. Control thread.
     *
     * @param io  The port.
     * @param ipv6  The IP version.
     * @param rss  Set on success to the hash, its fields and the table.
     * @return  0; -ENOTSUP: there is nothing to spread, or the port's spreading is not known (any
     *     more: packets arrived elsewhere).
     */
    int (*rss)(struct pktio *io, bool ipv6, struct rss *rss);

    /**
     * Make the port put a flow on a queue, before its own spreading. NULL, like flow_remove:
     * -ENOTSUP. Control thread.
     *
     * @param io  The port.
     * @param flow  The flow, copied.
     * @param queue  The queue.
     * @param rule  Set on success, for flow_remove.
     * @return  0; -ENOTSUP: the port cannot do so, or cannot match on that; -ENOSPC: the port has
     * no room for another rule; or another negative errno.
     */
    int (*flow_add)(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule);

    /**
     * Remove a rule. Control thread.
     *
     * @param io  The port.
     * @param rule  What flow_add set.
     */
    void (*flow_remove)(struct pktio *io, void *rule);

    /**
     * What reports changes of the link. The same answer each time. NULL, like link_ack: the link
     * never changes. Control thread.
     *
     * @param io  The port.
     * @return  A descriptor that becomes readable when the link may have gone up or down: link_ack
     *     empties it, and info has the state. -1: there is none, and info must be asked from time
     *     to time.
     */
    int (*link_fd)(struct pktio *io);

    /**
     * Empty the descriptor of link_fd. Control thread.
     *
     * @param io  The port.
     */
    void (*link_ack)(struct pktio *io);

    /**
     * What the driver counts of a queue. NULL: nothing. Any thread.
     *
     * @param io  The port.
     * @param queue  The queue.
     * @return  The counters, which go on counting, or NULL.
     */
    const struct pktio_counters *(*counters)(struct pktio *io, unsigned queue);

    /**
     * Close and free the port: no thread uses it any more, and all lent frames are back. Control
     * thread.
     *
     * @param io  The port.
     */
    void (*close)(struct pktio *io);
};

/** A port: the first member of a driver's own structure. */
struct pktio {
    const struct pktio_ops *ops;
};

/**
 * Send all frames that bursts may have kept: tx_flush, if the port has it. The worker.
 *
 * @param io  The port.
 * @param queue  The queue.
 */
static inline void pktio_flush(struct pktio *io, unsigned queue)
{
    if (io->ops->tx_flush)
        io->ops->tx_flush(io, queue, false);
}

/**
 * Send lent frames at once: tx_burst and tx_flush. The worker.
 *
 * @param io  The port.
 * @param queue  The queue.
 * @param f  All frames that tx_lend lent.
 * @param n  How many.
 * @param used  How many of them are sent.
 */
static inline void pktio_send(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                              unsigned used)
{
    io->ops->tx_burst(io, queue, f, n, used);
    pktio_flush(io, queue);
}

#endif
