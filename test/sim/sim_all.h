/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The actors of sim_all: pairs that run planned flows (RC, RC with shared receive queues, XRC), one
 * way streams of messages that may be lost (UC, UD), and owners of memory that grant and revoke it.
 * Each is created at random, gets turns and completions, and reports when it is done.
 */
#ifndef UROCE_SIM_ALL_H
#define UROCE_SIM_ALL_H

#include "sim_flow.h"

#define MAX_ACTORS 8
/* No frame is in flight for longer, so that an older one cannot be mistaken for a new session's. */
#define DRAIN_TIME (400 * NS_PER_US)

struct sim {
    uint64_t seed;
    struct random random;
    struct kit *kit;
    bool rough;   /* the losses may use up all retries */
    bool repeats; /* the links duplicate or reorder */
    /* Nodes with several engines, between which queue pairs migrate. */
    struct random engines_random;
    bool several;
    bool follows;  /* queue pairs migrate to where their packets arrive */
    bool overtake; /* frames forwarded between engines do */
    unsigned moves, moved;
    ns_t move_at;
    unsigned actors, done;
    struct actor *actor[MAX_ACTORS];
    unsigned flow_ids;
};

struct actor {
    struct sim *sim;
    /* Lets the applications run; returns whether all is done. */
    bool (*turn)(struct actor *a);
    /* A completion at node n; returns false if it is another actor's. */
    bool (*completed)(struct actor *a, const struct kit_node *n, const struct cqe *e);
    /* The final checks. */
    void (*check)(struct actor *a);
    /* The progress, for people. */
    void (*tell)(struct actor *a, FILE *out);
    void (*fini)(struct actor *a);
    uint64_t progress; /* counts all progress */
};

/* Each creates one, between nodes that it chooses. */
struct actor *pair_create(struct sim *s);
struct actor *stream_create(struct sim *s);
struct actor *owner_create(struct sim *s);

static inline uint32_t sim_below(struct sim *s, uint32_t n)
{
    return random_below(&s->random, n);
}

/* The first engine of a new queue pair. */
unsigned sim_pick_engine(struct sim *s);
/* Two nodes, which are different unless nodes have several engines. */
void sim_pick_nodes(struct sim *s, struct kit_node *n[2]);
struct kit_rc sim_pick_attributes(struct sim *s);

#endif
