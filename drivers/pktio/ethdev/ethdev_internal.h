/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to drivers/pktio/ethdev. */
#ifndef UROCE_ETHDEV_INTERNAL_H
#define UROCE_ETHDEV_INTERNAL_H

/* Our headers first: DPDK does not define container_of and likely if they are defined already,
 * while our headers would redefine DPDK's. */
#include "ethdev.h"

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>
#include <stdatomic.h>

#define ETHDEV_LOCAL 512  /* frames to the port's own MAC that wait; a power of two */
#define ETHDEV_DESC  1024 /* requested descriptors per ring */
#define ETHDEV_CACHE 128
#define ETHDEV_RSS_CHECKS \
    64 /* packets of a queue and IP version that are compared with the prediction */
#define ETHDEV_OVERHEAD (RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN + RTE_ETHER_CRC_LEN)

struct ethdev_memif;

/* Properties of a driver that DPDK does not report (ethdev_kind.c). */
struct ethdev_kind {
    const char *name;       /* of its devices, without their number */
    bool kernel_below;      /* works on the kernel interface that iface= names */
    bool kernel_sees;       /* and the kernel gets the same frames */
    bool kernel_peer;       /* creates a kernel interface, which is the other end of the wire */
    bool late_events;       /* may call back about its link after it was closed */
    bool any_mtu;           /* accepts frames of every length, whatever maximum it reports */
    bool peer_frames;       /* the other end may send frames longer than our MTU */
    bool copies;            /* holds copies of frames and no mbufs */
    bool relayed;           /* is net_memif: see ethdev_memif.c */
    bool soft_checksum;     /* computes received checksums in software */
    bool listens;           /* on the unix socket that iface= names, unless client=1 */
    bool partial_checksum;  /* would complete guests' UDP checksums in software */
    bool one_queue;         /* cannot always serve more than one queue */
    bool few_queues;        /* the other end may leave queues unused, which then send nothing */
    const char *queues_arg; /* its argument for the number of queues, or NULL */
    unsigned max_queues;    /* the largest value of that argument */
    uint32_t max_mtu;       /* 0: the driver's report is right */
    uint32_t room;          /* bytes of a buffer that it requires; 0: any */
};

struct ethdev_sizes {
    uint16_t rx_desc, tx_desc;
    uint32_t room;  /* bytes of a buffer, for the longest frame */
    unsigned mbufs; /* of a queue */
};

/* Receive-side scaling as the port reports it (ethdev_rss.c). */
struct ethdev_rss {
    bool on;              /* the port was configured for it */
    bool known[2];        /* whether rss holds where IPv4 and IPv6 packets with UDP arrive */
    struct rss rss[2];    /* for IPv4 and IPv6 */
    _Atomic bool wrong;   /* frames arrived on other queues: rss is not used any more */
    _Atomic bool steered; /* there are or were flow rules, by which frames arrive on other queues */
    uint8_t asked[UINT8_MAX]; /* the key that the driver got, and may read until it closes */
};

struct ethdev_queue {
    struct rte_mempool *pool;
    /* Frames that the port has refused so far; no frame is lent until they are sent. */
    struct rte_mbuf *unsent[FRAME_BURST];
    unsigned unsent_count;
    unsigned refusals; /* attempts in a row that sent none of them */
    bool absent;       /* the other end does not use this queue */
    /* Frames to the port's own MAC. */
    struct rte_mbuf *local[ETHDEV_LOCAL];
    unsigned local_head, local_tail;
    struct pktio_counters counters;
    unsigned unchecked[2]; /* how many IPv4 and IPv6 packets are still compared with rss */
    int level_fd;          /* epoll instance, readable while there are frames, or -1 */
    int watch_fd;          /* packet socket, or -1 */
    int intr_fd;           /* epoll instance with the queue's receive interrupt, or -1 */
} __attribute__((aligned(RTE_CACHE_LINE_SIZE))); /* neighbours belong to other workers */

struct ethdev {
    struct pktio io;
    const struct ethdev_kind *kind;
    uint16_t port;
    struct rte_device *device;
    bool probed; /* by ethdev.c, which then removes it */
    uint8_t mac[6];
    uint32_t mtu, mtu_before; /* before: see struct pktio_info */
    bool started;
    bool link_events; /* the port calls back when its link changes */
    enum pktio_pause pause;
    char name[64];
    char netdev[IFNAMSIZ]; /* kernel interface below, or "" */
    uint32_t ifindex;
    int kernel_fd;              /* socket for ioctls about netdev, or -1 */
    int multi_fd;               /* socket that holds netdev's allmulti mode, or -1 */
    int guard_fd[2];            /* sockets that keep the kernel from answering our frames, or -1 */
    int link_fd;                /* netlink socket or eventfd, or -1 */
    struct ethdev_memif *memif; /* or NULL */
    struct ethdev_sizes sizes;
    struct ethdev_rss rss;
    rte_spinlock_t first_tx; /* of the first queue, which also sends for absent queues */
    unsigned queues;
    struct ethdev_queue queue[];
};

static inline struct ethdev *ethdev_of(struct pktio *io)
{
    return container_of(io, struct ethdev, io);
}

/* Whether the kernel reports the port's link state. */
static inline bool ethdev_kernel_tells(const struct ethdev *d)
{
    return d->netdev[0] || d->kind->kernel_peer;
}

/* ethdev_kind.c */
const struct ethdev_kind *ethdev_kind_of(const char *device);
/* Copies the value of key= in the device's arguments to out. False, and "": there is none. */
bool ethdev_devarg(const char *device, const char *key, char *out, size_t size);
/* Removes key= from the device's arguments. */
void ethdev_devarg_remove(char *device, const char *key);
/* Adds ",key=value" and the like. Returns -1 if it does not fit. */
__attribute__((format(printf, 3, 4))) int ethdev_devarg_add(char *device, size_t size,
                                                            const char *format, ...);

/*
 * How many of the wanted queues to open, as far as this is known before the device is probed. Adds
 * the driver's argument for it (device has `size` bytes). 0: the arguments are too long.
 */
unsigned ethdev_choose_queues(const struct ethdev_kind *k, char *device, size_t size,
                              unsigned wanted);

/* ethdev_size.c */
/* The longest MTU of a device. frame: bytes of a frame in the driver's own ring; 0: no limit. */
uint32_t ethdev_mtu_limit(const struct ethdev_kind *k, const struct rte_eth_dev_info *info,
                          uint32_t frame);
/* Bytes of a slot in net_af_packet's ring for frames of an MTU, and the longest MTU of a slot. */
uint32_t ethdev_packet_slot(uint32_t mtu);
uint32_t ethdev_packet_slot_mtu(uint32_t slot);
/* slot: of net_af_packet's ring; 0: another driver. */
struct ethdev_sizes ethdev_choose_sizes(const struct ethdev_kind *k,
                                        const struct rte_eth_dev_info *info, uint32_t mtu,
                                        uint32_t slot, uint16_t rx_desc, uint16_t tx_desc);

/* ethdev_queue.c */
unsigned ethdev_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void ethdev_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
unsigned ethdev_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void ethdev_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);
void ethdev_queue_drain(struct ethdev_queue *q);

/* ethdev_wake.c */
/* Opens for each queue a packet socket on netdev, which becomes readable when frames for us arrive
 * on that queue, or on any queue; -1: not possible. */
void ethdev_watch_open(struct ethdev *d);
/* An epoll instance that is readable while the queue has frames; -1: not possible. */
int ethdev_level_open(uint16_t port, uint16_t queue);
/* Puts the receive interrupt of a queue into an epoll instance; -1: the port has none. */
int ethdev_intr_open(uint16_t port, uint16_t queue);
/* Before the port stops; fd may be -1. */
void ethdev_intr_close(uint16_t port, uint16_t queue, int fd);
int ethdev_wake_fd(struct pktio *io, unsigned queue);
bool ethdev_wake_arm(struct pktio *io, unsigned queue);

/* ethdev_kernel.c */
/* Removes the file of a unix socket on which no process listens: its process was killed. */
void ethdev_remove_stale(const char *path, int type);
/* Gives the interface ifindex, the other end of a tap, another MAC than ours. */
int ethdev_peer_mac(const struct ethdev *d, uint32_t ifindex);

/* ethdev_link.c */
/* Any thread. */
bool ethdev_link_up(struct ethdev *d, uint32_t *speed_mbps);
/* Opens link_fd if the port can report changes; after the port was configured. */
void ethdev_link_open(struct ethdev *d);
/* Makes link_fd readable. Any thread. */
void ethdev_link_changed(struct ethdev *d);
void ethdev_link_close(struct ethdev *d);
int ethdev_link_fd(struct pktio *io);
void ethdev_link_ack(struct pktio *io);

/* ethdev_pause.c: of a started port. 0, or a negative errno: it cannot do that. */

int ethdev_pause(struct ethdev *d, enum pktio_pause pause);

/* ethdev_configure.c */
/* Configures the port for d->queues and d->mtu. 0 or a negative errno. */
int ethdev_configure(struct ethdev *d, const struct rte_eth_dev_info *info);

/* ethdev_rss.c */
/* Requests RSS in the configuration of a port with several queues, if the port has RSS. */
void ethdev_rss_configure(struct ethdev *d, const struct rte_eth_dev_info *info,
                          struct rte_eth_conf *conf);
/* Writes the table, and reads back the hash and the table in force. After the port has started and
 * before workers use it. */
void ethdev_rss_start(struct ethdev *d);
/* Whether the next frames of the queue are to be compared with rss. */
static inline bool ethdev_rss_unchecked(const struct ethdev_queue *q)
{
    return unlikely(q->unchecked[0] | q->unchecked[1]);
}
/* Compares a received frame. The queue's worker. */
void ethdev_rss_check(struct ethdev *d, unsigned queue, const struct rte_mbuf *m);
int ethdev_rss(struct pktio *io, bool ipv6, struct rss *rss);

/* ethdev_flow.c */
int ethdev_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule);
void ethdev_flow_remove(struct pktio *io, void *rule);
/* Before the port stops. */
void ethdev_flow_flush(struct ethdev *d);

/*
 * ethdev_memif.c: a relay between net_memif and its peer. Called before the device is probed;
 * changes the device's arguments (`size` bytes). NULL: error says why.
 */
struct ethdev_memif *ethdev_memif_open(struct ethdev *d, char *device, size_t size, char *error,
                                       size_t error_size);
/* After the port has started. 0 or a negative errno. */
int ethdev_memif_start(struct ethdev_memif *m);
/* Disconnects; before the port stops. */
void ethdev_memif_stop(struct ethdev_memif *m);
/* After the port was closed. */
void ethdev_memif_close(struct ethdev_memif *m);
/* Whether there is a peer. Any thread. */
bool ethdev_memif_is_open(const struct ethdev_memif *m);
/* The worker calls these around its bursts. False: the peer is leaving, or the port is restarted.
 */
bool ethdev_memif_enter(struct ethdev_memif *m);
void ethdev_memif_leave(struct ethdev_memif *m);

#endif
