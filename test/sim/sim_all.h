/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The actors of sim_all: pairs that run planned flows (RC, RC with shared receive queues, XRC), one
 * way streams of messages that may be lost (UC, UD), and owners of memory who grant and revoke it.
 * Each is made at random, gets its turns and its completions, and says when it is done.
 */
#ifndef UROCE_SIM_ALL_H
#define UROCE_SIM_ALL_H

#include "sim_flow.h"

#define MAX_ACTORS 8
/* No frame is on its way for longer; what was sent before cannot be taken for a new session's. */
#define DRAIN_TIME (400 * NS_PER_US)

struct sim {
    uint64_t seed;
    struct random random;
    struct kit *kit;
    bool rough;   /* the weather may use up all retries */
    bool repeats; /* the links duplicate or reorder */
    /* Nodes with several engines, between which queue pairs move. */
    struct random engines_random;
    bool several;
    bool follows;  /* queue pairs go to where their packets come in */
    bool overtake; /* frames on their way between engines do */
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
    /* A completion at node n; returns false if it is somebody else's. */
    bool (*completed)(struct actor *a, const struct kit_node *n, const struct cqe *e);
    /* What must be so in the end. */
    void (*check)(struct actor *a);
    /* How far it is, for people. */
    void (*tell)(struct actor *a, FILE *out);
    void (*fini)(struct actor *a);
    uint64_t progress; /* counts whatever has been achieved */
};

/* Each makes one, between nodes it picks. */
struct actor *pair_create(struct sim *s);
struct actor *stream_create(struct sim *s);
struct actor *owner_create(struct sim *s);

static inline uint32_t sim_below(struct sim *s, uint32_t n)
{
    return random_below(&s->random, n);
}

/* The engine that a new queue pair begins at. */
unsigned sim_pick_engine(struct sim *s);
/* Two nodes, which are different unless nodes have several engines. */
void sim_pick_nodes(struct sim *s, struct kit_node *n[2]);
struct kit_rc sim_pick_attributes(struct sim *s);

#endif
