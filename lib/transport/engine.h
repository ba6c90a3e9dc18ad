/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport engine: the queue pairs that one worker owns on one port. It takes received frames,
 * doorbells and the time, and fills frames when asked; it does no I/O, asks for no clock, and
 * allocates nothing per packet. uroced, the tests' simulator and the replayer are its hosts.
 *
 * Threads: every function on an engine is called by one thread at a time, its worker. Other threads
 * reach a queue pair only by asking that worker.
 */
#ifndef UROCE_ENGINE_H
#define UROCE_ENGINE_H

#include "comp_queue.h"
#include "counter.h"
#include "drop.h"
#include "encap.h"
#include "entropy.h"
#include "frame.h"
#include "mem.h"
#include "qp_attr.h"
#include "trace.h"
#include "work_queue.h"

struct engine;
struct qp;
struct srq;
struct wq;
struct address_handle;
struct rwq_ind;
struct rx_hash;
struct flow_slot;

/* Events of the verbs API that a queue pair can raise: numeric values of enum ibv_event_type. */
enum qp_event {
    QP_EVENT_CQ_ERR = 0,
    QP_EVENT_QP_FATAL = 1,
    QP_EVENT_QP_REQ_ERR = 2,
    QP_EVENT_QP_ACCESS_ERR = 3,
    QP_EVENT_COMM_EST = 4,
    QP_EVENT_SQ_DRAINED = 5,
    QP_EVENT_SRQ_ERR = 14,
    QP_EVENT_SRQ_LIMIT_REACHED = 15,
    QP_EVENT_LAST_WQE_REACHED = 16,
    QP_EVENT_WQ_FATAL = 19,
};

/* What the engine tells its host, during calls into it; the host only notes it and returns. */
struct engine_host {
    void *ctx;
    /* A completion event is due on cq (it was armed). */
    void (*cq_event)(void *ctx, struct comp_queue *cq);
    /* cq got completions in this burst: wake a poller that blocks. May be NULL. */
    void (*cq_posted)(void *ctx, struct comp_queue *cq);
    /* An affiliated asynchronous event. cq is set for QP_EVENT_CQ_ERR, else qp. */
    void (*async_event)(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event);
    /* QP_EVENT_SRQ_LIMIT_REACHED or QP_EVENT_SRQ_ERR. May be NULL when there are no SRQs. */
    void (*srq_event)(void *ctx, struct srq *srq, enum qp_event event);
    /* A frame for this port, or a group, that is not RoCE: true if the host takes a copy of it. May
     * be NULL. */
    bool (*punt)(void *ctx, const struct frame *f);
    /*
     * A frame that another engine of the device is to act on, which gets it by engine_rx_forwarded,
     * as a copy. False: it could not be taken, and is dropped. NULL: there is only one engine.
     */
    bool (*forward)(void *ctx, const struct frame *f, struct engine *to);
    /* The same for a copy that is for sniffers (raw.h) of `to` alone: engine_rx_copies. */
    bool (*forward_copy)(void *ctx, const struct frame *f, struct engine *to);
    /* A connection's packets keep arriving at the engine with this lane: it had better be there. */
    void (*misplaced)(void *ctx, struct qp *qp, uint32_t lane);
    /* QP_EVENT_WQ_FATAL: a work queue (raw.h) went to its error state by itself. May be NULL. */
    void (*wq_event)(void *ctx, struct wq *wq, enum qp_event event);
};

/* ---- tables, shared by the engines of a device ---- */

#define QPN_FIRST      0x10u
#define QP_TABLE_SLOTS (1u << 17)

/* Control thread writes, workers read. A removed queue pair is freed after the workers' next quiet
 * point. */
struct qp_table;

struct qp_table *qp_table_create(void); /* NULL: out of memory */
void qp_table_destroy(struct qp_table *t);
/* The next queue pair gets this number if it is free; else nothing changes. For replaying recorded
 * traffic. Control thread. */
void qp_table_prefer(struct qp_table *t, uint32_t qpn);
/* Any thread. */
struct qp *qp_table_lookup(const struct qp_table *t, uint32_t qpn);

/* Shared receive queues by number (XRC packets name them). */
#define SRQ_TABLE_SLOTS (1u << 16)
struct srq_table;
struct srq_table *srq_table_create(void);
void srq_table_destroy(struct srq_table *t);
struct srq *srq_table_lookup(const struct srq_table *t, uint32_t srqn);

/* Address handles by number (UD work requests name them). */
#define AH_TABLE_SLOTS (1u << 16)
struct ah_table;
struct ah_table *ah_table_create(void);
void ah_table_destroy(struct ah_table *t);

/* Control thread. NULL and *err: -ENOMEM, -ENOSPC, -EINVAL (as encap_template_make). */
struct address_handle *address_handle_create(struct ah_table *t, uint32_t pd,
                                             const struct address_vector *av, int *err);
/* Work requests no longer find it; freed after the workers' quiet point. */
void address_handle_unpublish(struct ah_table *t, struct address_handle *ah);
void address_handle_free(struct address_handle *ah);
uint32_t address_handle_number(const struct address_handle *ah);
const struct address_vector *address_handle_vector(const struct address_handle *ah);
/* Its packets go to another MAC from now on. The worker that sends by it. */
void address_handle_redirect(struct address_handle *ah, const uint8_t mac[6]);

/* ---- shared receive queues ---- */

struct srq_init {
    struct work_queue wq;    /* private end over the application's segment */
    _Atomic uint32_t *taken; /* there: entries taken, so that the application knows what is free */
    uint32_t pd;
    bool xrc; /* XRC: its own CQ and domain */
    uint32_t xrcd;
    struct comp_queue *cq;
    void *owner;
};

/* Control thread, as for queue pairs. NULL and *err: -ENOMEM, -ENOSPC. */
struct srq *srq_create(struct srq_table *t, const struct srq_init *init, int *err);
void srq_unpublish(struct srq *srq);
/* After the workers' quiet point, and when no queue pair uses it. */
void srq_free(struct srq *srq);
uint32_t srq_number(const struct srq *srq);
void *srq_owner(const struct srq *srq);
/* Entries that wait. Any thread. */
uint32_t srq_waiting(struct srq *srq);
/* Arms the limit (0: disarms): one event when fewer entries wait (10.2.9.3). Returns
 * true when that is so already: the caller raises the event, and the limit is disarmed. Any thread.
 */
bool srq_set_limit(struct srq *srq, uint32_t limit);
uint32_t srq_limit(struct srq *srq);
/* Goes over to another ring, which holds the waiting entries at the same indices. Any thread; the
 * application does not post meanwhile. copy moves them, called under the queue's lock. */
void srq_move(struct srq *srq, const struct work_queue *wq, _Atomic uint32_t *taken,
              void (*copy)(void *ctx, uint32_t first, uint32_t end), void *ctx);

/* ---- engine ---- */

struct engine_config {
    const struct encap_port *port;
    const struct mr_table *mrs;
    struct qp_table *qps;
    const struct srq_table *srqs;  /* may be NULL: no XRC */
    const struct ah_table *ahs;    /* may be NULL: no UD */
    const struct flow_slot *flows; /* raw packets' (raw.h); may be NULL */
    struct engine_host host;
    uint32_t lane;         /* the CQ lane this worker posts into */
    uint32_t max_inflight; /* packets a requester may have unacknowledged; 0: 128, or 512 KiB */
    struct entropy_policy entropy; /* of UDP source ports; zeroed: the kernel's */
    /*
     * After so many timeouts in a row that bring no answer a requester takes another source port,
     * and so does a responder after so many repetitions in a row; 0: never. See path.c.
     */
    uint32_t repath;
    bool any_icrc; /* fuzzing: accept any ICRC */
};

/* NULL: out of memory. The configuration is copied; what it points to must outlive the engine. */
struct engine *engine_create(const struct engine_config *config);
/* All its queue pairs must be destroyed. */
void engine_destroy(struct engine *e);

/*
 * Receives n frames (at most FRAME_BURST). They may be given back when it returns. Completions are
 * posted and host callbacks made before it returns. now must not go back.
 */
void engine_rx(struct engine *e, struct frame *frames, unsigned n, ns_t now);

/*
 * The same for frames that the engine with lane `from` of the same device handed over: n copies of
 * what it received. Frames that it would have to hand on once more are dropped only if forward
 * refuses them.
 */
void engine_rx_forwarded(struct engine *e, struct frame *frames, unsigned n, uint32_t from,
                         ns_t now);
/* The same for copies that hand_copy took. Only sniffers see them, or nobody if these have gone. */
void engine_rx_copies(struct engine *e, struct frame *frames, unsigned n, uint32_t from, ns_t now);

/*
 * Fills up to n lent frames (room at least ENCAP_MAX_LEN + PKT_MAX_HEADER + path MTU + 8) with
 * packets to be sent in this order, sets their len, and returns how many it filled.
 */
unsigned engine_tx(struct engine *e, struct frame *frames, unsigned n, ns_t now);

/* Whether engine_tx would be asked in vain (no packet is ready). A hint that may be wrongly true.
 */
bool engine_wants_tx(const struct engine *e);

/* The application rang qp's doorbell. */
void engine_doorbell(struct engine *e, struct qp *qp, ns_t now);

/* The time of the next timer, or NS_NEVER; engine_timers runs those due. */
ns_t engine_next_timer(struct engine *e);
void engine_timers(struct engine *e, ns_t now);

/* Counters of an engine; single writer. rx_packets + rx_forwarded_in + rx_copies = rx_delivered +
 * rx_punted + rx_forwarded_out + all drops; rx_copies: what a frame is more than one (multicast to
 * several engines, raw packets to several takers). Frames handed in are counted where they arrived.
 * Arrays by qos_frame_priority; their sums are the totals. A frame too short for a tag and a
 * traffic class, or not of IP, has priority 0. */
struct engine_counters {
    counter_t rx_packets[QOS_PRIORITIES], rx_bytes[QOS_PRIORITIES];
    counter_t tx_packets[QOS_PRIORITIES], tx_bytes[QOS_PRIORITIES];
    counter_t rx_delivered, rx_punted;
    counter_t rx_forwarded_in, rx_forwarded_out, rx_copies;
    counter_t drop[DROP_COUNT];
};
const struct engine_counters *engine_counters(const struct engine *e);

/* What happened in it out of the ordinary, for trace_read. */
const struct trace *engine_trace(const struct engine *e);
/* The name of a fault in it. */
const char *fault_name(uint32_t fault);

/* The callbacks that it was created with. Any thread. */
const struct engine_host *engine_host_of(const struct engine *e);

/* ---- queue pairs ---- */

struct qp_init {
    uint32_t type; /* enum qp_type */
    uint32_t pd;
    struct srq *srq; /* receives from it instead of rq; or NULL */
    uint32_t xrcd;   /* XRC receive side */
    bool sq_sig_all;
    uint32_t uidx;
    struct comp_queue *send_cq, *recv_cq;
    struct qp_shared *shared; /* the application's segment */
    struct work_queue sq, rq; /* private ends over it */
    struct qp_caps caps;
    const struct rx_hash
        *rx_hash;        /* RAW_PACKET with receive-side scaling (raw.h), copied; or NULL */
    struct rwq_ind *ind; /* and where it leads */
    const struct entropy_policy *entropy; /* its own, copied; NULL: the port's */
    void *owner;                          /* the device's object */
};

/*
 * Creates a queue pair in RESET, gives it a QPN and enters it into the table. Control thread; the
 * worker must be told of it (engine_qp_attach) before anything else. NULL and *err: -ENOMEM,
 * -ENOSPC (no QPN), -EOPNOTSUPP (type).
 */
struct qp *qp_create(struct qp_table *t, const struct qp_init *init, int *err);
/* Unpublishes (if that was not done) and frees a queue pair that was detached. Control thread,
 * after the workers' quiet point. */
void qp_free(struct qp *qp);

/* Takes qp out of the table: packets no longer find it. Control thread, before detaching. */
void qp_unpublish(struct qp *qp);

/* The worker takes, or gives up, ownership. Detaching stops all timers and transmission and posts
 * nothing. The owner worker. */
void engine_qp_attach(struct engine *e, struct qp *qp);
void engine_qp_detach(struct engine *e, struct qp *qp);

/*
 * Gives qp, and what it is about to do, to another engine of the device: in two steps, so that it
 * never belongs to none and its packets always find somebody. The first on the worker of `from`: it
 * does not touch qp afterwards, and hands its packets over. The second on the worker of `to`, which
 * may have worked on qp before: timers and transmission go on there. Completions that were posted
 * before lie in the other lane of their queue: the caller sees to it that they were read, see
 * cq_lane_is_empty. Members of multicast groups stay members, but a datagram that is on its way to
 * a group may miss a member that moves, or come to it twice. Packets that were handed over before
 * may be overtaken by later ones.
 */
void engine_qp_release(struct engine *from, struct qp *qp, struct engine *to);
void engine_qp_adopt(struct engine *to, struct qp *qp, ns_t now);

/* Whether the application has read all completions in `lane` of qp's queues. The worker of that
 * lane. */
bool qp_completions_are_read(const struct qp *qp, uint32_t lane);

/* The engine that owns qp. Any thread: may be out of date, but for the control thread, which alone
 * changes it. */
struct engine *qp_engine(const struct qp *qp);

/*
 * Gives the queue pair a source port policy of its own; NULL: the port's again. A connection, from
 * RTR on, takes the new policy's first port at once, for requests and answers; datagrams have
 * theirs from the next work request on. RoCEv1 has no ports. -EINVAL: raw packets. The owner
 * worker.
 */
int engine_qp_set_entropy(struct engine *e, struct qp *qp, const struct entropy_policy *policy);

/*
 * Changes attributes and state (volume 1, 10.3.1 and table 91). av is the resolved address vector
 * when mask has QPA_AV (its udp_sport is set here, by the engine's policy), else NULL. max_mtu: the
 * port's active MTU code. Returns 0, -EINVAL (transition, missing or excess attributes, values out
 * of range), -EOPNOTSUPP (alternate path), -ENOMEM. The owner worker.
 */
int engine_qp_modify(struct engine *e, struct qp *qp, const struct qp_attr *attr, uint32_t mask,
                     const struct address_vector *av, uint32_t max_mtu, ns_t now);

/* The peer's packets go to another MAC from now on: it, or the router to it, moved. The owner
 * worker. */
void engine_qp_redirect(struct engine *e, struct qp *qp, const uint8_t mac[6]);

/*
 * Joins a UD queue pair to a multicast group, or takes it out. 0, -EINVAL (not UD, not a multicast
 * GID), -ENOMEM; -EEXIST when it is in already, -ENOENT when it was not in. The owner worker.
 */
int engine_mcast_join(struct engine *e, struct qp *qp, const union gid *group);
int engine_mcast_leave(struct engine *e, struct qp *qp, const union gid *group);

/* Current attributes. The owner worker. */
void engine_qp_query(const struct qp *qp, struct qp_attr *attr);

/* Puts the queue pair into the error state: work is flushed. The owner worker. */
void engine_qp_error(struct engine *e, struct qp *qp, ns_t now);

uint32_t qp_number(const struct qp *qp);
void *qp_owner(const struct qp *qp);
uint32_t qp_uidx(const struct qp *qp);
uint32_t qp_type(const struct qp *qp);               /* enum qp_type */
enum qp_state qp_current_state(const struct qp *qp); /* any thread: may be out of date */
const struct address_vector *qp_address_vector(const struct qp *qp);
/* Its own policy, or NULL: the port's. The owner worker, or who waits for it. */
const struct entropy_policy *qp_entropy(const struct qp *qp);
/* The UDP source port of its packets now; 0: it has none (UD, where each work request has its own;
 * RoCEv1; before RTR). Any thread. */
uint16_t qp_udp_sport(const struct qp *qp);
const struct qp_caps *qp_capabilities(const struct qp *qp);

/* Per queue pair counters (names as the Linux rxe and mlx5 hw_counters where they exist). */
#define QP_COUNTERS(X)        \
    X(tx_packets)             \
    X(tx_bytes)               \
    X(rx_packets)             \
    X(rx_bytes)               \
    X(retransmits)            \
    X(timeouts)               \
    X(rnr_nak_sent)           \
    X(rnr_nak_rcvd)           \
    X(seq_nak_sent)           \
    X(seq_nak_rcvd)           \
    X(duplicate_request)      \
    X(out_of_sequence)        \
    X(implied_nak_seq_err)    \
    X(remote_access_err)      \
    X(remote_invalid_request) \
    X(remote_operational_err) \
    X(local_protection_err)   \
    X(retry_exceeded)         \
    X(rnr_retry_exceeded)     \
    X(rx_discards)            \
    X(repaths)                \
    X(np_ecn_marked_roce_packets)
struct qp_counters {
#define X(name) counter_t name;
    QP_COUNTERS(X)
#undef X
};
const struct qp_counters *qp_counters(const struct qp *qp);

#endif
