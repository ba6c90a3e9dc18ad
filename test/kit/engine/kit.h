/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test kit: two or more nodes, each with an engine or several, a link from each (to the other
 * one, or to a switch that forwards by the destination MAC) and one virtual clock. Fake
 * applications post work and poll completions in ordinary memory; a seed decides everything that is
 * random, so a run is repeated by repeating its seed.
 *
 *     struct kit *k = kit_create(&(struct kit_config){.seed = 1});
 *     struct kit_qp *a, *b;
 *     kit_pair_rc(k, &a, &b, NULL);
 *     ... kit_post_recv(b, ...), kit_post_send(a, ...), kit_ring(a) ...
 *     kit_run(k, NULL, NULL, 10 * NS_PER_SEC);
 *     ... kit_poll(a->send_cq, ...) ...
 *     kit_destroy(k);
 *
 * Kit functions abort the program with a message when the test itself is wrong (no memory, a
 * refused attribute) or when an engine breaks a promise that no single test checks: reaching past a
 * region it was allowed, transmitting more than it was lent, filling a frame while it claimed to
 * have nothing to send. With KIT_TRACE=1 in the environment every frame prints one line to stderr.
 *
 * Threads: one. Durations and times are ns_t.
 */
#ifndef UROCE_KIT_H
#define UROCE_KIT_H

#include <stdio.h>

#include "engine.h"
#include "pkt.h"
#include "random.h"

struct kit;
struct kit_node;
struct kit_link;
struct kit_late_call;

#define KIT_NODES   6    /* at most */
#define KIT_ENGINES 4    /* of a node, at most */
#define KIT_ANY     255u /* node: all of them */

/* ---- the link ---- */

/* The fate of a frame. */
enum kit_verdict {
    KIT_PASS,
    KIT_DROP,
    KIT_DUPLICATE, /* delivered, and once more a little later */
    KIT_CORRUPT,   /* a few bits flipped, or cut short */
    KIT_REORDER,   /* held back, so that later frames overtake it */
};

/* A frame as a link saw it, in the order of sending. pkt.payload is not kept. */
struct kit_seen {
    ns_t at; /* when it was handed to the link */
    uint32_t len;
    bool parsed; /* pkt is valid */
    unsigned to; /* index of the node it goes to, or KIT_ANY: multicast */
    enum kit_verdict verdict;
    struct pkt pkt;
};

/* ---- fates ---- */

/* A fate of the link's index-th frame, other than to be delivered. */
struct kit_fate {
    uint32_t index;
    uint8_t link, verdict;
};

struct kit_fates {
    struct kit_fate *fate; /* in the order of happening */
    unsigned n, room;      /* further ones are not recorded */
};

/* Bad weather for a while; times count from the kit's creation. from and to may be KIT_ANY. */
struct kit_spell {
    ns_t start, end;
    uint8_t from, to;
    bool both_ways;
    uint32_t longer_than; /* loses only frames with more bytes: a black hole; 0: all */
};

/*
 * Called for every frame before chance decides; may change the bytes (kit_frame_reseal makes the
 * ICRC right again) and shorten *len. Returning other than KIT_PASS decides; KIT_PASS leaves it to
 * the loss mask and to chance. index counts the frames of this link from 0.
 */
typedef enum kit_verdict (*kit_hook)(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                                     const struct kit_seen *seen);

struct kit_link_config {
    ns_t delay;   /* of every frame; 0: 2 us */
    ns_t jitter;  /* a reordered frame is held back up to this much more; 0: 20 us */
    uint64_t bps; /* bits per second, or 0: any number of frames at once */
    /* Chances in 1/1000. */
    unsigned drop, duplicate, corrupt, reorder;
    /* At most this many drops and corruptions of the same PSN to the same queue pair, so that a
     * retry counter of 7 is enough; 0: no limit. */
    unsigned losses_per_psn;
    /* Bursts of loss: chances in 1/1000 per frame that one starts, and that it ends. */
    unsigned burst_start, burst_end;
    unsigned mark; /* frames whose sender reacts to it (ECT) are marked (CE), chance in 1/1000 */
    /* A switch whose port is slower than the link, and has a queue, which all links share that have
     * one. bits per second; 0: there is none. Frames that find more than mark_bytes in the queue
     * are marked. */
    struct {
        uint64_t bps;
        uint32_t mark_bytes;
    } neck;
};

#define KIT_LOSSES 4096

/* Connections whose packets may be marked, and that answer marks, with a controller: of two seeds
 * in five. */
static inline struct congestion_config kit_congestion(uint64_t seed)
{
    const struct cc_ops *const control[] = {&cc_dcqcn, &cc_swift, &cc_rtt};

    if (seed % 5 < 3)
        return (struct congestion_config){0};
    return (struct congestion_config){.ect = true,
                                      .cnp_interval = 20 * NS_PER_US,
                                      .cnp_dscp = 48,
                                      .cnp_pcp = 6,
                                      .control = control[seed / 5 % ARRAY_SIZE(control)],
                                      .line = UINT64_C(10000000000)};
}

struct kit_link {
    struct kit_link_config config;
    struct kit *kit;
    unsigned from; /* index of the node that sends */
    kit_hook hook;
    void *hook_ctx;
    /* Bit i drops the i-th frame from when kit_link_lose set it. */
    uint64_t loss_mask;
    unsigned loss_first;
    /* Statistics. frames: handed to the link by an engine; delivered: received by the other. */
    unsigned frames, delivered, dropped, duplicated, corrupted, reordered, marked, trimmed;
    /* Every frame, when the kit was created with .log. */
    struct kit_seen *log;
    unsigned log_len, log_room;
    /* Private. */
    struct random random, chance;
    uint64_t detail_seed;
    bool in_burst;
    unsigned replayed; /* fates looked at */
    ns_t busy_until;
    struct kit_flight **heap;
    unsigned heap_len, heap_room;
    uint64_t order;
    struct kit_losses {
        uint32_t qpn, psn;
        unsigned to, count;
    } * losses;
};

/* Drops frame i, counted from the next one, for every bit i of mask. */
void kit_link_lose(struct kit_link *l, uint64_t mask);

/* How many logged frames have this opcode. */
unsigned kit_link_count(const struct kit_link *l, uint8_t opcode);

/* How many logged RC ACK packets have this AETH class and, unless value is negative, this value. */
unsigned kit_link_acks(const struct kit_link *l, uint8_t aeth_class, int value);

/* Delivers a copy of the frame after the link's delay; chance, hook, log and counts do not see it.
 */
void kit_link_inject(struct kit_link *l, const uint8_t *data, uint32_t len);

/* Recomputes the ICRC of a whole RoCE frame whose outer headers are sound. */
void kit_frame_reseal(uint8_t *data, uint32_t len);

/* ---- memory ---- */

enum kit_mr_kind {
    KIT_MR_DIRECT, /* mapped: the engine reaches it by pointer */
    KIT_MR_COPY,   /* through the backend, whose addresses are no pointers of ours */
};

struct kit_mr {
    struct mem_region
        region;     /* region.key is lkey and rkey; region.iova differs from any pointer */
    uint8_t *bytes; /* the content, as the application sees it */
    uint32_t len;
    struct kit_node *node;
    struct kit_mr *next;
};

/*
 * Registers len (at least 1) zeroed bytes with canaries around them, in protection domain KIT_PD.
 * Freed with the kit.
 */
#define KIT_PD 7
struct kit_mr *kit_mr_create(struct kit_node *n, uint32_t len, uint32_t access,
                             enum kit_mr_kind kind);

/* Takes the region out of the table; its bytes stay. */
void kit_mr_deregister(struct kit_mr *mr);

/* The address that work requests use for byte `off`. */
static inline uint64_t kit_va(const struct kit_mr *mr, uint64_t off)
{
    return mr->region.iova + off;
}

static inline struct sge kit_sge(const struct kit_mr *mr, uint64_t off, uint32_t len)
{
    return (struct sge){.addr = kit_va(mr, off), .length = len, .lkey = mr->region.key};
}

/* From now on the backend fails every transfer that touches these bytes of a KIT_MR_COPY region
 * with `status` (-EFAULT, -ESRCH); 0 makes them good again. */
void kit_mr_fault(struct kit_mr *mr, uint32_t off, uint32_t len, int status);

/* From now on the node's calls for copied regions are put off, until kit_end_calls makes them all;
 * or they are made at once again. */
void kit_hold_calls(struct kit_node *n, bool hold);
/* Ends those that were put off: makes them, or gives them up. */
void kit_end_calls(struct kit_node *n);
void kit_give_up_calls(struct kit_node *n);
/* From now on the node has no room for calls, or has room again. */
void kit_refuse_calls(struct kit_node *n, bool refuse);

/* Whether all canaries of the node are intact. */
bool kit_canaries_intact(const struct kit_node *n);

/* ---- completions ---- */

struct kit_cq {
    struct comp_queue cq;
    struct cq_reader reader;
    struct kit_node *node;
    unsigned events; /* host callbacks so far */
    unsigned posted;
    struct kit_cq *next;
};

/* size: a power of two. */
struct kit_cq *kit_cq_create(struct kit_node *n, uint32_t size);

/* Reads up to max completions. The WQEs that they free can be posted again. */
unsigned kit_poll(struct kit_cq *cq, struct cqe *out, unsigned max);

void kit_arm(struct kit_cq *cq, enum cq_arm arm);

/* ---- queue pairs ---- */

struct kit_srq;

struct kit_qp_config {
    uint32_t type; /* enum qp_type; 0: RC */
    struct kit_srq *srq;
    uint32_t xrcd;
    struct kit_cq *send_cq, *recv_cq; /* NULL: one of its own for both, large enough */
    uint32_t sq_size, rq_size;        /* powers of two; 0: 64 */
    uint32_t max_sge, max_inline;     /* 0: 4, 128 */
    bool sq_sig_all;
    uint32_t pd;     /* 0: KIT_PD */
    unsigned engine; /* of the node: its first owner */
};

struct kit_qp {
    struct qp *qp;
    uint32_t qpn, type;
    struct kit_srq *srq;
    struct kit_node *node;
    struct kit_cq *send_cq, *recv_cq;
    struct qp_shared *shared;
    uint8_t *sq, *rq;
    uint32_t sq_size, sq_stride, rq_size, rq_stride, max_sge, max_inline;
    uint32_t sq_prod, rq_prod; /* posted */
    uint32_t sq_free, rq_free; /* entries before these are free again */
    bool sig_all;
    /* The engines reported this many times that its packets arrive at this engine. */
    unsigned misplaced_at, misplaced;
    /* Private: migrating to another engine. */
    struct kit_engine *left;
    ns_t adopt_at;
    struct kit_qp *next;
};

/* Creates a queue pair in RESET and attaches it to an engine of the node. config may be NULL. */
struct kit_qp *kit_qp_create(struct kit_node *n, const struct kit_qp_config *config);
/* The remaining ones are destroyed with the kit. */
void kit_qp_destroy(struct kit_qp *qp);

/* How two queue pairs are connected; [i] belongs to the i-th. */
struct kit_rc {
    uint32_t path_mtu;     /* code 1 to 5; 0: 3 (1024) */
    uint32_t psn[2];       /* first PSN that [i] sends */
    uint32_t access;       /* 0: remote write, read and atomic */
    uint8_t timeout;       /* code; 0: 8 (1.05 ms). KIT_NO_TIMEOUT: none */
    uint8_t retry_cnt;     /* KIT_ZERO: 0; 0: 7 */
    uint8_t rnr_retry;     /* KIT_ZERO: 0; 0: 7 (unlimited) */
    uint8_t min_rnr_timer; /* code; 0: 1 (10 us) */
    uint8_t max_rd_atomic; /* KIT_ZERO: 0; 0: 4 */
    uint8_t gid_index;     /* enum kit_gid */
    uint8_t traffic_class, sl;
    uint8_t static_rate; /* code of the address vector */
    uint32_t flow_label;
    bool agreed; /* on maps of kept packets: engine_qp_agree */
};
#define KIT_ZERO       0xFF
#define KIT_NO_TIMEOUT 0xFF

/* Entries of every node's GID table. */
enum kit_gid {
    KIT_GID_V4,
    KIT_GID_V6,
    KIT_GID_V4_ROCEV1,
    KIT_GID_V6_VLAN, /* VLAN 5 */
    KIT_GIDS,
};

/* Takes both queue pairs from RESET to RTS. rc may be NULL: all defaults. */
void kit_connect(struct kit_qp *a, struct kit_qp *b, const struct kit_rc *rc);

/* Takes a UD queue pair from RESET to RTS. */
void kit_start_ud(struct kit_qp *qp, uint32_t qkey, uint32_t psn);

/* The steps of that for one side, `side` being its index in rc. With XRC, the send side is [0]. */
void kit_to_init(struct kit_qp *qp, const struct kit_rc *rc);
void kit_to_rtr(struct kit_qp *qp, const struct kit_qp *peer, const struct kit_rc *rc, int side);
void kit_to_rts(struct kit_qp *qp, const struct kit_rc *rc, int side);

/* Creates one queue pair on each node and connects them. */
void kit_pair_rc(struct kit *k, struct kit_qp **a, struct kit_qp **b, const struct kit_rc *rc);

/* engine_qp_modify with the state alone. RESET also empties the application's side. */
int kit_modify(struct kit_qp *qp, enum qp_state state);

struct kit_send {
    uint64_t wr_id;
    uint8_t op, flags; /* enum sqe_op, sqe_flag */
    uint32_t imm, rkey;
    uint64_t remote_addr, compare_add, swap;
    union { /* as in struct sqe */
        struct {
            uint32_t ah, remote_qpn, remote_qkey;
        } ud;
        struct {
            uint64_t length;
            uint32_t region_key, access;
        } bind;
        struct {
            uint64_t length;
            uint8_t placement, selectivity;
        } flush;
        uint64_t words[3];
    };
    uint32_t remote_srqn;
    const struct sge *sge;
    unsigned num_sge;
    const void *inline_data; /* with SQE_INLINE */
    uint32_t inline_len;
};

/* Writes a WQE and publishes it, without a doorbell. Returns 0, or -ENOMEM when the queue
 * is full. */
int kit_post_send(struct kit_qp *qp, const struct kit_send *wr);
int kit_post_recv(struct kit_qp *qp, uint64_t wr_id, const struct sge *sge, unsigned num_sge);

/* The next send WQE's memory, for arbitrary bytes; kit_publish_send publishes it. */
void *kit_sq_slot(struct kit_qp *qp);
void kit_publish_send(struct kit_qp *qp);

void kit_ring(struct kit_qp *qp);

/* Posts one signaled request with one SGE (none when len is 0) and rings. remote may be NULL. */
void kit_do(struct kit_qp *qp, enum sqe_op op, uint64_t wr_id, const struct kit_mr *local,
            uint64_t off, uint32_t len, const struct kit_mr *remote, uint64_t remote_off);

/* Posts one receive with one SGE. */
void kit_recv(struct kit_qp *qp, uint64_t wr_id, const struct kit_mr *mr, uint64_t off,
              uint32_t len);

/*
 * Builds a whole frame as `from` would send it to its peer: outer headers from its address vector,
 * p with payload (p->payload_len bytes), pad, ICRC. out needs KIT_FRAME_ROOM. Returns the length.
 */
#define KIT_FRAME_ROOM (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 8)
uint32_t kit_frame_build(uint8_t *out, const struct kit_qp *from, const struct pkt *p,
                         const void *payload);

/* ---- shared receive queues, address handles, windows; all freed with the kit ---- */

struct kit_srq {
    struct srq *srq;
    uint32_t number;
    struct kit_node *node;
    struct srq_shared *shared;
    uint8_t *ring;
    uint32_t size, stride, max_sge;
    uint32_t prod; /* posted */
    struct kit_srq *next;
};

/* size: a power of two. With cq it is an XRC one, of domain xrcd. */
struct kit_srq *kit_srq_create(struct kit_node *n, uint32_t size, struct kit_cq *cq, uint32_t xrcd);

/* 0, or -ENOMEM when the queue is full. */
int kit_srq_post(struct kit_srq *srq, uint64_t wr_id, const struct sge *sge, unsigned num_sge);

/* The number of a new address handle from `from` to `to` by this entry of the GID tables. */
uint32_t kit_ah_create(struct kit_node *from, const struct kit_node *to, enum kit_gid gid);

/* The same with the path of a connection. */
uint32_t kit_ah_with(struct kit_node *from, const struct kit_node *to, const struct kit_rc *path);

/* The same to a multicast group. */
uint32_t kit_ah_to_group(struct kit_node *from, const union gid *group, enum kit_gid gid);

struct kit_mw {
    struct mem_region region; /* region.key is the window's key */
    struct kit_mw *next;
};

/* Allocates a window that is bound to nothing. kind: MEM_WINDOW_1 or _2. */
struct kit_mw *kit_mw_create(struct kit_node *n, enum mem_kind kind);

/* ---- several engines of a node ---- */

/* The engine that gets a frame from a link. */
enum kit_arrival {
    KIT_AT_HASH, /* of the addresses and the UDP source port, as a port with several queues does */
    KIT_AT_OWNER,
    KIT_AT_RANDOM,
};

/* From one engine of a node to another: frames in order, delayed by up to `delay`. */
struct kit_forward_config {
    ns_t delay;      /* 0: 1 us */
    unsigned room;   /* frames; 0: 256 */
    unsigned refuse; /* chance in 1/1000 that there is no room */
    /* The longest time between release and adoption of a queue pair; 0: none. */
    ns_t adopt;
};

struct kit_engine {
    struct mem_caller caller; /* with kit_config.late */
    struct kit_late_call *late, *late_last;
    ns_t late_until;
    unsigned late_calls; /* ever */
    /* What the engine was given for this call into it: the bytes stay for late calls. */
    const struct frame *lent;
    unsigned lent_n;
    const uint8_t *late_frame[FRAME_BURST]; /* of these, those that late calls write to */
    unsigned late_frames;
    struct kit_node *node;
    struct engine *engine;
    unsigned index;
    uint32_t lane;
    unsigned received; /* frames off links, and those that came back */
    /* Private: frames forwarded by each of the others, and its own that came back. */
    struct kit_handed_list {
        struct kit_forwarded *first, *last;
        unsigned n;
    } handed[KIT_ENGINES];
};

/* The queue pair's owner. */
struct kit_engine *kit_engine_of(const struct kit_qp *qp);

/*
 * Gives the queue pair to the node's engine `to`, which adopts it now or, by chance, a little later
 * (config.forward.adopt). False, without any effect: the application has not read all completions
 * in the old engine's lane.
 */
bool kit_move(struct kit_qp *qp, unsigned to);

/* A queue pair of UD joins or leaves a group: at all engines of its node. As engine_mcast_*. */
int kit_join(struct kit_qp *qp, const union gid *group);
int kit_leave(struct kit_qp *qp, const union gid *group);

/* Whether the counters of every engine of the node add up, and all forwarded frames arrived.
 * Reports errors on stderr. */
bool kit_counts_add_up(const struct kit_node *n);

/* ---- nodes ---- */

struct kit_event {
    struct kit_qp *qp;
    struct kit_cq *cq;
    struct kit_srq *srq;
    enum qp_event event;
};
#define KIT_EVENTS 64

struct kit_node {
    struct kit *kit;
    unsigned index;
    struct engine *engine; /* the first */
    unsigned engines;
    struct kit_engine part[KIT_ENGINES];
    struct kit_engine *arrival; /* all frames come in here; NULL: as config.arrival says */
    struct encap_port port;
    struct gid_table gids;
    struct mr_table mrs;
    struct qp_table *qps;
    struct srq_table *srqs;
    struct ah_table *ahs;
    unsigned received;                  /* frames off links, and those that came back */
    unsigned kept;                      /* frames sent that came back and went nowhere else */
    struct kit_event event[KIT_EVENTS]; /* asynchronous events, the first KIT_EVENTS */
    unsigned events;
    unsigned copy_calls, copies; /* of the backend */
    void (*on_held)(void *ctx);  /* a call is put off; may be NULL */
    void *on_held_ctx;
    /* Private. */
    struct kit_mr *mr;
    struct kit_cq *cq;
    struct kit_qp *qp;
    struct kit_srq *srq;
    struct kit_mw *mw;
    struct kit_ah *ah;
    struct kit_fault *faults;
    bool holds_calls, refuses_calls;
    unsigned mr_count;
    unsigned adopting; /* queue pairs that were released and not adopted yet */
    uint8_t *tx[FRAME_BURST];
};

/* How often this event was raised. */
unsigned kit_events(const struct kit_node *n, enum qp_event event);

/* All reasons together. */
uint64_t kit_drops(const struct kit_node *n);

/* ---- the kit ---- */

struct kit_config {
    uint64_t seed;
    unsigned nodes;   /* 0: 2 */
    unsigned engines; /* of every node; 0: 1 */
    enum kit_arrival arrival;
    struct kit_forward_config forward;
    /* Frames to the node's own MAC, and copies of those to a group, come back at the engine that
     * sent them, as from a port; else the other nodes get all. */
    bool local;
    bool shared_qp_table; /* one table for all nodes, as in a device with several ports */
    bool any_icrc, log;
    unsigned late;   /* of 1000 calls for copied regions end later */
    bool slow_nodes; /* kit_hold_calls and kit_refuse_calls are used */
    uint32_t max_inflight;
    uint32_t reorder;
    struct entropy_policy entropy; /* as of struct engine_config, of all nodes */
    struct congestion_config congestion;
    struct qos_classes classes;
    uint32_t repath;
    uint8_t trim; /* the code point of trimmed frames: half of those that links drop, if they have a
                     payload. 0: all are dropped */
    struct kit_link_config link[KIT_NODES]; /* [i] carries what node i sends */
    const struct kit_spell *spell;
    unsigned spells;
    struct kit_fates *record;       /* notes every fate here */
    const struct kit_fates *replay; /* these are the fates, instead of chance and spells */
};

struct kit {
    ns_t neck_until;    /* when the switch's queue will be empty */
    uint64_t neck_most; /* bytes that were in it, at most */
    struct kit_config config;
    ns_t now, start;
    unsigned nodes;
    bool posted; /* completions since the application's last turn */
    ns_t wake;   /* the time of the application's next turn; see kit_wake_at */
    struct kit_node node[KIT_NODES];
    struct kit_link link[KIT_NODES];
    struct random random, engines_random; /* the second if nodes have several engines */
    struct random late_random;
    bool trace;
};

struct kit *kit_create(const struct kit_config *config);
void kit_destroy(struct kit *k);

enum kit_end {
    KIT_DONE,   /* the condition became true */
    KIT_IDLE,   /* no frame is in flight, no timer runs, no engine has packets, no application waits
                 */
    KIT_BUDGET, /* the time is over */
    KIT_LIVELOCK, /* an engine stays busy without the clock moving */
};

/*
 * Runs all engines until done(arg) is true (called after every event; it may post and poll), the
 * system is idle, or `budget` of virtual time has passed. done may be NULL.
 */
enum kit_end kit_run(struct kit *k, bool (*done)(void *arg), void *arg, ns_t budget);

/* kit_run until idle; aborts unless that happens within 100 s of virtual time. */
void kit_settle(struct kit *k);

/* Asks kit_run to call done again no later than at `at`. Forgotten when it did. */
void kit_wake_at(struct kit *k, ns_t at);

/* Prints the message and aborts. */
_Noreturn void kit_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* malloc and calloc that cannot fail. */
void *kit_alloc(size_t bytes);
void *kit_grow(void *p, size_t bytes);

#endif
