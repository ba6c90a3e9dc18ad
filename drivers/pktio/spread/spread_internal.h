/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to drivers/pktio/spread. */
#ifndef UROCE_PKTIO_SPREAD_INTERNAL_H
#define UROCE_PKTIO_SPREAD_INTERNAL_H

#include "rss_frame.h"
#include "slot_ring.h"
#include "spread.h"

#define HELD_MAX         (8 * FRAME_BURST)
#define GROUP_COPIES_MAX 64 /* sent multicast frames whose copies have not come back yet */

/* A queue other than queue 0. */
struct spread_queue {
    struct slot_ring in; /* received frames: from the worker of queue 0 */
    struct slot_ring tx; /* frames to be sent: to the worker of queue 0 */
    /* Frames of `tx` to the port's own MAC; this queue's worker alone. */
    struct slot_fifo local;
    int wake_fd;
    CACHE_ALIGNED _Atomic bool armed; /* the worker of queue 0 writes wake_fd with the next frame */
    struct pktio_counters counters;   /* tx_refused and rx_...: the worker of queue 0 writes them */
};

/*
 * Flow rules: a set of words, each a hash of the fields to match and the queue. A flow with the
 * same hash as another one arrives at the other's queue, which is harmless: a flow without a rule
 * may arrive at any queue. The control thread writes, the worker of queue 0 reads.
 */
#define FLOW_SLOTS (2 * SPREAD_FLOWS_MAX)
struct spread_flows {
    uint64_t secret;
    _Atomic uint32_t by_port, by_qpn; /* rules of each kind */
    _Atomic uint64_t slot[FLOW_SLOTS];
};

/* A received frame that is lent to the worker of queue 0. */
struct spread_held {
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

    /* The worker of queue 0 alone. */
    bool moved; /* frames have passed to or from other queues since the last wake_arm */
    unsigned turn, inner_turn;
    struct spread_held held[HELD_MAX];
    uint16_t held_free[HELD_MAX];
    unsigned held_free_count;
    struct {
        uint64_t digest; /* 0: none */
        unsigned queue;
    } group[GROUP_COPIES_MAX];
    unsigned group_next;

    CACHE_ALIGNED _Atomic bool armed; /* a worker that sends writes kick_fd */
    struct spread_queue queue[];      /* by number; [0] is not used */
};

static inline struct spread *spread_of(struct pktio *io)
{
    return container_of(io, struct spread, io);
}

/* ---- spread_flow.c ---- */

int spread_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule);
void spread_flow_remove(struct pktio *io, void *rule);
/* Whether there is a rule for the frame, and its queue. The worker of queue 0. */
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
