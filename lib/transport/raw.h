/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Raw packets: whole Ethernet frames between applications and the port, beside RoCE. Queue pairs of
 * type RAW_PACKET send frames as they are; received frames reach them by flow rules. A queue pair
 * with receive-side scaling has no queues of its own: it hashes each frame, and an indirection
 * table says which work queue (WQ) takes it.
 *
 * What engines share here (flow rules, indirection tables) is published by one pointer and freed
 * after the workers' next quiet point. A WQ, like a queue pair, belongs to one engine at a time; a
 * frame that arrives at another one is forwarded (engine_host.forward).
 */
#ifndef UROCE_RAW_H
#define UROCE_RAW_H

#include "engine.h"
#include "flow_match.h"
#include "predict.h"

/* ---- work queues ---- */

#define WQ_TABLE_SLOTS (1u << 16)

/** Numeric values of enum ibv_wq_state. */
enum wq_state {
    WQS_RESET,
    WQS_RDY,
    WQS_ERR,
};

/** A work queue. */
struct wq;

/** Work queues by number. */
struct wq_table;

/**
 * Create an empty table. Control thread.
 *
 * @param secret  Random numbers that order the numbers given; copied. NULL or zeros: they count up.
 * @return  The table; NULL: out of memory.
 */
struct wq_table *wq_table_create(const uint64_t secret[2]);

/**
 * Free a table that is empty. Control thread.
 *
 * @param t  The table.
 */
void wq_table_destroy(struct wq_table *t);

/**
 * The WQ of a number. Any thread.
 *
 * @param t  The table.
 * @param number  Any number.
 * @return  The WQ, valid until the worker's next quiet point; NULL: there is none.
 */
struct wq *wq_table_lookup(const struct wq_table *t, uint32_t number);

/** What a WQ is created with. */
struct wq_init {
    uint32_t pd;
    uint32_t uidx; /**< the application's number of it, in completions */
    struct comp_queue *cq;
    struct work_queue rq;      /**< private end over the application's segment; unused with srq */
    _Atomic uint32_t *rq_prod; /**< there; reset to 0 with the WQ. NULL with srq */
    struct srq *srq;           /**< entries come from it instead; or NULL */
    void *owner;               /**< the device's object */
};

/**
 * Create a WQ in RESET, with a number. Control thread.
 *
 * @param t  The table that gets it.
 * @param init  Copied; what it points to must outlive the WQ.
 * @param err  Set when the result is NULL.
 * @return  The WQ; NULL and -ENOMEM or -ENOSPC (no number is free).
 */
struct wq *wq_create(struct wq_table *t, const struct wq_init *init, int *err);
/**
 * Free a WQ that was detached and is in no indirection table. Control thread, after the workers'
 * quiet point.
 *
 * @param wq  The WQ.
 */
void wq_free(struct wq *wq);

/**
 * Make an engine the owner of a WQ, before any indirection table has it. The engine's worker.
 *
 * @param e  The engine.
 * @param wq  The WQ.
 */
void engine_wq_attach(struct engine *e, struct wq *wq);

/**
 * Find out whether a WQ may be reset or destroyed. If not it goes to ERR, without completions. The
 * engine's worker.
 *
 * @param e  The engine.
 * @param wq  The WQ.
 * @return  False: calls that the engine's host put off still write its buffers. It is to be asked
 *     again.
 */
bool engine_wq_stop(struct engine *e, struct wq *wq);

/**
 * Give a WQ up; nothing is posted. The engine's worker.
 *
 * @param e  The engine.
 * @param wq  The WQ.
 */
void engine_wq_detach(struct engine *e, struct wq *wq);
/**
 * Change the state: RESET to RDY, RDY to RESET, RDY to ERR (waiting WQEs complete as flushed), ERR
 * to RESET (all WQEs are forgotten, and its index is 0 again); a state to itself. The engine's
 * worker.
 *
 * @param e  The engine.
 * @param wq  The WQ.
 * @param to  The new state.
 * @param now  The time.
 * @return  0; -EINVAL: another transition; -EAGAIN: to RESET, while calls that the engine's host
 * put off write its buffers (engine_wq_stop).
 */
int engine_wq_modify(struct engine *e, struct wq *wq, enum wq_state to, ns_t now);

/**
 * The number of a WQ. Any thread.
 *
 * @param wq  The WQ.
 * @return  Its number.
 */
uint32_t wq_number(const struct wq *wq);

/**
 * The owner that a WQ was created with. Any thread.
 *
 * @param wq  The WQ.
 * @return  wq_init.owner.
 */
void *wq_owner(const struct wq *wq);

/**
 * The state of a WQ. Any thread: it may be out of date.
 *
 * @param wq  The WQ.
 * @return  The state.
 */
enum wq_state wq_current_state(const struct wq *wq);

/* ---- receive-side scaling ---- */

#define RWQ_IND_MAX 128 /**< entries of an indirection table */

/** An indirection table of WQs: several queue pairs may use one. */
struct rwq_ind;
/** What it holds at a time; never changed. */
struct rwq_entries;

/**
 * Make the entries of an indirection table. Control thread.
 *
 * @param wq  The WQs; a WQ may be in several entries.
 * @param size  How many, a power of two, at most RWQ_IND_MAX.
 * @return  The entries; NULL: out of memory.
 */
struct rwq_entries *rwq_entries_create(struct wq *const *wq, uint32_t size);

/**
 * Free entries that no table has. Control thread, after the workers' quiet point.
 *
 * @param entries  The entries.
 */
void rwq_entries_free(struct rwq_entries *entries);
/**
 * Make an indirection table. Control thread.
 *
 * @param entries  Its first entries, the table's from then on.
 * @return  The table; NULL: out of memory.
 */
struct rwq_ind *rwq_ind_create(struct rwq_entries *entries);
/**
 * Give a table other entries, of any size. No frame is lost: each goes by the one or the other.
 * Control thread.
 *
 * @param ind  The table.
 * @param entries  The new entries, the table's from then on.
 * @return  The earlier entries, to be freed after the workers' next quiet point.
 */
struct rwq_entries *rwq_ind_replace(struct rwq_ind *ind, struct rwq_entries *entries);
/**
 * Free a table with its entries; no queue pair uses it any more. Control thread, after the workers'
 * quiet point.
 *
 * @param ind  The table.
 */
void rwq_ind_free(struct rwq_ind *ind);

/** Numeric values of enum ibv_rx_hash_fields. */
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

/** How a queue pair spreads frames. Frames without the chosen headers have hash 0. */
struct rx_hash {
    enum rss_function function;
    uint32_t
        fields; /**< enum rx_hash_field; of IPv4 and IPv6, and of TCP and UDP, only one may occur */
    uint8_t key[TOEPLITZ_KEY_LEN];
};

/**
 * Whether fields go together.
 *
 * @param fields  Any number.
 * @return  False for both IP versions, for TCP and UDP, and for unknown bits.
 */
bool rx_hash_fields_valid(uint32_t fields);

/*
 * A queue pair of type RAW_PACKET: in qp_init, rx_hash and ind are set for one with receive-side
 * scaling, which receives from its creation on, and has no state, queues or completion queues; both
 * are NULL for one with queues of its own, which receives from RTR on.
 */

/* ---- flow rules ---- */

/** Numeric values of enum ibv_flow_attr_type. */
enum flow_type {
    FLOW_NORMAL = 0,
    FLOW_ALL_DEFAULT = 1, /**< what no other rule takes */
    FLOW_MC_DEFAULT = 2,  /**< the multicast among that */
    FLOW_SNIFFER = 3,     /**< a copy of every frame received, RoCE's too; takes nothing away */
};

/** A rule. */
struct flow_rule {
    enum flow_type type;
    uint16_t priority; /**< smaller ones first; among equals the earlier rule */
    bool drop;         /**< frames end here */
    bool tagged;
    uint32_t tag; /**< of its frames' completions: their imm, else 0 */
    struct flow_match match;
    struct flow_deep deep; /**< all zero: the outer headers alone decide */
    struct qp *qp;         /**< RAW_PACKET; unused with drop */
};

/**
 * The rules of a port in their order. A frame goes to the queue pair of the first rule that it
 * matches, and to no other; copies to the sniffers. Frames that belong to RoCE (drop reasons other
 * than "not RoCE" and "fragment" included) are for sniffers only. A default rule does not keep a
 * frame from the port's IP host.
 *
 * The engine that receives a frame counts it for the rule; engines that it is forwarded to serve
 * their own queues. While a queue pair migrates, or an indirection table is replaced, a sniffer may
 * miss a frame that is on its way between engines, or receive it twice; the queue pair of the rule
 * receives it once.
 */
struct flow_table;

/** Where the engines of a port find its table. */
struct flow_slot {
    struct flow_table *_Atomic table; /**< NULL: no rules */
};

/** A rule in use, with its counts. Tables have it by its address. */
struct flow_entry;

/**
 * Make an entry of a rule. Control thread.
 *
 * @param rule  The rule, copied.
 * @return  The entry; NULL: out of memory.
 */
struct flow_entry *flow_entry_create(const struct flow_rule *rule);
/**
 * Free an entry that no table in use has. Control thread, after the workers' quiet point.
 *
 * @param r  The entry; or NULL.
 */
void flow_entry_free(struct flow_entry *r);

/** What a rule has taken. */
struct flow_count {
    uint64_t frames;
    uint64_t bytes; /**< of the frames, with their Ethernet headers and without FCS */
};

/**
 * What a rule has taken since its creation, on all engines. Any thread.
 *
 * @param r  The rule's entry.
 * @return  Frames and bytes; while frames arrive, not those of a single moment.
 */
struct flow_count flow_entry_count(const struct flow_entry *r);

/**
 * Make a table of another's rules, those removed from it left out, and of one more. Control thread.
 *
 * @param old  The other table, which stays as it is; NULL: no rules.
 * @param added  One more, the latest; the caller's, as all entries are. Or NULL.
 * @return  The table; NULL: out of memory.
 */
struct flow_table *flow_table_with(const struct flow_table *old, struct flow_entry *added);
/**
 * Remove a rule from a table, which may be in use: its place stays empty. Workers see it until
 * their next quiet point. Control thread.
 *
 * @param t  The table.
 * @param r  The rule's entry.
 */
void flow_table_remove(struct flow_table *t, const struct flow_entry *r);
/**
 * Free a table that was replaced in its slot, without its entries. Control thread, after the
 * workers' quiet point.
 *
 * @param t  The table; or NULL.
 */
void flow_table_free(struct flow_table *t);

#endif
