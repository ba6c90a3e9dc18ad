/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts on a wire that takes no time, one virtual clock, and frames written by hand. Frames that a
 * host sends are kept for the test, and delivered to the others unless they are lost.
 */
#ifndef UROCE_TEST_NET_KIT_H
#define UROCE_TEST_NET_KIT_H

#include "common.h"
#include "encap_layout.h"
#include "inet.h"
#include "net_host.h"

#define NET_KIT_NODES  3
#define NET_KIT_FRAMES 1024
#define MS             NS_PER_MS
#define SEC            NS_PER_SEC

struct net_frame {
    uint8_t bytes[INET_FRAME_ROOM];
    uint32_t len;
    unsigned from;
    ns_t at;
};

struct net_node {
    struct net_kit *kit;
    struct net_host *h;
    unsigned index;
    uint8_t mac[6];
    /* Counts and arguments of its callbacks. */
    unsigned resolved, moved, states;
    union gid resolved_hop, moved_hop;
    uint16_t resolved_vlan, moved_vlan;
    uint8_t moved_mac[6];
    enum net_address_state state; /* the last */
    struct net_address state_of;
    void (*on_resolved)(struct net_node *n); /* for a test's own purposes */
};

struct net_kit {
    ns_t now;
    unsigned nodes;
    uint64_t lose; /* bit i: frame i of those sent from here on is lost; shifted out */
    bool cut;      /* nothing is delivered */
    bool echo;     /* frames of a node are looped back to it too */
    unsigned sent, delivered;
    struct net_frame frame[NET_KIT_FRAMES]; /* those sent */
    struct net_node node[NET_KIT_NODES];
};

/* MACs 02:00:00:00:00:01 and so on. */
struct net_kit *net_kit_new(unsigned nodes, bool quiet);
/* The same with a configuration; MAC, seed and callbacks are filled in. */
struct net_kit *net_kit_make(unsigned nodes, const struct net_host_config *like);
void net_kit_free(struct net_kit *k);

/* Delivers what is on the wire, and runs timers, for this long. Fails the test if a timer spins. */
void net_kit_run(struct net_kit *k, ns_t duration);
/* Delivers what is on the wire, and runs what is due now. */
void net_kit_settle(struct net_kit *k);
/* Forgets the frames that were sent. */
void net_kit_clear(struct net_kit *k);

/* The first node of a kit gets a frame from outside. */
void net_kit_rx(struct net_kit *k, const struct net_frame *f);
/* The frame of those sent with this index, which must exist. */
const struct net_frame *net_kit_sent(const struct net_kit *k, unsigned index);
const struct net_counters *net_kit_count(const struct net_kit *k);

union gid gid_of(const char *text);
/* Adds "10.0.0.1/24" to a node, past detection. */
void net_kit_address(struct net_kit *k, unsigned node, const char *text, uint16_t vlan);
/* The same with detection. */
void net_kit_detect(struct net_kit *k, unsigned node, const char *text, uint16_t vlan);
/* Resolves from src to dst; the path goes where net_kit_path points. */
extern struct net_path net_kit_path;
int net_kit_resolve(struct net_kit *k, unsigned node, const char *src, const char *dst,
                    uint16_t vlan);
/* The state of a neighbour, or -1. */
int net_kit_state(struct net_kit *k, unsigned node, const char *addr, uint16_t vlan);

/* ---- frames by hand ---- */

extern const uint8_t net_broadcast[6], net_peer[6], net_other[6];

#define ARP_ASK    1
#define ARP_ANSWER 2

struct net_frame net_arp(uint16_t vlan, const uint8_t *dmac, uint16_t op, const uint8_t *sha,
                         const char *spa, const char *tpa);
/* An IP packet from smac. */
struct net_frame net_packet(const uint8_t *smac, const struct inet_tx *tx, const uint8_t *message,
                            uint32_t len);

struct net_nd {
    const char *src, *dst, *target;
    uint8_t type, flags; /* 135 or 136 */
    uint8_t option;      /* 0: none */
    const uint8_t *mac;  /* of the option */
    uint8_t hops;        /* 0: 255 */
    uint16_t vlan;       /* 0: none */
};
struct net_frame net_nd(const struct net_nd *nd);

/* ---- frames that were sent, taken apart ---- */

/* Fails the test unless the frame is well-formed. */
struct inet_rx net_parse(const struct net_frame *f);
struct arp_view {
    uint16_t op, vlan;
    union gid spa, tpa;
    const uint8_t *sha, *tha, *dmac;
};
struct arp_view net_parse_arp(const struct net_frame *f);

#endif
