/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_ETHDEV_INTERNAL_H
#define UROCE_ETHDEV_INTERNAL_H

/* Ours first: DPDK's own container_of and likely step back for ours, not the other way round. */
#include "ethdev.h"

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define ETHDEV_LOCAL     512  /* frames to the port's own MAC that wait; a power of two */
#define ETHDEV_DESC      1024 /* descriptors asked for, per ring */
#define ETHDEV_MBUFS     4095 /* per queue: both rings, the local queue, bursts and the cache */
#define ETHDEV_CACHE     128
#define ETHDEV_DATA_ROOM 4352 /* path MTU 4096 and every header, in one segment */

struct ethdev_queue {
    struct rte_mempool *pool;
    /* Frames the port did not take at once; nothing is lent until they are gone. */
    struct rte_mbuf *unsent[FRAME_BURST];
    unsigned unsent_count;
    /* Frames to ourselves. */
    struct rte_mbuf *local[ETHDEV_LOCAL];
    unsigned local_head, local_tail;
    struct pktio_counters counters;
    int watch_fd; /* packet socket, or -1 */
    int intr_fd;  /* epoll instance with the queue's receive interrupt, or -1 */
};

struct ethdev {
    struct pktio io;
    uint16_t port;
    uint8_t mac[6];
    uint32_t mtu;
    bool started;
    char name[64];
    char netdev[IFNAMSIZ];
    uint32_t ifindex;
    int guard_fd[2]; /* sockets that keep the kernel from answering for us */
    unsigned queues;
    struct ethdev_queue queue[];
};

static inline struct ethdev *ethdev_of(struct pktio *io)
{
    return container_of(io, struct ethdev, io);
}

/* ethdev_queue.c */
unsigned ethdev_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void ethdev_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
unsigned ethdev_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void ethdev_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);
void ethdev_queue_drain(struct ethdev_queue *q);

/* ethdev_wake.c */
/* A packet socket on netdev that is readable when RoCE frames arrived. -1: not possible. */
int ethdev_watch_open(const char *netdev);
/* Puts the receive interrupt of a queue into an epoll instance; -1: the port has none. */
int ethdev_intr_open(uint16_t port, uint16_t queue);
/* Before the port stops; fd may be -1. */
void ethdev_intr_close(uint16_t port, uint16_t queue, int fd);
/* Binds UDP port 4791 on netdev; see there why. */
void ethdev_guard_open(int fd[2], const char *netdev);
int ethdev_wake_fd(struct pktio *io, unsigned queue);
bool ethdev_wake_arm(struct pktio *io, unsigned queue);

#endif
