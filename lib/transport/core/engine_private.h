/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine, as the folders of the transport see it: its lists, and the jobs of the call in
 * progress.
 *
 * The folders of the packet path post no CQE and change no queue pair's state themselves: they
 * record a fault, a slot's status or an acknowledged PSN. complete.c turns these records into CQEs
 * in order and into changes of state: once per call into the engine, after all memory has been
 * moved. Receive CQEs are posted before that, in one of two ways. resp_send.c posts those of a
 * batch of SENDs, whose bytes it has just copied. complete_recvs posts all others once queued
 * copies are done: at the end of a received burst, or earlier when engine.completion is full.
 */
#ifndef UROCE_ENGINE_PRIVATE_H
#define UROCE_ENGINE_PRIVATE_H

#include "mem_batch.h"
#include "qp.h"
#include "share.h"

/* Whether the payload of a frame could be read. */
enum job_failed { JOB_GOOD, JOB_FAILED, JOB_LATE /* not in time: late.h */ };

/* A frame being built in this call. */
struct tx_job {
    struct frame *frame;
    struct qp *qp;
    const struct encap_template *encap; /* NULL: a raw frame, of bth_len bytes */
    uint16_t bth_len;                   /* BTH through ICRC */
    bool is_reply;                      /* READ response: a payload that fails is the responder's */
    uint8_t failed;                     /* enum job_failed */
    uint32_t slot;                      /* request: count of its slot; reply: 1 + index of the
                                           resource to count when it is sealed, or 0 */
    psn_t psn;
    const uint8_t *source; /* the payload, if it is copied when the packet is sealed; or NULL */
    uint32_t source_len;
};

/* A received packet that is processed in this call. rx_general.c fills it in for a frame,
 * rx_batch_queue.c for a packet of a batch, resp_reorder.c for one that was kept. */
struct rx_job {
    struct encap_view view;
    struct pkt pkt;
    struct qp *qp;
    struct engine *owner; /* qp's, as it was looked up */
    struct srq *srq;      /* XRC: the one that the packet names */
    uint8_t grh[40];      /* UD: what is written before the payload */
    bool is_response;
    bool matched;     /* the headers match the template: sent by the peer, to the right address */
    bool copy_failed; /* since: some of its bytes could not be written */
    uint32_t slot;    /* since: response: count of the slot that its payload belongs to */
};

/* A receive completion that waits until its message's bytes are written; or a WRITE of the peer
 * that is counted then (completion/count.h). */
struct rx_completion {
    struct wq *wq; /* of a raw packet; qp and solicited have no meaning then */
    bool failed;   /* some of its bytes could not be written */
    struct qp *qp;
    struct comp_queue *cq; /* NULL: of a raw packet, or of a WRITE that is counted only (count.h) */
    unsigned job;
    bool solicited;
    struct cqe cqe;
};

/* The tag of a queued copy is its rx_job, or, from RX_TAG_RAW on, a raw packet's rx_completion. */
#define RX_TAG_RAW FRAME_BURST

/* A copy from or to an application's memory that failed, for its incident. */
struct failed_copy {
    uint64_t addr; /* in the numbers of work requests */
    uint32_t len, key;
    int32_t status;
    bool out;
};

struct mcast_group;
struct late_call;
struct late_owner;
LIST_HEAD(late_list, late_call);
LIST_HEAD(late_waiting_list, late_owner);
STAILQ_HEAD(qp_touched_list, qp);
STAILQ_HEAD(wq_touched_list, wq);

#define RX_DIRECT -1

/* A traffic class: the parent of its users' shares. */
struct class_share {
    struct share share;
    uint64_t time; /* of those that share by bytes: share_class.c */
};

/* While engine.cold: the messages of a queue pair's turn that something is fetched ahead for.
 * Further lines of a ring follow in order, which processors foresee. */
#define FETCH_MESSAGES 4u

#define LOSS_WATCHES 64 /* queue pairs without a store, whose next request may be lost */

struct engine {
    struct engine_config cfg;
    ns_t now;
    uint32_t max_window;
    int rx_from; /* during a receive call: the lane that forwarded the frames, or RX_DIRECT */
    struct share shares;              /* of its users; the queue pairs in their lists: */
    struct share own[QOS_PRIORITIES]; /* by class: of queue pairs that were created without one */
    struct share *sole; /* the program that has no competitor, if known: its credit is not kept */
    unsigned ready_qps; /* those that may have a packet to send, or work to flush */
    uint8_t round;      /* changes when those that waited have had a turn, or none waits */
    bool cold;          /* what the last turn needs had left the cache: many others had one since */
    unsigned round_left;            /* turns until then */
    uint32_t turn;                  /* counts the queue pairs that have had a turn, modulo 2^32 */
    struct qp_touched_list touched; /* queue pairs to complete before this call returns */
    struct wq_touched_list touched_wqs;
    struct timer_wheel wheel;
    struct mcast_group **mcast; /* groups with members, in the order of their GIDs: rx_groups.c */
    unsigned mcast_groups;
    uint16_t ip_id;
    struct engine_counters counters;
    struct trace trace;
    struct incidents incidents;
    struct failed_copy failed_copy[FRAME_BURST]; /* by tag; len 0: none that is not told of */

    struct resp_store *store[ENGINE_REORDER_MAX];
    struct kept_room *room_free; /* for payloads of what is kept: resp_store.c */
    struct room_block *room_block;
    uint16_t lent[LOANS]; /* loan.c */
    struct loan *loan_free[LOANS];
    unsigned stores_used; /* by queue pairs with a gap; and watches */
    struct loss_watch {   /* resp_watch.c */
        struct qp *qp;
        struct share *borrower;
        psn_t lost;
        ns_t since;
    } watch[LOSS_WATCHES];
    unsigned watches;

    struct mr_cache mrs;
    struct mem_batch batch;           /* copies that are queued */
    struct late_list late;            /* those that have not ended in time */
    struct late_waiting_list waiting; /* suspended until the host has room for their calls */
    bool copies_failed;               /* some rx_job has copy_failed */
    bool charge_faults;               /* engine_charge_faults() */
    uint64_t faults_spent;            /* on page faults, in this call of engine_tx */
    ns_t ceiling_until;               /* the port's ceiling (ceiling.h) holds frames back; or 0 */
    uint32_t longest_frame;           /* with a ceiling: that was sent */
    unsigned jobs;                    /* packets built in this call */
    unsigned sealed; /* this many, from the first on, are ready: tx_job has the others */
    struct tx_job tx_job[FRAME_BURST];
    struct encap_template cnp_encap[FRAME_BURST]; /* of those jobs that are CNPs */
    struct rx_job rx_job[FRAME_BURST];
    /* Engines that got the frame which is being processed. */
    struct engine *forwarded_to[CQ_MAX_LANES];
    unsigned forwarded;
    unsigned completions;
    struct rx_completion completion[FRAME_BURST];
    unsigned cqs;
    struct comp_queue *cq[2 * FRAME_BURST]; /* posted to in this call */
    struct class_share class[QOS_PRIORITIES];
    unsigned class_mask; /* had work when it was looked at last */
    unsigned class_now;  /* whose turn it is */
    unsigned classes_paused;
    uint64_t class_time;
    struct {
        send_judge *status; /* engine_judge_sends(); or NULL */
        void *ctx;
    } judge;
    _Atomic bool times_sends; /* engine_time_sends() */
    struct latency_histogram latency[LATENCY_STAGES];
};

/* ---- core/share.c ---- */

/* A share that is no other's: the engine's. */
void share_init_root(struct share *s);
/* s has got work. */
void share_list_up(struct share *s);
static inline bool share_has_credit(const struct share *s)
{
    return (int64_t)(s->granted - counter_get(&s->spent)) > 0;
}

/* Charges what s has spent to its user and the engine, too. */
void share_pass_on(struct share *s);
/* No program is engine.sole from now on, while page faults are charged. */
void share_keep_credit(struct engine *e);
/* The program whose queue pairs send next, when some queue pair is ready; engine.sole, if no other
 * program has work. NULL: as share_next_class(). */
struct share *share_next(struct engine *e);

/* The classes of an engine, if it has any. */
void share_init_classes(struct engine *e);

/* ---- core/share_class.c: engines with traffic classes ---- */

/* The class that sends next: some queue pair is ready. NULL: those that have work pause. */
struct share *share_next_class(struct engine *e);
/* Its turn was as many bytes. */
void share_class_sent(struct engine *e, uint64_t bytes);

/* ---- core/qp_class.c ---- */

/* The share of qp's program at e, in qp's class; and the first one, which is not of a class. */
struct share *share_of(struct engine *e, const struct qp *qp);
struct share *share_first(struct engine *e, const struct qp *qp);
/* qp has another service level, or another next datagram. True: its class is another one now. */
bool share_set_class(struct engine *e, struct qp *qp);

/* ---- */

/* The quantum: packets that a queue pair sends, in one call or several, before the next one may. */
#define TX_QUANTUM 16

/* Why a queue pair is among those that may have a packet to send: its share's qps. */
enum tx_list {
    TX_LIST_ANSWER = 1, /* answers go first; if this is all, there is no other packet */
    TX_LIST_TURN = 2,
};

/* qp may have a packet to send. */
static inline void engine_tx_ready(struct engine *e, struct qp *qp)
{
    struct share *s = qp->share;
    bool listed = qp->in_tx_list;

    qp->in_tx_list |= TX_LIST_TURN;
    if (listed)
        return;
    qp->quantum_used = 0;
    e->ready_qps++;
    TAILQ_INSERT_TAIL(&s->qps, qp, tx_link);
    if (!s->listed)
        share_list_up(s);
}

/* Times that a queue pair's answers go before the others in a round: a burst may end in the midst
 * of what its peer has sent, and the other half is answered by itself. */
#define FIRST_IN_ROUND 2

static inline bool may_go_first(const struct engine *e, const struct qp *qp)
{
    return qp->first_round != e->round || qp->first_times < FIRST_IN_ROUND;
}

static inline void note_first(const struct engine *e, struct qp *qp)
{
    qp->first_times = qp->first_round == e->round ? qp->first_times + 1 : 1;
    qp->first_round = e->round;
}

/*
 * qp owes answers of `packets` packets: an ACK, a NAK or responses. If it has nothing else to send
 * and they are few, they go first: the peer waits, and what is known about qp is in the cache now.
 * It has no more packets then. Those that go first are no more packets than what the share's queue
 * pairs send in their turns, so that neither requests nor older answers wait for a flood to end;
 * and a queue pair goes first twice in a round at most, else one whose peer asks again at once
 * would leave nothing to those whose turn has yet to come.
 */
static inline void engine_tx_answer(struct engine *e, struct qp *qp, uint32_t packets)
{
    unsigned left = qp->in_tx_list ? qp->quantum_used : TX_QUANTUM;
    struct share *s = qp->share;

    if (qp->in_tx_list & TX_LIST_TURN)
        return;
    if (packets > min_of(s->answers_first, left) || (!qp->in_tx_list && !may_go_first(e, qp))) {
        engine_tx_ready(e, qp);
        return;
    }
    s->answers_first -= packets;
    qp->quantum_used = (uint8_t)(left - packets);
    if (qp->in_tx_list)
        return;
    qp->in_tx_list = TX_LIST_ANSWER;
    note_first(e, qp);
    e->ready_qps++;
    TAILQ_INSERT_HEAD(&s->qps, qp, tx_link);
    if (!s->listed)
        share_list_up(s);
}

/* qp has none. */
static inline void engine_tx_idle(struct engine *e, struct qp *qp)
{
    if (!qp->in_tx_list)
        return;
    qp->in_tx_list = 0;
    if (!--e->ready_qps) {
        e->round_left = 0;
        e->round++;
    }
    TAILQ_REMOVE(&qp->share->qps, qp, tx_link);
}

/* engine_complete looks at qp before this call into the engine returns. */
static inline void engine_touch(struct engine *e, struct qp *qp)
{
    if (!qp->in_touched) {
        qp->in_touched = true;
        STAILQ_INSERT_TAIL(&e->touched, qp, touched_link);
    }
}

/* An unusual event: trace.h. */
static inline void note(struct engine *e, const struct qp *qp, enum trace_event event, uint32_t a,
                        uint32_t b)
{
    trace_put(&e->trace, e->now, event, qp ? qp->qpn : 0, a, b);
}

/* What page faults have cost since the last call; 0 where they are not charged. A call that begins
 * a call of the engine leaves out what was before. */
static inline uint64_t fault_cost(struct engine *e)
{
    return unlikely(e->charge_faults) ? e->cfg.host.fault_time(e->cfg.host.ctx) * COST_NS : 0;
}

/* Charges those of memory that packets of others have reached. */
static inline void charge_received_faults(struct engine *e, struct qp *qp)
{
    if (unlikely(e->charge_faults))
        share_charge_caused(qp->share, fault_cost(e));
}

/* A received frame, or a packet, is dropped. */
static inline void engine_drop(struct engine *e, enum drop reason, uint32_t qpn)
{
    counter_inc(&e->counters.drop[reason]);
    trace_put(&e->trace, e->now, TRACE_DROP, qpn, reason, 0);
}

/* The length of a packet that was built in this call. Raw frames have no headers but their own. */
static inline uint32_t tx_job_bytes(const struct engine *e, const struct frame *f, unsigned job)
{
    const struct tx_job *j = &e->tx_job[job];

    return job < e->sealed ? f->len : j->bth_len + (j->encap ? (uint32_t)j->encap->len : 0);
}

/* Packets of qp are sent. */
static inline void tx_count(struct engine *e, struct qp *qp, uint8_t priority, unsigned packets,
                            uint64_t bytes)
{
    counter_add(&e->counters.tx_packets[priority], packets);
    counter_add(&e->counters.tx_bytes[priority], bytes);
    counter_add(&qp->counters.tx_packets, packets);
    counter_add(&qp->counters.tx_bytes, bytes);
    counter_add(&qp->share->spent, packets * COST_PACKET + bytes);
}

#endif
