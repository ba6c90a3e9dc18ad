/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_PKTIO_SPREAD_INTERNAL_H
#define UROCE_PKTIO_SPREAD_INTERNAL_H

#include "rss_frame.h"
#include "slot_ring.h"
#include "spread.h"

#define KEPT_MAX   (8 * FRAME_BURST)
#define GROUPS_MAX 64 /* frames to groups that are waited for */

/* A queue but the first. */
struct spread_queue {
    struct slot_ring in; /* received frames: from the worker of queue 0 */
    struct slot_ring tx; /* frames to be sent: to the worker of queue 0 */
    /* Frames of `tx` to the port's own MAC, the worker's alone. */
    struct slot_fifo local;
    int wake_fd;
    CACHE_ALIGNED _Atomic bool armed; /* the worker of queue 0 writes wake_fd with the next frame */
    struct pktio_counters counters;   /* tx_refused and rx_...: the worker of queue 0 writes them */
};

/*
 * Rules of flows: a set of words, each a hash of what is to match and the queue. A flow whose hash
 * is that of another one would arrive at its queue, as any flow without a rule may. The control
 * thread writes, the worker of queue 0 reads.
 */
#define FLOW_SLOTS (2 * SPREAD_FLOWS_MAX)
struct spread_flows {
    uint64_t secret;
    _Atomic uint32_t by_port, by_qpn; /* rules of each kind */
    _Atomic uint64_t slot[FLOW_SLOTS];
};

/* A received frame that the worker of queue 0 has in its hands. */
struct kept {
    void *cookie;
    unsigned queue; /* of the port below */
};

struct spread {
    struct pktio io;
    struct pktio_ops ops;
    struct pktio *inner;
    unsigned queues, inner_queues;
    uint8_t mac[6];
    struct rss rss;
    struct spread_flows flows;
    bool must_poll;
    int epoll_fd, kick_fd;
    struct pktio_counters sum; /* queue 0's */

    /* Of the worker of queue 0. */
    bool moved; /* frames went through since wake_arm looked */
    unsigned turn, inner_turn;
    struct kept kept[KEPT_MAX];
    uint16_t kept_free[KEPT_MAX];
    unsigned kept_free_count;
    struct {
        uint64_t digest; /* 0: none */
        unsigned queue;
    } group[GROUPS_MAX];
    unsigned group_next;

    CACHE_ALIGNED _Atomic bool armed; /* whoever sends writes kick_fd */
    struct spread_queue queue[];      /* by number; [0] is not used */
};

static inline struct spread *spread_of(struct pktio *io)
{
    return container_of(io, struct spread, io);
}

/* ---- spread_flow.c ---- */

int spread_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule);
void spread_flow_remove(struct pktio *io, void *rule);
/* Whether there is a rule for the frame. The worker of queue 0. */
bool spread_flow_find(struct spread_flows *f, const struct rss_frame *r, unsigned *queue);

/* ---- spread_owner.c: queue 0 ---- */

unsigned spread_owner_rx(struct spread *s, struct frame *f, unsigned n);
void spread_owner_release(struct spread *s, struct frame *f, unsigned n);
unsigned spread_owner_lend(struct spread *s, struct frame *f, unsigned n);
void spread_owner_tx(struct spread *s, struct frame *f, unsigned n, unsigned used);
bool spread_owner_arm(struct spread *s);

/* ---- spread_queue.c: the others ---- */

unsigned spread_queue_rx(struct spread_queue *q, struct frame *f, unsigned n);
void spread_queue_release(struct spread_queue *q, struct frame *f, unsigned n);
unsigned spread_queue_lend(struct spread_queue *q, struct frame *f, unsigned n);
void spread_queue_tx(struct spread *s, struct spread_queue *q, struct frame *f, unsigned n,
                     unsigned used);
bool spread_queue_arm(struct spread_queue *q);

void spread_wake(int fd, _Atomic bool *armed);
void spread_drain(int fd);

#endif
