/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the files of the simulated port. */
#ifndef UROCE_PKTIO_SIM_INTERNAL_H
#define UROCE_PKTIO_SIM_INTERNAL_H

#include <pthread.h>

#include "random.h"
#include "sim.h"

#define HELD_MAX      8
#define OVERTAKEN_MAX 8 /* frames that overtake a held one */

/* A frame: a slot of the queue that sent it. */
struct sim_entry {
    uint16_t queue, slot;
    uint32_t len;
};

/* It has at least as many entries as there are slots, so it is never full. */
struct sim_fifo {
    struct sim_entry *entry;
    uint32_t mask, head, tail;
};

struct sim_held {
    struct sim_entry e;
    unsigned overtaken; /* how many frames are still to overtake it */
};

/* A queue owns the slots that it sends from. A slot is free, lent to the worker, held back, in
 * flight (in the peer's `in`, or in `local`), lent to the receiver, or on its way back (in `back`).
 */
struct sim_queue {
    struct sim_end *end;
    unsigned index;
    /* This queue's worker alone. */
    uint8_t *memory;
    uint16_t *free;
    unsigned free_count;
    struct random random;
    struct sim_held held[HELD_MAX];
    unsigned held_count;
    struct sim_fifo local; /* frames to its own MAC */
    struct pktio_counters counters;
    struct pktio_sim_stats stats;
    int wake_fd;
    /* Under the lock: written by the peer's queues too. */
    CACHE_ALIGNED pthread_mutex_t lock;
    struct sim_fifo in, back; /* received frames; slots that have been read */
    bool armed;               /* the sender of the next frame writes wake_fd */
    uint64_t arrived;
};

struct sim_rule {
    bool used;
    struct pktio_flow flow;
    unsigned queue;
};

struct sim_end {
    struct pktio io;
    struct sim_link *link;
    unsigned index, queues;
    struct sim_queue *queue;
    struct rss rss;
    pthread_mutex_t lock; /* of the rules */
    struct sim_rule *rule;
    unsigned rules;
};

struct sim_link {
    struct pktio_sim_config config;
    _Atomic unsigned open;
    struct sim_end end[2];
};

static inline struct sim_end *sim_end_of(struct pktio *io)
{
    return container_of(io, struct sim_end, io);
}

static inline struct sim_end *sim_peer_of(struct sim_end *e)
{
    return &e->link->end[!e->index];
}

/* ---- sim_queue.c: the path of a packet ---- */

unsigned sim_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void sim_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
unsigned sim_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void sim_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);
int sim_wake_fd(struct pktio *io, unsigned queue);
bool sim_wake_arm(struct pktio *io, unsigned queue);

static inline void sim_slot_free(struct sim_queue *q, uint16_t slot)
{
    q->free[q->free_count++] = slot;
}

#endif
