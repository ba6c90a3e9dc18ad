/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of lib/fabric. */
#ifndef UROCE_FABRIC_INTERNAL_H
#define UROCE_FABRIC_INTERNAL_H

#include "fabric.h"
#include "random.h"

/* Bytes of the shortest frame on a link, without FCS. */
#define MIN_FRAME 60u
/* From this priority on frames go first, the highest before all: CNPs have 6 by default. */
#define STRICT_FROM 6u
/* Frames that a host's port takes while it is paused. */
#define HOST_QUEUE 16u
/* The time that a pause frame asks for, in times of 512 bits. */
#define PAUSE_QUANTA 0xFFFFu
/* What a turn of a queue gives: any frame. */
#define TURN_BYTES FABRIC_FRAME_ROOM

struct frames {
    struct fabric_frame *first, *last;
};

struct node;
struct port;

/* What the node does with its ports' frames. */
struct port_ops {
    void (*receive)(struct port *p, struct fabric_frame *frame);
    void (*left)(struct port *p, const struct fabric_frame *frame); /* no pause frames */
    void (*ready)(struct port *p);                                  /* NULL: it need not know */
};

struct port {
    struct fabric *fabric;
    const struct port_ops *ops;
    struct node *node;
    struct port *peer;
    unsigned number, index; /* in the network; among the node's */
    uint64_t bps;
    ns_t delay;
    uint32_t loss;
    struct random random;
    enum fabric_state state; /* the link's, in both of its ports */
    bool routed;             /* up when routes were computed */
    bool done_due;           /* an event tells when the frame has left */
    ns_t busy_until;
    uint64_t carry; /* bits that busy_until leaves of the last division, times 10^9 */
    struct frames queue[FABRIC_PRIORITIES], control, flight;
    uint64_t queued[FABRIC_PRIORITIES], queued_all, peak;
    uint32_t frames_queued;
    uint32_t turn, credit[STRICT_FROM]; /* whose turn it is; bytes that each may send */
    ns_t paused_until[FABRIC_PRIORITIES];
    ns_t paused_since;
    bool paused;
    unsigned mark_next, lose_next;
    /* What came in by this port of a switch, and is still there. */
    uint64_t in_shared[FABRIC_PRIORITIES], in_headroom[FABRIC_PRIORITIES], headroom;
    uint8_t pausing; /* a bit per priority whose sender is paused */
    bool refresh_due;
    struct fabric_counters counters;
};

/* The ports of a switch that lead to another one on a shortest path. */
struct ways {
    unsigned n;
    uint16_t port[];
};

struct node {
    struct fabric *fabric;
    bool is_switch;
    unsigned number; /* as fabric_add_host and fabric_add_switch returned it */
    unsigned place;  /* in fabric.node */
    struct port *port[FABRIC_PORTS_MAX];
    unsigned ports;
    /* Of a switch: */
    struct fabric_switch config;
    uint64_t shared; /* bytes of its buffer in use */
    uint64_t seed;
    struct random random;
    uint32_t turn;
    struct ways **ways; /* by the place of the last switch; NULL: not computed yet */
    /* Of the last switch on a way: links to it, by place. */
    uint16_t *distance;
};

struct event {
    ns_t at;
    uint64_t order;
    fabric_fire fire;
    void *object;
    uint64_t value;
};

struct fabric {
    struct fabric_hooks hooks;
    struct random random;
    ns_t now, converge;
    struct node **node;
    unsigned nodes, node_room;
    unsigned host[FABRIC_HOSTS_MAX], hosts; /* places */
    unsigned switches_at[FABRIC_SWITCHES_MAX], switches;
    struct port **port;
    unsigned ports, port_room;
    struct event *heap;
    unsigned events, event_room;
    uint64_t order, done;
    bool failed;
    struct fabric_frame *spare;
    struct fabric_totals totals;
};

/* ---- clock.c ---- */

void clock_fini(struct fabric *f);

/* ---- frames: frame.c ---- */

void frames_append(struct frames *l, struct fabric_frame *frame);
struct fabric_frame *frames_take(struct frames *l);
/* Frees all frames of a list. */
void frames_clear(struct fabric *f, struct frames *l);
void frame_pool_fini(struct fabric *f);
/* What switches look at; false: it goes to no host. */
bool frame_classify(struct fabric *f, struct fabric_frame *frame);

/* ---- port.c ---- */

/* A frame for a port waits in its queue. */
void port_enqueue(struct port *p, struct fabric_frame *frame);
/* Sends the next frame, if it may. */
void port_transmit(struct port *p);
/* Frees all its frames. */
void port_clear(struct port *p);
/* Pauses these priorities for a time in quanta; 0 ends the pause. */
void port_pause(struct port *p, uint8_t priorities, const uint16_t quanta[FABRIC_PRIORITIES]);
/* Counts the time, up to now, in which some priority was paused. */
void port_count_pause(struct port *p);

/* ---- switch.c, host.c ---- */

extern const struct port_ops switch_ops, host_ops;

/* ---- pfc.c ---- */

/* Bytes of one port and priority beyond which its sender is to pause. */
uint64_t pfc_limit(const struct node *s);
/* Enough for what arrives until the sender has paused. */
uint64_t pfc_headroom(const struct port *in);
void pfc_pause(struct port *in, uint8_t priority);
void pfc_resume(struct port *in, uint8_t priority);
/* A pause frame has arrived. */
void pfc_receive(struct port *p, struct fabric_frame *frame);

/* ---- route.c ---- */

/* Forgets all ways: links have changed. */
void route_forget(struct fabric *f);
/* The ports of s towards a switch; NULL: none, or out of memory. */
const struct ways *route_ways(struct node *s, struct node *last);
/* The switch of a host, or another host to which it is linked directly; NULL: it has no link. */
struct node *route_last(const struct fabric *f, unsigned host);

#endif
