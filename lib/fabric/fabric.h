/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network of hosts, links and switches in virtual time. The caller plays the hosts: it sends
 * whole Ethernet frames, and gets those that arrive. Between them frames wait in queues, are
 * marked, dropped, held up by pause frames and spread over paths, as in a network of Ethernet
 * switches.
 *
 * Everything that is random comes from the seed, and events of one instant happen in the order in
 * which they were planned: the same calls give the same result, bit for bit.
 *
 * Pure: no clock and no I/O. A frame is allocated once and used again. Threads: one per network.
 * Times are ns_t, rates bits per second, lengths bytes without preamble and checksum (FCS).
 */
#ifndef UROCE_FABRIC_H
#define UROCE_FABRIC_H

#include "common.h"

struct fabric;

/* ---- limits ---- */

#define FABRIC_HOSTS_MAX    4096u
#define FABRIC_SWITCHES_MAX 1024u
#define FABRIC_PORTS_MAX    512u /* of a switch */
#define FABRIC_FRAME_ROOM   4480u
#define FABRIC_PRIORITIES   8u
/* Preamble, FCS and the gap between frames: time of a link beside each frame's bytes. */
#define FABRIC_GAP 24u

/* ---- frames ---- */

/* A frame. The caller reads and writes len, data and icrc_omitted, which the network does not heed;
 * the rest is the network's. */
struct fabric_frame {
    struct fabric_frame *next;
    ns_t at; /* when it arrives at the other end of the link that it is on */
    uint64_t hash;
    uint32_t len;
    uint16_t to, in; /* the host; the port of the switch by which it came */
    uint8_t priority;
    bool may_mark, may_trim, in_headroom, is_pause;
    bool icrc_omitted; /* as in struct frame */
    uint8_t data[FABRIC_FRAME_ROOM];
};

/* What becomes of frames that hosts sent: all of these, and those that are still on their way, add
 * up to `sent`. Pause frames are in none of them. */
struct fabric_totals {
    uint64_t sent, delivered;
    uint64_t dropped;   /* by switches: no room in the buffer */
    uint64_t lost;      /* on links: by chance, on purpose, or the link was down */
    uint64_t unrouted;  /* by switches: no way to the host */
    uint64_t misplaced; /* the destination MAC is no host's */
    uint64_t trimmed;   /* by switches; these frames are among the others, too */
};

/* ---- building ---- */

enum fabric_mark {
    FABRIC_MARK_NONE,
    FABRIC_MARK_STEP, /* every frame that finds more than mark_min bytes in its queue */
    FABRIC_MARK_RED,  /* by chance, which grows from mark_min to mark_max; then every frame */
};

/* How a switch chooses among equal paths. */
enum fabric_spread {
    FABRIC_FLOW,   /* a hash of the addresses and the UDP source port, another per switch */
    FABRIC_LINEAR, /* CRC-32 of these, which differs between switches in its start value only */
    FABRIC_SPRAY,  /* each frame takes a random one */
    FABRIC_ROUND_ROBIN, /* each frame takes the next one */
    FABRIC_ADAPTIVE,    /* each frame takes the one with the shortest queue */
};

struct fabric_switch {
    uint64_t buffer; /* bytes that the queues of all ports share */
    uint32_t alpha;  /* 1024ths: a queue without PFC may have this share of what is free */
    enum fabric_mark mark;
    uint64_t mark_min, mark_max; /* bytes in the queue */
    uint32_t mark_chance;        /* millionths, at mark_max */
    uint8_t lossless;            /* a bit per priority: PFC, instead of alpha */
    uint8_t trim;  /* the code point of RoCE frames that lost their payload because there was no
                      room for it; its upper three bits are their priority. 0: they are dropped */
    uint64_t xoff; /* bytes that came by a port, from which on it sends pause frames; 0: an eighth
                      of what is free */
    uint64_t xon;  /* bytes below xoff at which it sends the frame that ends the pause */
    uint64_t headroom; /* bytes for a port and priority behind xoff; 0: enough for its link */
    enum fabric_spread spread;
    uint32_t seed; /* of the hash; 0: from the network's */
};

/* A buffer of 16 MiB, alpha 1, marks between 100 and 400 KB, no PFC, nothing trimmed, FABRIC_FLOW.
 */
extern const struct fabric_switch fabric_switch_default;

struct fabric_link {
    uint64_t bps;
    ns_t delay;
    uint32_t loss; /* chance that a frame is lost: of UINT32_MAX, which loses all; 0: none */
};

/* What the network tells its caller, during fabric_step() and fabric_send(). */
struct fabric_hooks {
    void *ctx;
    /* A frame has arrived at a host; the caller gives it back by fabric_frame_free(). */
    void (*deliver)(void *ctx, unsigned host, struct fabric_frame *frame);
    /* A host's port has room again: fabric_room(). */
    void (*ready)(void *ctx, unsigned host);
    /* A frame begins to leave a port, pause frames too. May be NULL. */
    void (*tap)(void *ctx, unsigned port, const uint8_t *data, uint32_t len);
};

/* NULL: out of memory. converge: the time from a change of a link to new routes. */
struct fabric *fabric_create(uint64_t seed, ns_t converge, const struct fabric_hooks *hooks);
void fabric_destroy(struct fabric *f);

/* The number of a new host, from 0 on, or of a new switch, from FABRIC_HOSTS_MAX on: a node.
 * -ENOMEM, or -ENOSPC beyond the limits. */
int fabric_add_host(struct fabric *f);
int fabric_add_switch(struct fabric *f, const struct fabric_switch *config);

/* The number of a new link between two nodes, from 0 on. Its end at `a` is port 2 * link, that at
 * `b` port 2 * link + 1. -ENOMEM; -EINVAL: no such nodes, or a rate of 0; -ENOSPC: the switch has
 * no more ports; -EEXIST: the host has a link. */
int fabric_add_link(struct fabric *f, unsigned a, unsigned b, const struct fabric_link *config);

/* The address of a host, by which its frames find it. */
void fabric_host_mac(unsigned host, uint8_t mac[6]);

/* A shortest path between hosts. False: there is none. */
struct fabric_path {
    uint64_t bps; /* of the slowest link */
    ns_t delay;   /* of all links */
    ns_t frame;   /* the time that a frame of `len` bytes occupies links, one after the other */
    unsigned links;
};
bool fabric_path(struct fabric *f, unsigned from, unsigned to, uint32_t len,
                 struct fabric_path *path);

/* ---- time ---- */

ns_t fabric_now(const struct fabric *f);

/* Calls fire at that time; in the past: as soon as possible. 0 or -ENOMEM. */
typedef void (*fabric_fire)(void *object, uint64_t value);
int fabric_at(struct fabric *f, ns_t at, fabric_fire fire, void *object, uint64_t value);

/* Moves the clock to the next event and lets it happen. False: there is none up to `until`, where
 * the clock is then, unless until is NS_NEVER. */
bool fabric_step(struct fabric *f, ns_t until);

/* Events so far. */
uint64_t fabric_events(const struct fabric *f);
/* Memory ran out: what was planned is missing. */
bool fabric_failed(const struct fabric *f);

/* ---- hosts ---- */

/* An empty frame; NULL: out of memory. */
struct fabric_frame *fabric_frame_get(struct fabric *f);
void fabric_frame_free(struct fabric *f, struct fabric_frame *frame);

/* How many frames a host's port takes now: one when it is idle; a few more while it is paused,
 * because frames of other priorities may leave. */
unsigned fabric_room(const struct fabric *f, unsigned host);
/* Sends a frame, which becomes the network's. */
void fabric_send(struct fabric *f, unsigned host, struct fabric_frame *frame);

/* ---- links that fail ---- */

enum fabric_state {
    FABRIC_UP,
    FABRIC_DOWN,  /* its switches notice at once, the others when routes have converged */
    FABRIC_BLACK, /* frames are lost on it, and no switch notices */
};
void fabric_set_link(struct fabric *f, unsigned link, enum fabric_state state);
/* The next frames for a switch's port that may be marked are marked; the next frames that leave any
 * port are lost. */
void fabric_mark_next(struct fabric *f, unsigned port, unsigned frames);
void fabric_lose_next(struct fabric *f, unsigned port, unsigned frames);

/* ---- looking ---- */

/* Of a port: what left it. */
struct fabric_counters {
    uint64_t frames, bytes;
    uint64_t marked;
    uint64_t dropped;    /* frames for it that found no room */
    uint64_t trimmed;    /* frames for it that found room for their headers alone */
    uint64_t lost;       /* on the link */
    uint64_t pauses;     /* pause frames that it got, those that end a pause not counted */
    ns_t paused;         /* while some priority had to wait */
    uint64_t queue_most; /* bytes in all of its queues */
};
const struct fabric_counters *fabric_counters(const struct fabric *f, unsigned port);
const struct fabric_totals *fabric_totals(const struct fabric *f);
unsigned fabric_ports(const struct fabric *f);
/* Bytes in the queues of a port now; the most since the last call of this. */
uint64_t fabric_queue(const struct fabric *f, unsigned port);
uint64_t fabric_queue_peak(struct fabric *f, unsigned port);
/* Frames in queues and on links now, without pause frames; counted one by one. */
uint64_t fabric_frames_inside(const struct fabric *f);
/* Bytes of a switch's buffer in use, without headroom. */
uint64_t fabric_buffer_used(const struct fabric *f, unsigned node);

#endif
