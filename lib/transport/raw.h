/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packets: whole Ethernet frames between applications and the port, beside RoCE. Queue pairs of
 * type RAW_PACKET send frames as they are; received frames reach them by flow rules. A queue pair
 * with receive-side scaling has no queues of its own: it hashes each frame, and an indirection
 * table says which work queue (WQ) takes it.
 *
 * What engines share here (flow rules, indirection tables) is published by one pointer and freed
 * after the workers' next quiet point. A WQ, like a queue pair, belongs to one engine at a time; a
 * frame that arrives at another one is handed on (engine_host.forward).
 */
#ifndef UROCE_RAW_H
#define UROCE_RAW_H

#include "engine.h"
#include "flow_match.h"
#include "predict.h"

/* ---- work queues ---- */

#define WQ_TABLE_SLOTS (1u << 16)

/* Numeric values of enum ibv_wq_state. */
enum wq_state {
    WQS_RESET,
    WQS_RDY,
    WQS_ERR,
};

struct wq;
struct wq_table;

struct wq_table *wq_table_create(void); /* NULL: out of memory */
void wq_table_destroy(struct wq_table *t);
struct wq *wq_table_lookup(const struct wq_table *t, uint32_t number); /* NULL: none */

struct wq_init {
    uint32_t pd;
    uint32_t uidx; /* the application's number of it, in completions */
    struct comp_queue *cq;
    struct work_queue rq;      /* private end over the application's segment; unused with srq */
    _Atomic uint32_t *rq_prod; /* there; reset to 0 with the WQ. NULL with srq */
    struct srq *srq;           /* entries come from it instead; or NULL */
    void *owner;               /* the device's object */
};

/* In RESET, with a number. Control thread. NULL and *err: -ENOMEM, -ENOSPC. */
struct wq *wq_create(struct wq_table *t, const struct wq_init *init, int *err);
/* After it was detached, no indirection table has it, and a quiet point. Control thread. */
void wq_free(struct wq *wq);

/* Its engine: before any indirection table has it. Detaching posts nothing. The engine's worker. */
void engine_wq_attach(struct engine *e, struct wq *wq);
void engine_wq_detach(struct engine *e, struct wq *wq);
/*
 * RESET to RDY, RDY to RESET, RDY to ERR (waiting entries complete as flushed), ERR to RESET (all
 * entries are forgotten and its index is 0 again); a state to itself but for ERR. -EINVAL: another
 * transition. The engine's worker.
 */
int engine_wq_modify(struct engine *e, struct wq *wq, enum wq_state to, ns_t now);

uint32_t wq_number(const struct wq *wq);
void *wq_owner(const struct wq *wq);
enum wq_state wq_current_state(const struct wq *wq); /* any thread: may be out of date */

/* ---- receive-side scaling ---- */

#define RWQ_IND_MAX 128 /* entries of an indirection table */

/* An indirection table of WQs: several queue pairs may use one. */
struct rwq_ind;
/* What it holds at a time; never changed. */
struct rwq_entries;

/* size: a power of two, at most RWQ_IND_MAX; WQs may repeat. Control thread. NULL: out of memory.
 */
struct rwq_entries *rwq_entries_create(struct wq *const *wq, uint32_t size);
void rwq_entries_free(struct rwq_entries *entries);
/* The table takes the first entries over. NULL: out of memory. */
struct rwq_ind *rwq_ind_create(struct rwq_entries *entries);
/*
 * Goes over to other entries (of any size), and returns the earlier ones, to be freed after the
 * workers' next quiet point. No frame is lost over it: each goes by the one or the other. Control
 * thread.
 */
struct rwq_entries *rwq_ind_replace(struct rwq_ind *ind, struct rwq_entries *entries);
/* With its entries; no queue pair may use it any more, and a quiet point has passed. */
void rwq_ind_free(struct rwq_ind *ind);

/* Numeric values of enum ibv_rx_hash_fields. */
enum rx_hash_field {
    RX_HASH_SRC_IPV4 = 1 << 0,
    RX_HASH_DST_IPV4 = 1 << 1,
    RX_HASH_SRC_IPV6 = 1 << 2,
    RX_HASH_DST_IPV6 = 1 << 3,
    RX_HASH_SRC_PORT_TCP = 1 << 4,
    RX_HASH_DST_PORT_TCP = 1 << 5,
    RX_HASH_SRC_PORT_UDP = 1 << 6,
    RX_HASH_DST_PORT_UDP = 1 << 7,
};
#define RX_HASH_FIELDS 0xFFu

/* How a queue pair spreads frames. Frames without the chosen headers have hash 0. */
struct rx_hash {
    enum rss_function function;
    uint32_t
        fields; /* enum rx_hash_field; of IPv4 and IPv6, and of TCP and UDP, only one may occur */
    uint8_t key[TOEPLITZ_KEY_LEN];
};

/* Whether the fields go together: false for both IP versions, or TCP and UDP, or unknown bits. */
bool rx_hash_fields_valid(uint32_t fields);

/*
 * A queue pair of type RAW_PACKET: in qp_init, rx_hash and ind are set for one with receive-side
 * scaling, which receives from its creation on, and has no state, queues or completion queues; both
 * are NULL for one with queues of its own, which receives from RTR on.
 */

/* ---- flow rules ---- */

/* Numeric values of enum ibv_flow_attr_type. */
enum flow_type {
    FLOW_NORMAL = 0,
    FLOW_ALL_DEFAULT = 1, /* what no other rule takes */
    FLOW_MC_DEFAULT = 2,  /* and of that only multicast */
    FLOW_SNIFFER = 3,     /* a copy of every frame received, RoCE's too; takes nothing away */
};

struct flow_rule {
    enum flow_type type;
    uint16_t priority; /* smaller ones first; among equals the earlier rule */
    bool drop;         /* frames end here */
    bool tagged;
    uint32_t tag; /* of its frames' completions: their imm, else 0 */
    struct flow_match match;
    struct qp *qp; /* RAW_PACKET; unused with drop */
};

/*
 * The rules of a port in their order. A frame goes to the queue pair of the first rule that it
 * matches, and to no other; copies to the sniffers. Frames that belong to RoCE (drop reasons other
 * than "not RoCE" and "fragment" included) are for sniffers only. A default rule does not keep a
 * frame from the port's IP host.
 *
 * The engine that a frame arrives at counts it for the rule; engines that it is handed over to
 * serve their own queues. While a queue pair is given to another engine, or an indirection table
 * replaced, a sniffer may miss a frame that is on its way between engines, or get it twice; whom a
 * rule gives it to gets it once.
 */
struct flow_table;
struct flow_slot {
    struct flow_table *_Atomic table; /* NULL: no rules */
};

/* A table with these rules, which it copies. Control thread. NULL: out of memory. */
struct flow_table *flow_table_create(const struct flow_rule *rule, unsigned rules);
/* After it was replaced in its slot, and a quiet point. */
void flow_table_free(struct flow_table *t);
/* Frames that each rule has taken since this table was published, by the index of rule given above;
 * any thread. Counters are kept per engine lane: summed here. */
uint64_t flow_table_frames(const struct flow_table *t, unsigned rule);

#endif
