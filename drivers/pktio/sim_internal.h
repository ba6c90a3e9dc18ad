/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the simulated port only. */
#ifndef UROCE_PKTIO_SIM_INTERNAL_H
#define UROCE_PKTIO_SIM_INTERNAL_H

#include <pthread.h>

#include "random.h"
#include "sim.h"

#define HELD_MAX      8
#define OVERTAKEN_MAX 8 /* frames that overtake a held one */

/* A frame: a slot of the queue that sent it. */
struct entry {
    uint16_t queue, slot;
    uint32_t len;
};

/* There are no more slots than entries, so it is never full. */
struct fifo {
    struct entry *entry;
    uint32_t mask, head, tail;
};

struct held {
    struct entry e;
    unsigned overtaken; /* frames still to pass it */
};

/* A queue owns the slots that it sends from. One is free, lent to the worker, held back, on its way
 * (in the peer's `in`, or `local`), or lent to the reader and on its way back (back). */
struct queue {
    struct end *end;
    unsigned index;
    /* Of this queue's worker. */
    uint8_t *memory;
    uint16_t *free;
    unsigned free_count;
    struct random random;
    struct held held[HELD_MAX];
    unsigned held_count;
    struct fifo local; /* frames to its own MAC */
    struct pktio_counters counters;
    struct pktio_sim_stats stats;
    int wake_fd;
    /* Under the lock: what the peer's queues put here. */
    CACHE_ALIGNED pthread_mutex_t lock;
    struct fifo in, back; /* received frames; slots that have been read */
    bool armed;           /* wake_fd is to be written with the next frame */
    uint64_t arrived;
};

struct rule {
    bool used;
    struct pktio_flow flow;
    unsigned queue;
};

struct end {
    struct pktio io;
    struct link *link;
    unsigned index, queues;
    struct queue *queue;
    struct rss rss;
    pthread_mutex_t lock; /* of the rules */
    struct rule *rule;
    unsigned rules;
};

struct link {
    struct pktio_sim_config config;
    _Atomic unsigned open;
    struct end end[2];
};

static inline struct end *end_of(struct pktio *io)
{
    return container_of(io, struct end, io);
}

static inline struct end *peer_of(struct end *e)
{
    return &e->link->end[!e->index];
}

/* ---- sim_queue.c: the packet's path ---- */

unsigned sim_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void sim_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
unsigned sim_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n);
void sim_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used);
int sim_wake_fd(struct pktio *io, unsigned queue);
bool sim_wake_arm(struct pktio *io, unsigned queue);

static inline void sim_slot_free(struct queue *q, uint16_t slot)
{
    q->free[q->free_count++] = slot;
}

#endif
