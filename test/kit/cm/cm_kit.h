/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two communication managers, or more, on one virtual clock, and a network between them that may
 * lose, duplicate and delay; what they sent and reported is logged. Another host's MADs are made by
 * hand.
 */
#ifndef UROCE_CM_KIT_H
#define UROCE_CM_KIT_H

#include "cm.h"
#include "random.h"

#define MS  NS_PER_MS
#define SEC NS_PER_SEC

#define CM_KIT_NODES   5 /* the last one stands for all hosts without a manager */
#define CM_KIT_LOG     256
#define CM_KIT_FLIGHT  4096
#define CM_KIT_LATENCY MS

/* An event, with the parts that it pointed to. */
struct cm_kit_event {
    struct cm_event e;
    ns_t at;
    uint8_t private[MAD_LEN], info[MAD_LEN];
};

struct cm_kit_mad {
    struct cm_path path;
    uint8_t mad[MAD_LEN];
    ns_t at; /* when it was sent; of one in flight, when it arrives */
    unsigned from, to;
};

struct cm_kit_node {
    struct cm_kit *kit;
    struct cm *cm;
    struct cm_kit_event event[CM_KIT_LOG];
    unsigned events;
    struct cm_kit_mad sent[CM_KIT_LOG];
    unsigned sends;
    /* Called with each event after it was logged; may be NULL. */
    void (*on_event)(struct cm_kit_node *n, const struct cm_event *e);
    void *ctx;
};

struct cm_kit {
    ns_t now;
    struct cm_kit_node node[CM_KIT_NODES];
    uint64_t lose; /* bit n: the nth MAD sent is lost */
    unsigned sends;
    /* Chances in 256 of each MAD, and the longest extra delay. */
    unsigned loss, duplicates;
    ns_t jitter;
    struct random rng;
    bool v6;
    struct cm_kit_mad *flight;
    unsigned flying;
};

struct cm_kit *cm_kit_new(const struct cm_config *config); /* NULL: defaults */
/* With this many managers, fewer than CM_KIT_NODES: at the first nodes. */
struct cm_kit *cm_kit_new_of(const struct cm_config *config, unsigned managers);
void cm_kit_free(struct cm_kit *k);
/* Forgets the logs. */
void cm_kit_clear(struct cm_kit *k);

/* Passes time: MADs arrive and timers run. */
void cm_kit_run(struct cm_kit *k, ns_t time);
/* The next instant at which something happens, or NS_NEVER. */
ns_t cm_kit_next(const struct cm_kit *k);
/* Runs until nothing is in flight. */
void cm_kit_deliver(struct cm_kit *k);

union gid cm_kit_gid(const struct cm_kit *k, unsigned node);
/* As a host resolves it. */
struct cm_path cm_kit_path(const struct cm_kit *k, unsigned from, unsigned to);
struct cm_addr cm_kit_addr(const struct cm_kit *k, unsigned node, uint16_t number);

struct cm_id *cm_kit_listen(struct cm_kit *k, unsigned node, enum ip_cm_port_space ps,
                            uint16_t number, uint32_t backlog);
struct cm_id *cm_kit_bound(struct cm_kit *k, unsigned node, enum ip_cm_port_space ps);
/* Parameters that are all different. */
struct cm_connect_param cm_kit_param(const struct cm_kit *k, unsigned to, uint16_t number);
struct cm_id *cm_kit_connect(struct cm_kit *k, unsigned from, unsigned to, uint16_t number);
/* A REQ of node 0 to this number of node 1, as the manager makes it; nothing is sent. */
void cm_kit_req(struct cm_kit *k, uint16_t number, uint8_t mad[MAD_LEN]);
int cm_kit_accept(struct cm_kit *k, struct cm_id *id, uint32_t qpn);
/* A connection from node 0 to a listener of node 1, at QPNs 0x111 and 0x222. */
void cm_kit_make_connection(struct cm_kit *k, struct cm_id **active, struct cm_id **passive);
/* The same, and the logs begin anew. */
void cm_kit_establish(struct cm_kit *k, struct cm_id **active, struct cm_id **passive);

/* The last event of a node, which must be of this type. */
const struct cm_event *cm_kit_last(const struct cm_kit *k, unsigned node, enum cm_event_type type);
/* How many events of a type a node got. */
unsigned cm_kit_count(const struct cm_kit *k, unsigned node, enum cm_event_type type);
/* The nth MAD that a node sent, as a message. */
struct cm_msg cm_kit_sent(const struct cm_kit *k, unsigned node, unsigned n);
struct cm_msg cm_kit_last_sent(const struct cm_kit *k, unsigned node);
/* A MAD arrives from a node at another one now. */
void cm_kit_rx(struct cm_kit *k, unsigned from, unsigned to, const uint8_t *mad);

#endif
