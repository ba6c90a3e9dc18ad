/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the transport: the queue pair and the engine, and the named steps that work on them.
 * A packet's way in:   rx_validate -> resp_* (requests) or comp_* (responses) -> settle -> cq
 * A packet's way out:  req_ready -> req_segment, or resp_reply -> the engine seals and hands out
 *
 * A step never posts a completion and never changes the QP's state by itself: it records
 * what it found (a fault, a slot's status, an acknowledged PSN), and qp_settle, once per call into
 * the engine and after all memory has been moved, turns that into completions in order.
 */
#ifndef UROCE_TRANSPORT_H
#define UROCE_TRANSPORT_H

#include <sys/queue.h>

#include "encap_expect.h"
#include "engine.h"
#include "fault.h"
#include "pkt.h"
#include "srq.h"
#include "timer.h"

#define QP_MAX_RD_ATOMIC 16  /* per queue pair, each direction */
#define TX_QUANTUM       16  /* packets a queue pair sends before the next one's turn */
#define TURN_SHORT       8   /* packets, where its responses and short requests take turns */
#define INFLIGHT_DEFAULT 128 /* packets, of whatever size */
#define INFLIGHT_BYTES   (INFLIGHT_DEFAULT * PKT_MTU_MAX) /* and as much in smaller ones */
#define INFLIGHT_MOST    384 /* packets: rings of ports and between workers hold some more */
#define SOURCE_MIN       512 /* bytes that are copied and summed up in one pass */
#define ASKS_FOR_ACK     (UINT32_C(1) << 31) /* in the last word of the BTH */
#define AETH_ACK_PLAIN   (AETH_ACK | AETH_CREDIT_NONE)
#define SERVICE_RAW      0xFF /* beside enum pkt_service: frames, of which none is a packet's */

/* ---- requester ---- */

/* A work request taken from the send queue, until it completes. */
struct send_slot {
    uint32_t index;   /* in the send queue */
    uint32_t len;     /* message bytes */
    uint32_t packets; /* PSNs it takes: a READ one per response packet, a local operation none */
    uint32_t done;    /* READ, atomic: responses received */
    psn_t first;
    uint8_t status; /* WC_SUCCESS, or why it fails when its turn comes */
    bool started;   /* has its PSNs */
    uint64_t atomic_value;
    struct send_wqe wqe; /* cut to the queue's entry size: last */
};

struct requester {
    struct work_queue sq;
    uint8_t *slots; /* ring of slot_count slots, slot_stride bytes each */
    uint32_t slot_count, slot_stride;
    uint32_t slot_max; /* the ring grows up to so many */
    /* Counts of slots since reset: completed <= sending <= taken. */
    uint32_t tail, send, head;
    uint32_t pkt;            /* next packet of slot `send` */
    psn_t next_psn;          /* of that packet */
    psn_t max_psn;           /* never sent yet */
    psn_t una;               /* oldest unacknowledged */
    psn_t ack_req;           /* of the last packet that asked for an acknowledge */
    uint32_t rd_outstanding; /* READs and atomics between tail and send without their response */
    uint32_t window;         /* packets that may be unacknowledged, of messages of several */
    uint8_t retry_left, rnr_left;
    uint8_t stalls;   /* timeouts since the last answer, or since the path was changed */
    bool rnr_wait;    /* until the timer fires */
    bool implied_nak; /* went back for a lost response; not again before progress */
    bool drained_told;
};

/* ---- responder ---- */

enum resp_op { RESP_IDLE, RESP_SEND, RESP_WRITE };

/* A READ or atomic request that was executed: kept for its reply and for duplicates (9.7.5.1.5). */
struct resp_resource {
    uint8_t kind;  /* KIND_READ_REQUEST, an atomic, FLUSH or ATOMIC WRITE */
    bool pending;  /* reply (still) to be sent */
    bool answered; /* was sent once: what is pending is a repetition */
    psn_t first;
    uint32_t packets;
    uint32_t start, next; /* first and next packet of the reply being sent */
    union {
        uint64_t va;       /* READ */
        uint64_t original; /* atomic: the result */
    };
    uint32_t rkey, pd, len, msn;
};

struct responder {
    struct work_queue rq;
    psn_t epsn;
    uint32_t msn;
    uint8_t op;       /* enum resp_op: message in progress */
    bool nak_sent;    /* NAK or RNR NAK for epsn is out: later PSNs are dropped silently */
    bool ack_pending; /* an ACK, RNR NAK or NAK is to be sent */
    uint8_t syndrome;
    psn_t ack_psn;
    bool recv_busy;            /* *recv is in use */
    bool recv_failed;          /* FAULT_MEMORY has its completion; what follows is flushed */
    struct mr_hint write_hint; /* where the last WRITE went */
    struct mr_hint recv_hint;  /* and the last receive entry, or response to a READ */
    unsigned failed_job;       /* FAULT_MEMORY on receive: the job of this burst */
    uint32_t recv_index, recv_room;
    uint32_t recv_pd;           /* of the receive entry: the queue pair's or the SRQ's */
    struct comp_queue *recv_cq; /* where it completes */
    uint32_t recv_srqn;         /* XRC: whose entry it is; it may be destroyed meanwhile */
    uint64_t recv_serial;
    struct recv_wqe *recv; /* cut to the queue's entry size */
    uint32_t msg_len;      /* bytes of the message so far */
    uint64_t write_va;
    uint32_t write_rkey, write_left;
    struct resp_resource *res; /* ring of res_max */
    uint32_t res_max;          /* max_dest_rd_atomic */
    uint32_t res_head;         /* resources taken since reset, or fewer: see resp_resources_taken */
    uint32_t res_pending;
    struct mr_hint read_hint; /* where the last READ read */
    /* Rounds of repeated requests, as path_repeated counts them. */
    uint32_t rounds;
    psn_t round_first, repeated, repeated_epsn;
};

/* ---- queue pair ---- */

/* By who needs what: each part's cache lines are one side's. */
struct qp {
    /* what every packet needs, the responder's first */
    uint32_t qpn;
    uint8_t state; /* enum qp_state */
    uint8_t type;
    uint8_t service; /* enum pkt_service, SERVICE_RAW */
    uint16_t access; /* enum mem_access, remote rights */
    bool in_tx_list, in_touched;
    uint8_t resp_turn; /* replies and requests take turns: packets of the replies' one, if that is
                          over and the requests' is not */
    bool comm_est_told;
    uint8_t tx_burst; /* packets sent in this turn */
    /* Packets in a row that another engine handed over, and which: see note_misplaced. */
    uint8_t misplaced_lane;
    uint16_t misplaced_count, misplaced_limit;
    uint32_t pd, mtu;      /* bytes */
    enum fault fault;      /* responder's, until settled */
    struct engine *engine; /* the owner; others may ask: qp_engine */
    struct srq *srq;
    struct comp_queue *recv_cq;
    uint32_t dest_qpn;
    uint32_t qkey;

    struct comp_queue *send_cq;
    uint32_t xrcd;
    struct wq *raw_rq;        /* raw packets: its receive queue; or NULL */
    struct rx_spread *spread; /* raw packets: where they go instead; or NULL */
    struct timer timer;
    ns_t ack_timeout; /* 0: none */
    TAILQ_ENTRY(qp) tx_link;
    STAILQ_ENTRY(qp) touched_link;

    CACHE_ALIGNED struct requester req;
    CACHE_ALIGNED struct responder resp;
    /* Connected, and not on a promiscuous port: how packets arrive. */
    CACHE_ALIGNED struct encap_expect expect;
    struct qp_counters counters;
    CACHE_ALIGNED struct encap_template encap;

    /* what packets do not need */
    struct address_vector av;
    struct qp_attr attr;
    struct qp_caps caps;
    struct qp_shared *shared;
    struct entropy_policy entropy; /* its own, if own_entropy */
    bool own_entropy;
    bool rang_early; /* before it was ready to send */
    bool sq_sig_all;
    uint32_t uidx;
    void *owner;
    struct qp_table *table;
};

/* ---- engine ---- */

/* A frame being built in this call. */
struct tx_job {
    struct frame *frame;
    struct qp *qp;
    const struct encap_template *encap; /* NULL: a raw frame, of bth_len bytes */
    uint16_t bth_len;                   /* BTH through ICRC */
    bool is_reply;                      /* READ response: payload failure is the responder's */
    bool failed;
    uint32_t slot; /* request: count of its slot */
    psn_t psn;
    const uint8_t
        *source; /* the payload, where it is copied from when the packet is sealed; or NULL */
    uint32_t source_len;
};

/* A received packet being acted on in this call. */
struct rx_job {
    struct encap_view view;
    struct pkt pkt;
    struct qp *qp;
    struct engine *owner; /* qp's, as it was looked up */
    struct srq *srq;      /* XRC: the one the packet names */
    uint8_t grh[40];      /* UD: what goes before the payload */
    bool is_response;
    bool expected; /* by its queue pair: from the connected peer, and to the right address */
    uint32_t slot; /* response: count of the slot its payload belongs to */
};

/* A receive completion that waits for its message's bytes to be written. */
struct rx_completion {
    struct wq *wq; /* of a raw packet; and then the next three mean nothing */
    bool failed;   /* its bytes could not be written */
    struct qp *qp;
    struct comp_queue *cq;
    unsigned job;
    bool solicited;
    struct cqe cqe;
};

struct address_handle {
    uint32_t handle, pd;
    struct address_vector av;
    struct encap_template encap;
};
const struct address_handle *ah_lookup(const struct ah_table *t, uint32_t handle);

/* A UD queue pair in a multicast group. */
struct mcast_member {
    union gid group;
    struct qp *qp;
    LIST_ENTRY(mcast_member) link;
};

LIST_HEAD(mcast_list, mcast_member);
TAILQ_HEAD(qp_tx_list, qp);
STAILQ_HEAD(qp_touched_list, qp);
STAILQ_HEAD(wq_touched_list, wq);

_Static_assert(offsetof(struct qp, dest_qpn) < CACHE_LINE, "a run finds it in one line");

#define RX_DIRECT -1

struct engine {
    struct engine_config cfg;
    ns_t now;
    uint32_t max_window;
    int rx_from; /* during a receive call: the lane that handed the frames over, or RX_DIRECT */
    struct qp_tx_list tx_list;      /* queue pairs that may have a packet to send */
    struct qp_touched_list touched; /* queue pairs to settle before this call returns */
    struct wq_touched_list touched_wqs;
    struct timer_wheel wheel;
    struct mcast_list mcast;
    uint16_t ip_id;
    struct engine_counters counters;
    struct trace trace;

    struct mr_cache mrs;
    struct mem_batch batch;
    unsigned jobs;
    unsigned sealed; /* the first of them, which are ready to go; tx_job is of the others */
    struct tx_job tx_job[FRAME_BURST];
    struct rx_job rx_job[FRAME_BURST];
    /* Engines that got the frame which is being acted on. */
    struct engine *forwarded_to[CQ_MAX_LANES];
    unsigned handed;
    unsigned completions;
    struct rx_completion completion[FRAME_BURST];
    unsigned cqs;
    struct comp_queue *cq[2 * FRAME_BURST]; /* posted to in this call */
};

/* ---- small helpers ---- */

static inline struct send_slot *slot_at(const struct requester *req, uint32_t count)
{
    return (struct send_slot *)(req->slots +
                                (size_t)(count & (req->slot_count - 1)) * req->slot_stride);
}

static inline psn_t slot_last(const struct send_slot *s)
{
    return psn_add(s->first, s->packets - 1);
}

static inline uint32_t packets_for(uint32_t len, uint32_t mtu)
{
    return len ? (len + mtu - 1) >> __builtin_ctz(mtu) : 1;
}

static inline bool op_is_read_or_atomic(uint8_t sqe_op)
{
    return sqe_op == SQE_READ || sqe_op == SQE_CMP_SWP || sqe_op == SQE_FETCH_ADD ||
           sqe_op == SQE_FLUSH || sqe_op == SQE_ATOMIC_WRITE;
}

/* Requests that are answered by a response of their own, and keep a resource for it. */
static inline bool kind_has_response(uint8_t kind)
{
    return kind == KIND_READ_REQUEST || kind == KIND_CMP_SWP || kind == KIND_FETCH_ADD ||
           kind == KIND_FLUSH || kind == KIND_ATOMIC_WRITE;
}

/* Services whose packets are acknowledged. */
static inline bool qp_is_reliable(const struct qp *qp)
{
    return qp->service == PKT_RC || qp->service == PKT_XRC;
}

/* An XRC receive side completes into the queue of whoever owns the SRQ, who may not know it. */
static inline uint32_t qp_completion_uidx(const struct qp *qp)
{
    return qp->type == QPT_XRC_RECV ? CQE_UIDX_NONE : qp->uidx;
}

static inline bool qp_can_receive(const struct qp *qp)
{
    return qp->state >= QPS_RTR && qp->state <= QPS_SQE;
}

/* ---- qp_memory.c ---- */

/* Zeroed, with the rings of its requester and its responder's entry as init has them. NULL: out of
 * memory. */
struct qp *qp_alloc(const struct qp_init *init);
void qp_memory_free(struct qp *qp);
/* RESET: gives back what it got since it was created. No slot or resource is in use. */
void qp_memory_reset(struct qp *qp);
/* All slots are in use: twice as many, if work waits and there may be more. Without memory there
 * are none either: work then waits for slots, as it does for the last ones. Once for each size, so
 * not for each packet. */
bool req_more_slots(struct qp *qp);
/* Resources for so many READs and atomics at a time: made, 0 or -ENOMEM; and taken instead of those
 * that there are, of which the newest go over. */
int resp_resources_alloc(struct resp_resource **res, uint32_t max);
void resp_resources_set(struct responder *resp, struct resp_resource *res, uint32_t max);

/* ---- engine.c ---- */

/* qp may have a packet to send. */
void engine_tx_ready(struct engine *e, struct qp *qp);
/* qp must be settled before this call into the engine returns. */
void engine_touch(struct engine *e, struct qp *qp);
/* Settles every touched queue pair and raises the completion events. */
void engine_settle(struct engine *e);

/* Something out of the ordinary: trace.h. */
static inline void note(struct engine *e, const struct qp *qp, enum trace_event event, uint32_t a,
                        uint32_t b)
{
    trace_put(&e->trace, e->now, event, qp ? qp->qpn : 0, a, b);
}

/* ---- engine_tx.c ---- */

static inline void tx_count(struct engine *e, struct qp *qp, uint8_t priority, unsigned packets,
                            uint64_t bytes)
{
    counter_add(&e->counters.tx_packets[priority], packets);
    counter_add(&e->counters.tx_bytes[priority], bytes);
    counter_add(&qp->counters.tx_packets, packets);
    counter_add(&qp->counters.tx_bytes, bytes);
}

/* ---- engine_rx.c ---- */

/* A frame for another engine: passed on, or dropped. Counted. */
void rx_forward(struct engine *e, const struct frame *f, struct engine *to);
/* The same for the sniffers there. */
void rx_forward_copy(struct engine *e, const struct frame *f, struct engine *to);

/* ---- sg.c: scatter and gather through lkeys; all check first ---- */

/* Whether all of an SGE list may be accessed. */
enum mr_fault sg_check(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                       uint32_t access);
/* Queues the copy of bytes [off, off + len) of the list from local / into local, with `tag` (a
 * job). */
enum mr_fault sg_scatter(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                         uint32_t off, const uint8_t *local, uint32_t len, unsigned tag);
enum mr_fault sg_gather(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                        uint32_t off, uint8_t *local, uint32_t len, unsigned tag);
/* Where these bytes are in the dataplane's own memory, if they may be read and are there in one
 * piece; else NULL. Until the call into the engine returns. */
const uint8_t *sg_source(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                         uint32_t off, uint32_t len);
/* Does queued copies now; failures are noted in their jobs' queue pairs. */
void rx_flush(struct engine *e);
void tx_flush(struct engine *e);

/* ---- path.c: the UDP source port, by which a network chooses among equal paths ---- */

/* Takes the address vector; 0 or -EINVAL, with nothing changed. */
int path_set(struct engine *e, struct qp *qp, const struct address_vector *av, uint32_t dest_qpn);
/* The rule of the queue pair's source ports: its own, or the port's. */
static inline const struct entropy_policy *path_policy(const struct engine *e, const struct qp *qp)
{
    return qp->own_entropy ? &qp->entropy : &e->cfg.entropy;
}
/* The requester's timer fired, and it goes back: another path, if this one stays silent. */
void path_timed_out(struct engine *e, struct qp *qp);
/* The responder got a request again: another path, if our answers do not get through. */
void path_repeated(struct engine *e, struct qp *qp, psn_t p);

/* ---- requester ---- */

/* req_schedule.c: takes work requests; whether a request packet may be sent now. */
bool req_ready(struct engine *e, struct qp *qp);
/* Moves the sending position to PSN p, which lies between una and max_psn. */
void req_seek(struct qp *qp, psn_t p);
void req_timer(struct engine *e, struct qp *qp);
void req_arm_timer(struct engine *e, struct qp *qp);
void req_reset(struct qp *qp, psn_t first);
/* req_segment.c: builds the next request packet into job->frame; false if the slot failed instead.
 */
bool req_segment(struct engine *e, struct qp *qp, struct tx_job *job);
/* Builds and seals up to n packets of the message that is being sent, of those that are neither its
 * first nor its last; the frames as for req_only. Returns how many. */
unsigned req_middle(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);
/* req_only.c: takes and builds up to n of what most messages are, from frames[0] on, which is that
 * of job e->jobs. Returns how many. Those behind which nothing waits are sealed. */
unsigned req_only(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);
/* Its steps, for UD too: PSNs for the slot; the packet's payload; the position moves on. */
static inline void req_start_slot(const struct requester *req, struct send_slot *s)
{
    if (!s->started) {
        s->started = true;
        s->first = req->next_psn;
    }
}
bool req_payload(struct engine *e, struct qp *qp, struct send_slot *s, struct tx_job *job,
                 uint8_t *payload, uint32_t len);
/* The same at once, without padding. */
bool req_gather(struct engine *e, struct qp *qp, struct send_slot *s, uint8_t *payload,
                uint32_t len);
void req_advance(struct engine *e, struct qp *qp, struct send_slot *s);
/* req_ud.c: the same for UD: one packet, addressed by the work request. */
bool req_segment_ud(struct engine *e, struct qp *qp, struct tx_job *job);
/* local_op.c: work requests that send nothing: BIND_MW, LOCAL_INV. WC_SUCCESS or why it failed. */
bool op_is_local(uint8_t sqe_op);
uint8_t local_op(struct engine *e, struct qp *qp, const struct sqe *w);
/* Number of bytes and legality of a taken work request: WC_SUCCESS or the status it fails with. */
uint8_t req_check(struct engine *e, struct qp *qp, struct send_slot *s);
uint8_t req_wc_opcode(uint8_t sqe_op);

/* ---- responder ---- */

/* resp_check.c: the order of checks of 9.7.4.1; FAULT_NONE: execute. */
enum fault resp_check(struct engine *e, struct qp *qp, unsigned job);
/* Takes a receive entry into resp->recv, unless one is there that an aborted message left (UC). */
enum fault take_recv(struct engine *e, struct qp *qp, struct srq *xrc_srq);
/* resp_duplicate.c: a request with a PSN before the expected one. */
void resp_duplicate(struct engine *e, struct qp *qp, const struct pkt *p);
/* resp_execute.c */
void resp_rx(struct engine *e, struct qp *qp, unsigned job);
enum fault resp_execute(struct engine *e, struct qp *qp, unsigned job);
struct rx_completion *resp_complete_recv(struct engine *e, struct qp *qp, unsigned job);
void resp_accepted(struct engine *e, struct qp *qp, const struct pkt *p, uint32_t packets);
/*
 * rx_run.c: executes the first frames of f[0..n) if they are what their connection expects next, of
 * the most frequent kinds and into mapped memory. job: the first one's, which it may use. Returns
 * how many it executed. *general: so many after these are not worth another look.
 */
unsigned rx_run(struct engine *e, const struct frame *f, unsigned n, unsigned job,
                unsigned *general);
/* Fetches what rx_run looks at first, when the frames are of many queue pairs. */
void rx_run_prefetch(struct engine *e, const struct frame *f, unsigned n);
/* resp_only.c: the most frequent requests as a whole; false: nothing was done. */
bool resp_only(struct engine *e, struct qp *qp, unsigned job);
/* resp_uc.c, resp_ud.c */
void resp_uc(struct engine *e, struct qp *qp, unsigned job);
void resp_ud(struct engine *e, struct qp *qp, unsigned job);
/* mcast.c: delivers a multicast packet to every member of its group that e owns, and hands it over
 * for the others. */
void mcast_rx(struct engine *e, unsigned job, const struct frame *f);
void mcast_forget(struct engine *e, struct qp *qp);
/* resp_reply.c: whether a reply waits; builds it. False if it turned out that there is none. */
bool resp_has_reply(const struct qp *qp);
/* False: none does. */
static inline bool resp_may_reply(const struct qp *qp)
{
    return qp->resp.ack_pending || qp->resp.res_pending;
}
bool resp_reply(struct engine *e, struct qp *qp, struct tx_job *job);
/* resp_read.c: builds and seals up to n responses to READs that wait; the frames as for req_only.
 * turn: but one if it is of a READ of several. Returns how many. */
unsigned resp_read(struct engine *e, struct qp *qp, struct frame *frames, unsigned n, bool turn);
/* The same for both: the next packet of a READ's reply; and the last one was built. */
static inline uint8_t resp_read_op(const struct resp_resource *r)
{
    bool first = r->next == r->start, last = r->next + 1 == r->packets;

    if (first)
        return last ? OP_READ_RESP_ONLY : OP_READ_RESP_FIRST;
    return last ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
}
/* n more of the resources, at most all. Their count is kept small: where it wraps around, those
 * behind it would be lost, and a connection may have that many READs in minutes. */
static inline void resp_resources_taken(struct responder *resp, uint32_t n)
{
    resp->res_head += n;
    if (resp->res_head >= 2 * resp->res_max)
        resp->res_head -= resp->res_max;
}
static inline void resp_finish_reply(struct responder *resp, struct resp_resource *r)
{
    r->pending = false;
    r->answered = true;
    resp->res_pending--;
}
void resp_reset(struct qp *qp, psn_t first);
/* Records a fault of the responder: what it does is in the fault table. */
void resp_fault(struct engine *e, struct qp *qp, enum fault fault, psn_t at);
/* FAULT_MEMORY, found out late: takes the place of a fault at a later job of this burst. */
void resp_memory_fault(struct engine *e, struct qp *qp, unsigned job);

/* ---- completer ---- */

void comp_rx(struct engine *e, struct qp *qp, unsigned job);
/* comp_ack.c: everything before p is acknowledged. False if that implies that a READ's or
 * atomic's response was lost: the requester has then gone back. */
bool comp_ack_before(struct engine *e, struct qp *qp, psn_t p);
void comp_progress(struct engine *e, struct qp *qp, psn_t una);
void comp_implied_nak(struct engine *e, struct qp *qp, psn_t at);
/* comp_read.c */
void comp_read(struct engine *e, struct qp *qp, unsigned job);
void comp_atomic(struct engine *e, struct qp *qp, unsigned job);
/* The slot whose PSNs include p, or NULL. *count: its number. */
struct send_slot *comp_slot(struct qp *qp, psn_t p, uint32_t *count);

/* ---- settle.c ---- */

void qp_settle(struct engine *e, struct qp *qp);
/* Posts a completion. False: it is lost, and the host was told that the queue is in error. */
bool engine_post(struct engine *e, struct comp_queue *cq, const struct cqe *c, bool solicited);
/* Ends a run of completions, which were written in place. */
void engine_post_run(struct engine *e, struct comp_queue *cq, const struct cq_batch *run,
                     bool solicited);
void qp_enter_error(struct engine *e, struct qp *qp, uint8_t recv_status);
/* UC, UD: a send that failed stops the send queue only. */
void qp_enter_sqe(struct engine *e, struct qp *qp);
/* Completes send requests posted in the send queue error state. */
void qp_flush_sq(struct engine *e, struct qp *qp);
/* Makes sure that one more receive completion can be noted. */
void rx_completion_room(struct engine *e);
/* Posts the receive completions whose bytes are now written. */
void settle_recvs(struct engine *e);
/* Completions of requests posted while in the error state. */
void qp_flush(struct engine *e, struct qp *qp, uint8_t recv_status);

#endif
