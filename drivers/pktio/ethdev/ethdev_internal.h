/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_ETHDEV_INTERNAL_H
#define UROCE_ETHDEV_INTERNAL_H

/* Ours first: DPDK's own container_of and likely step back for ours, not the other way round. */
#include "ethdev.h"

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>
#include <stdatomic.h>

#define ETHDEV_LOCAL 512  /* frames to the port's own MAC that wait; a power of two */
#define ETHDEV_DESC  1024 /* descriptors asked for, per ring */
#define ETHDEV_CACHE 128
#define ETHDEV_CHECKED \
    64 /* packets of a queue and IP version that are compared with the prediction */
#define ETHDEV_OVERHEAD (RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN + RTE_ETHER_CRC_LEN)

struct ethdev_memif;

/* What DPDK does not tell of a driver (ethdev_kind.c). */
struct ethdev_kind {
    const char *name;      /* of its devices, up to their number */
    bool kernel_below;     /* works on the kernel interface that iface= names */
    bool kernel_sees;      /* and leaves its frames to the kernel as well */
    bool kernel_peer;      /* makes a kernel interface, which is the other end of the wire */
    bool late_events;      /* may call back about its link after it was closed */
    bool any_mtu;          /* takes frames of every length, whatever length it reports */
    bool peer_frames;      /* the other end does not keep to our MTU */
    bool copies;           /* holds no mbufs, only copies of what is in them */
    bool relayed;          /* is net_memif, see ethdev_memif.c */
    bool soft_checksum;    /* computes received checksums in software */
    bool listens;          /* on the unix socket that iface= names, unless client=1 */
    bool partial_checksum; /* would complete guests' UDP checksums in software */
    bool one_queue;        /* has more, which it cannot always serve */
    bool few_queues; /* the other end may use fewer than there are, and takes nothing from others */
    const char *queues_arg; /* of its arguments, says how many queues it opens; or NULL */
    unsigned max_queues;    /* of that argument */
    uint32_t max_mtu;       /* 0: as it says itself */
    uint32_t room;          /* bytes of a buffer that it insists on; 0: it does not */
};

struct ethdev_sizes {
    uint16_t rx_desc, tx_desc;
    uint32_t room;  /* bytes of a buffer, for the longest frame */
    unsigned mbufs; /* of a queue */
};

/* Receive-side scaling as the port itself told of it (ethdev_rss.c). */
struct ethdev_rss {
    bool on;              /* the port was configured for it */
    bool told[2];         /* of IPv4 and IPv6 packets with UDP this is known: */
    struct rss rss[2];    /* where they arrive */
    _Atomic bool wrong;   /* frames arrived elsewhere: nothing is told any more */
    _Atomic bool steered; /* there are or were rules: frames arrive elsewhere with good reason */
    uint8_t asked[UINT8_MAX]; /* key that the driver was given, and may look at until it closes */
};

struct ethdev_queue {
    struct rte_mempool *pool;
    /* Frames the port did not take at once; nothing is lent until they are gone. */
    struct rte_mbuf *unsent[FRAME_BURST];
    unsigned unsent_count;
    unsigned refusals; /* attempts in a row that sent none of them */
    bool absent;       /* the other end does not use this queue */
    /* Frames to ourselves. */
    struct rte_mbuf *local[ETHDEV_LOCAL];
    unsigned local_head, local_tail;
    struct pktio_counters counters;
    unsigned unchecked[2]; /* IPv4 and IPv6 packets yet to be compared with the prediction */
    int level_fd;          /* readable as long as there are frames, or -1 */
    int watch_fd;          /* packet socket, or -1 */
    int intr_fd;           /* epoll instance with the queue's receive interrupt, or -1 */
} __attribute__((aligned(RTE_CACHE_LINE_SIZE))); /* neighbours belong to other workers */

struct ethdev {
    struct pktio io;
    const struct ethdev_kind *kind;
    uint16_t port;
    struct rte_device *device;
    bool probed; /* by us */
    uint8_t mac[6];
    uint32_t mtu;
    bool started;
    bool link_events; /* the port calls back when its link changes */
    char name[64];
    char netdev[IFNAMSIZ]; /* kernel interface below, or "" */
    uint32_t ifindex;
    int kernel_fd;              /* socket to ask the kernel about netdev, or -1 */
    int multi_fd;               /* socket that holds netdev's allmulti mode, or -1 */
    int guard_fd[2];            /* sockets that keep the kernel from answering for us, or -1 */
    int link_fd;                /* netlink socket or eventfd, or -1 */
    struct ethdev_memif *memif; /* or NULL */
    struct ethdev_sizes sizes;
    struct ethdev_rss rss;
    rte_spinlock_t first_tx; /* of the first queue, where those go that are absent */
    unsigned queues;
    struct ethdev_queue queue[];
};

static inline struct ethdev *ethdev_of(struct pktio *io)
{
    return container_of(io, struct ethdev, io);
}

/* Its link is that of a kernel interface. */
static inline bool ethdev_kernel_tells(const struct ethdev *d)
{
    return d->netdev[0] || d->kind->kernel_peer;
}

/* ethdev_kind.c */
const struct ethdev_kind *ethdev_kind_of(const char *device);
/* The value of key= in the device's arguments into out: false, and "", if there is none. */
bool ethdev_devarg(const char *device, const char *key, char *out, size_t size);
/* Takes key= out of the device's arguments. */
void ethdev_devarg_remove(char *device, const char *key);
/* Adds ",key=value" and the like. Returns -1 if it does not fit. */
__attribute__((format(printf, 3, 4))) int ethdev_devarg_add(char *device, size_t size,
                                                            const char *format, ...);

/*
 * How many queues to open of those wanted, as far as this is known before the device is probed.
 * Adds to the arguments (`size` bytes) what makes it so; 0: they get too long.
 */
unsigned ethdev_choose_queues(const struct ethdev_kind *k, char *device, size_t size,
                              unsigned wanted);

/* ethdev_size.c */
/* The longest MTU of a device. frame: bytes of a frame in the driver's own ring, 0: no such bound.
 */
uint32_t ethdev_mtu_limit(const struct ethdev_kind *k, const struct rte_eth_dev_info *info,
                          uint32_t frame);
/* Bytes of a slot in net_af_packet's ring for frames of an MTU, and the longest MTU of a slot. */
uint32_t ethdev_packet_slot(uint32_t mtu);
uint32_t ethdev_packet_slot_mtu(uint32_t slot);
/* slot: as above, 0: none. */
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
/*
 * For each queue a packet socket on netdev that is readable when frames for us arrived there, or
 * perhaps there; -1: not possible.
 */
void ethdev_watch_open(struct ethdev *d);
/* A descriptor that is readable as long as the queue has frames; -1: not possible. */
int ethdev_level_open(uint16_t port, uint16_t queue);
/* Puts the receive interrupt of a queue into an epoll instance; -1: the port has none. */
int ethdev_intr_open(uint16_t port, uint16_t queue);
/* Before the port stops; fd may be -1. */
void ethdev_intr_close(uint16_t port, uint16_t queue, int fd);
int ethdev_wake_fd(struct pktio *io, unsigned queue);
bool ethdev_wake_arm(struct pktio *io, unsigned queue);

/* ethdev_kernel.c: what only the kernel below a port, or at its other end, can do. */
/* An SIOC... request about netdev; 0, or -1 and errno. */
int ethdev_kernel_ask(const struct ethdev *d, const char *netdev, unsigned long request,
                      struct ifreq *ifr);
/* A socket that makes netdev accept frames to every group as long as it is open. -1: refused. */
int ethdev_multi_open(uint32_t ifindex);
/* Binds UDP port 4791 on netdev; see there why. */
void ethdev_guard_open(int fd[2], const char *netdev);
/* A unix socket's file stays behind when its process is killed: removes it if nobody listens. */
void ethdev_remove_stale(const char *path, int type);
/* Gives the interface ifindex, the other end of a tap, another MAC than ours. */
int ethdev_peer_mac(const struct ethdev *d, uint32_t ifindex);

/* ethdev_link.c */
/* Any thread. */
bool ethdev_link_up(struct ethdev *d, uint32_t *speed_mbps);
/* Makes link_fd as far as the port has changes to tell; after the port was configured. */
void ethdev_link_open(struct ethdev *d);
/* Tells the reader of link_fd to look. Any thread. */
void ethdev_link_changed(struct ethdev *d);
void ethdev_link_close(struct ethdev *d);
int ethdev_link_fd(struct pktio *io);
void ethdev_link_ack(struct pktio *io);

/* ethdev_configure.c */
/* For d->queues and d->mtu, with what the port has. 0 or a negative errno. */
int ethdev_configure(struct ethdev *d, const struct rte_eth_dev_info *info);

/* ethdev_rss.c */
/* Asks for RSS in the configuration of a port with several queues, if it has that. */
void ethdev_rss_configure(struct ethdev *d, const struct rte_eth_dev_info *info,
                          struct rte_eth_conf *conf);
/* After the port has started, before anybody works: writes the table, and asks what is in force. */
void ethdev_rss_start(struct ethdev *d);
/* Whether there are frames to be compared with what RSS says. */
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
 * ethdev_memif.c: stands between net_memif and its peer. Before the device is probed; changes the
 * device's arguments (of `size` bytes). NULL: error says why.
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
/* The worker, around bursts: false: the peer is about to leave, or the port to start over. */
bool ethdev_memif_enter(struct ethdev_memif *m);
void ethdev_memif_leave(struct ethdev_memif *m);

#endif
