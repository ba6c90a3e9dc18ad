/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's objects, as its files and its tests see them. */
#ifndef UROCE_CM_INTERNAL_H
#define UROCE_CM_INTERNAL_H

#include <sys/queue.h>

#include "cm.h"
#include "cm_hash.h"
#include "cm_limit.h"
#include "cm_timer.h"
#include "cm_users.h"
#include "gsi.h"
#include "permute.h"

/* Shorter times are lengthened to this one, so that no message makes a burst of repetitions. */
#define CM_TIME_MIN_MS 1
/* The longest times that a peer's REQ can make its half-open connection wait for: 8 s to answer, 4
 * s for each way. Sixteen REPs then take less than five minutes. */
#define CM_RESPONSE_CODE_MAX 21
#define CM_LIFE_CODE_MAX     20

/* Ports with answers of their own; more share them. */
#define CM_ANSWER_BUCKETS 16
/* Repetitions of REPs to an address that may not have asked: at once, and in a second. */
#define CM_PEER_BUCKETS   1024
#define CM_UNPROVEN_BURST 64
#define CM_UNPROVEN_RATE  4

enum cm_role {
    CM_ACTIVE,
    CM_PASSIVE,
};

struct cm_id {
    struct cm *cm;
    void *owner;
    uint32_t slot; /* in the table of ids */
    uint8_t state; /* enum cm_state */
    uint8_t role;  /* enum cm_role */
    bool lingers;  /* destroyed by the host */
    bool peer_to_peer;
    bool proven; /* the peer has named local_comm_id */

    /* Where it is found. */
    uint32_t local_comm_id, remote_comm_id;
    uint64_t remote_ca_guid;
    struct cm_hash_node by_remote_id, by_remote_qpn, by_service;
    struct cm_timer timer;
    TAILQ_ENTRY(cm_id) lingering, users_lingering;
    struct cm_user *user; /* or NULL */

    /* Its address. */
    enum ip_cm_port_space ps;
    uint64_t service_id;
    struct cm_addr src, dst;
    uint8_t bind_flags;       /* enum cm_bind_flag */
    struct cm_ports_row *row; /* the ids of its port number, while it is bound */
    LIST_ENTRY(cm_id) in_row;

    /* A listener. */
    uint32_t backlog, waiting, half_open;
    LIST_HEAD(cm_requests, cm_id) requests;
    /* A request of one. */
    struct cm_id *listener;
    LIST_ENTRY(cm_id) in_requests;

    /* A connection. */
    struct cm_path path;
    uint64_t transaction_id;
    struct cm_conn_param conn;
    uint32_t remote_qpn;
    uint32_t rq_psn, sq_psn;
    uint8_t response_timeout, service_timeout; /* codes */
    uint8_t ack_timeout;                       /* of the queue pair, a code */
    uint8_t max_cm_retries, retries_left;
    uint8_t failover;     /* of a REP: whether an alternate path was asked for */
    uint8_t mad[MAD_LEN]; /* the last message that may have to be sent again */
};

/* A request that waits for its listener: cm_early.c. */
struct cm_early {
    struct cm_path way;
    uint64_t service_id;
    ns_t until;
    uint8_t mad[MAD_LEN];
};

/* More are rejected at once. */
#define CM_EARLY_MAX 16

struct cm {
    struct cm_config config;
    struct cm_counters counters;

    struct cm_slot {
        struct cm_id *id;
        uint32_t generation;
        uint32_t next_free;
    } * slot;
    uint32_t slots, slots_used, slot_bits, first_free, ids;

    struct cm_timers timers;
    struct cm_hash by_remote_id, by_remote_qpn, by_service;
    TAILQ_HEAD(, cm_id) lingering; /* the oldest first */
    LIST_HEAD(, cm_user) users;
    struct cm_hash ports;
    uint64_t taken[4][65536 / 64]; /* port numbers that ids have: cm_ports.c */
    uint16_t last_port;            /* that was given */
    struct gsi_classes classes;
    ns_t rx_time;                        /* of the MAD that is being received */
    struct cm_early early[CM_EARLY_MAX]; /* in the order of their arrival */
    unsigned early_count;
    struct cm_bucket answers[CM_ANSWER_BUCKETS], unproven[CM_PEER_BUCKETS];
    uint32_t random_count;
};

/* ---- cm_ids.c ---- */

int cm_ids_init(struct cm *cm);
void cm_ids_destroy(struct cm *cm);
/* An id in CM_IDLE; makes room by a lingering one. NULL and *err: -ENOMEM, -ENOSPC. */
struct cm_id *cm_ids_new(struct cm *cm, int *err);
void cm_ids_free(struct cm_id *id);
/* Frees an id that only lingers: the peer has shown that it has no such connection any more. */
bool cm_ids_give_up(struct cm_id *id);
struct cm_id *cm_ids_find(const struct cm *cm, uint32_t local_comm_id);
/* Gives an id another communication ID, as the messages of the old one may still arrive. */
void cm_ids_renumber(struct cm_id *id);
/* A number that cannot be guessed, and does not come twice within 2^32. */
static inline uint32_t cm_random(struct cm *cm)
{
    return permute_bits(cm->config.secret + 2, 16, cm->random_count++);
}

/* ---- cm_remote.c: ids by what the peer is ---- */

void cm_remote_add_id(struct cm_id *id);
void cm_remote_add_qpn(struct cm_id *id);
void cm_remote_add_peer(struct cm_id *id);
void cm_remote_remove_id(struct cm_id *id);
void cm_remote_remove_qpn(struct cm_id *id);
void cm_remote_remove_peer(struct cm_id *id);
/* Of the host that the way leads to. */
struct cm_id *cm_remote_find_id(const struct cm *cm, const struct cm_path *way, uint64_t ca_guid,
                                uint32_t comm_id);
struct cm_id *cm_remote_find_qpn(const struct cm *cm, const struct cm_path *way, uint64_t ca_guid,
                                 uint32_t qpn);
/* An id that connects peer to peer; both may be this manager's, and a REQ is for the other one. */
struct cm_id *cm_remote_find_peer(const struct cm *cm, const struct cm_path *way,
                                  uint64_t service_id, uint32_t not_this);

/* ---- cm_ports.c ---- */

int cm_ports_init(struct cm *cm);
void cm_ports_destroy(struct cm *cm);
void cm_ports_unbind(struct cm_id *id);
/* The listener for a service ID; for a port number, at this address, of the way's port and VLAN. */
struct cm_id *cm_ports_find(const struct cm *cm, uint64_t service_id, const union gid *dst,
                            const struct cm_path *way);
/* Whether an id without a listener's part may become the listener that is looked for. */
bool cm_ports_may_listen(const struct cm *cm, uint64_t service_id, const union gid *dst,
                         const struct cm_path *way);
/* A bound id is found from now on, if it may listen: 0 or a negative errno. */
int cm_ports_listen(struct cm_id *id);

/* ---- cm_limit.c ---- */

/* Whether a message of no connection may be answered. */
bool cm_limit_answer(struct cm *cm, const struct cm_path *way);
/* Whether the id's message may be sent again, to a peer that has not answered. */
bool cm_limit_repetition(struct cm_id *id, ns_t now);
/* The peer has named the id: it is where its packets say. */
void cm_limit_proven(struct cm_id *id);

/* ---- cm_time.c ---- */

/* The time of a code as the kernel rounds it: 2^(code - 8) ms, at least 1 ms. */
ns_t cm_time_of(uint8_t code);
/* How long the timer of the id's state runs. */
ns_t cm_time_in_state(const struct cm_id *id);

#endif
