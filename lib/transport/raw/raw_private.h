/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the transport: raw packets. A frame's way in: flow_parse -> flow_table_match -> the rule's
 * queue pair -> its work queue, or the one that rx_spread_wq chooses -> wq_deliver ->
 * complete_recvs.
 *
 * The receive queue of a raw queue pair is a WQ too: one that has the queue pair's number, state
 * and engine.
 */
#ifndef UROCE_RAW_PRIVATE_H
#define UROCE_RAW_PRIVATE_H

#include "engine_private.h"
#include "raw.h"

#define RAW_LEN_MIN 14 /* bytes: an Ethernet header */

/* ---- flow_parse.c ---- */

/* Beside enum flow_header: what fields ask for that several headers have. */
enum {
    KEY_HAS_IP = 1 << 8,     /* IPv4 or IPv6 */
    KEY_HAS_PORTS = 1 << 9,  /* TCP or UDP */
    KEY_MULTICAST = 1 << 10, /* the destination MAC is a group's */
    KEY_FRAGMENT = 1 << 11,  /* of an IP packet; the first one has ports, the others have none */
    KEY_NEVER = 1 << 12,     /* no frame has it */
};
/* Beside enum flow_tunnel. */
enum { KEY_HAS_GRE_KEY = 1 << 8 };

#define FLOW_KEY_WORDS 8

/* The fields of struct flow_match, as they are in a frame; 0 where it has none. */
union flow_key {
    struct {
        uint8_t dmac[6], smac[6];
        uint16_t ether_type, vlan_tci;
        uint8_t src[16], dst[16];
        uint32_t flow_label;
        uint8_t traffic_class, hop_limit, next_header, ipv4_flags;
        uint16_t sport, dport;
        uint32_t headers; /* enum flow_header, KEY_HAS_... */
    };
    uint64_t word[FLOW_KEY_WORDS];
};
_Static_assert(sizeof(union flow_key) == FLOW_KEY_WORDS * sizeof(uint64_t), "no padding");

#define FLOW_DEEP_WORDS 12

/* The fields of struct flow_deep, as they are in a frame; 0 where it has none. */
union flow_deep_key {
    struct {
        uint32_t vni;
        uint16_t gre_flags, gre_protocol;
        uint32_t gre_key, mpls, esp_spi, esp_seq;
        struct flow_fields inner;
        uint32_t tunnels; /* enum flow_tunnel, KEY_HAS_GRE_KEY */
        uint32_t inner_headers;
        uint32_t zero;
    };
    uint64_t word[FLOW_DEEP_WORDS];
};
_Static_assert(sizeof(union flow_deep_key) == FLOW_DEEP_WORDS * sizeof(uint64_t), "no padding");

/* Any bytes. Of several tags the first is vlan_tci. What is cut short, or contradicts itself, is
 * not there. */
void flow_parse(union flow_key *key, const uint8_t *frame, uint32_t len);

/* ---- flow_tunnel.c ---- */

/* Any bytes, too. */
void flow_parse_deep(union flow_deep_key *deep, const uint8_t *frame, uint32_t len);

/* ---- flow_table.c ---- */

struct flow_deep_pair {
    union flow_deep_key value, mask;
};

/* What a rule has taken, on one lane: lanes share no cache line. */
struct flow_taken {
    CACHE_ALIGNED counter_t frames;
    counter_t bytes;
};

struct flow_entry {
    CACHE_ALIGNED union flow_key value;
    union flow_key mask;
    const struct flow_deep_pair *deep; /* deep_pair; or NULL: the outer headers alone decide */
    struct qp *qp;
    uint32_t tag;   /* 0: none */
    uint32_t order; /* smaller ones are tried first; among equals the earlier one */
    bool drop, is_default;
    struct flow_taken taken[CQ_MAX_LANES];
    struct flow_deep_pair deep_pair[];
};

struct flow_table {
    unsigned rules, sniffers; /* rules: with the empty places */
    /* Sniffers, then the others, in the order of matching. An empty place has an entry, too, which
     * matches nothing. */
    struct flow_entry *_Atomic entry[];
};

static inline struct flow_entry *flow_table_at(const struct flow_table *t, unsigned place)
{
    return atomic_load_explicit(&t->entry[place], memory_order_relaxed);
}

static inline bool flow_deep_matches(const struct flow_deep_pair *p, const union flow_deep_key *k)
{
    for (unsigned i = 0; i < FLOW_DEEP_WORDS; i++)
        if ((k->word[i] ^ p->value.word[i]) & p->mask.word[i])
            return false;
    return true;
}

/* What rules need to know of a frame. */
struct flow_keys {
    union flow_key outer;
    const struct frame *frame;
    bool has_deep; /* else no rule has asked for it */
    union flow_deep_key deep;
};

static inline void flow_keys_parse(struct flow_keys *k, const struct frame *f)
{
    flow_parse(&k->outer, f->data, f->len);
    k->frame = f;
    k->has_deep = false;
}

static inline const union flow_deep_key *flow_keys_deep(struct flow_keys *k)
{
    if (!k->has_deep)
        flow_parse_deep(&k->deep, k->frame->data, k->frame->len);
    k->has_deep = true;
    return &k->deep;
}

static inline bool flow_entry_matches(const struct flow_entry *r, struct flow_keys *k)
{
    for (unsigned i = 0; i < FLOW_KEY_WORDS; i++)
        if ((k->outer.word[i] ^ r->value.word[i]) & r->mask.word[i])
            return false;
    return likely(!r->deep) || flow_deep_matches(r->deep, flow_keys_deep(k));
}

/* The rule that takes the frame, sniffers aside; or NULL. */
struct flow_entry *flow_table_match(const struct flow_table *t, struct flow_keys *keys);

/* A frame of len bytes. */
static inline void flow_count(struct flow_entry *r, uint32_t lane, uint32_t len)
{
    struct flow_taken *taken = &r->taken[lane];

    counter_inc(&taken->frames);
    counter_add(&taken->bytes, len);
}

/* ---- wq.c ---- */

struct wq {
    uint32_t number;
    uint8_t state; /* enum wq_state; without meaning when qp is set */
    bool in_touched;
    bool busy;               /* *entry was taken and waits for a frame that fits */
    bool failed;             /* a WQE has completed with the failure: later ones are flushed */
    struct late_owner *late; /* while it is suspended (late.h); or NULL */
    enum fault fault;        /* until wq_complete has acted on it; without meaning when qp is set */
    uint32_t index, room;    /* of *entry */
    struct engine *engine;   /* the owner; see wq_engine */
    struct qp *qp;           /* it is this raw queue pair's receive queue; or NULL */
    struct wq_init init;
    _Atomic uint32_t *notify; /* queue pair's: see qp_shared.rq_notify; or NULL */
    struct recv_wqe *entry;   /* cut to the queue's entry size */
    struct wq_table *table;
    STAILQ_ENTRY(wq) touched_link;
};

/* The receive queue of a raw queue pair whose other fields are set. NULL: out of memory. */
struct wq *wq_of_qp(struct qp *qp, const struct work_queue *rq);
static inline void wq_set_state(struct wq *wq, enum wq_state to)
{
    __atomic_store_n(&wq->state, (uint8_t)to, __ATOMIC_RELAXED);
}
/* All entries are forgotten, and the index is 0 again. */
void wq_forget(struct wq *wq);
/* The engine that owns it, or NULL. Any thread. */
struct engine *wq_engine(const struct wq *wq);
/* A frame into the next entry, which completes with the tag: DROP_NONE, or why not. */
enum drop wq_deliver(struct engine *e, struct wq *wq, const struct frame *f, uint32_t tag);
/* Posts a receive CQE whose bytes are written, or could not be written. */
void wq_complete_recv(struct engine *e, struct rx_completion *c);
/* An entry that was not used up completes with `status`, those that wait as flushed. */
void wq_flush(struct engine *e, struct wq *wq, uint8_t status);
/* Faults of this call become the error state. */
void wq_complete(struct engine *e, struct wq *wq);

/* ---- raw_qp.c: service operations ---- */

int raw_create(struct qp *qp, const struct qp_init *init);
void raw_reset(struct qp *qp);
void raw_destroy(struct qp *qp);
void raw_flush_recv(struct engine *e, struct qp *qp, uint8_t status);

/* ---- raw_hash.c, raw_ind_table.c ---- */

struct rwq_entries {
    uint32_t size;
    struct wq *wq[];
};

struct rwq_ind {
    struct rwq_entries *_Atomic entries;
};

/* Receive-side scaling of a queue pair. */
struct rx_spread {
    struct rwq_ind *ind;
    uint32_t headers; /* enum flow_header: without them a frame's hash is 0 */
    /* These, and KEY_FRAGMENT if ports are hashed, which not all fragments of a packet have. */
    uint32_t looked_at;
    struct rss rss;
};

/* NULL: out of memory. */
struct rx_spread *rx_spread_create(const struct rx_hash *hash, struct rwq_ind *ind);
uint32_t rx_spread_hash(const struct rx_spread *s, const union flow_key *key);

/* The WQ that takes the frame. */
struct wq *rx_spread_wq(const struct rx_spread *s, const union flow_key *key);

/* ---- raw_rx.c ---- */

/* The rules of e's port; or NULL. */
static inline const struct flow_table *flow_rules(const struct engine *e)
{
    return e->cfg.flows ? atomic_load_explicit(&e->cfg.flows->table, memory_order_acquire) : NULL;
}

static inline bool raw_has_sniffers(const struct engine *e)
{
    const struct flow_table *t = flow_rules(e);

    return t && t->sniffers;
}

/* The door of frames that are not RoCE, of IP fragments, and of frames to other MAC addresses
 * (reason): delivers them by flow rules, the last ones not by default rules; then, but not the last
 * ones, to the port's IP host (engine_host.punt); without a taker they are dropped. */
void raw_punt(struct engine *e, const struct frame *f, enum drop reason);
/* Copies to the sniffers that e owns; how many of them. They are counted, except in rx_copies. */
unsigned raw_sniff(struct engine *e, const struct frame *f);
/* Hands the frame over for sniffers of other engines that do not have it yet. Counted. */
void raw_sniff_elsewhere(struct engine *e, const struct frame *f);

/* ---- raw_tx.c ---- */

/* As req_segment. */
bool raw_segment(struct engine *e, struct qp *qp, struct tx_job *job);

#endif
