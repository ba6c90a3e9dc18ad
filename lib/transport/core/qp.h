/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair, as the folders of the transport see it. Who may write what: ../README.md. */
#ifndef UROCE_QP_H
#define UROCE_QP_H

#include <sys/queue.h>

#include "engine.h"
#include "fault.h"
#include "hdr_template.h"
#include "pkt.h"
#include "req_state.h"
#include "resp_state.h"
#include "timer.h"
#include "why.h"
#include "wr_time.h"

#define QP_MAX_RD_ATOMIC 128  /* per queue pair, each direction */
#define SERVICE_RAW      0xFF /* beside enum pkt_service: raw Ethernet frames, without a BTH */

struct late_owner;
struct rx_spread;
struct share;
struct service_ops;

/* Grouped by reader: the cache lines of a part are those of one side. */
struct qp {
    /* what every packet needs, the responder's first */
    uint32_t qpn;
    uint8_t state; /* enum qp_state */
    uint8_t type;
    uint8_t service;    /* enum pkt_service, SERVICE_RAW */
    bool cnp_due;       /* congestion/cnp.h */
    uint16_t access;    /* enum mem_access, remote rights */
    uint8_t in_tx_list; /* of enum tx_list; 0: it is not */
    bool in_touched;
    /* Responses and requests alternate (tx_turn.c): packets of the responses that were sent last;
     * 0: responses are next. */
    uint8_t resp_last;
    bool comm_est_raised;
    uint8_t quantum_used; /* packets sent of the quantum (tx_burst.c) */
    /* Consecutive packets that one other engine forwarded: see rx_forward.c. */
    uint8_t misplaced_lane;
    uint16_t misplaced_count, misplaced_limit;
    uint32_t pd, mtu;      /* bytes */
    enum fault fault;      /* until qp_complete has acted on it; or FAULT_SUSPENDED (late.h) */
    struct engine *engine; /* the owner; other threads ask by qp_engine */
    struct srq *srq;
    struct comp_queue *recv_cq;
    uint32_t dest_qpn; /* of its packets: QPN_NONE while it is held */
    uint32_t qkey;

    /* what its turns to send, and its completions, need */
    struct comp_queue *send_cq;
    struct share *share; /* of its program, at its engine */
    void *owner;
    TAILQ_ENTRY(qp) tx_link;
    STAILQ_ENTRY(qp) touched_link;
    uint32_t uidx;
    uint32_t turn; /* its last one, of engine.turn */
    /* Its answers went before the others as many times in this engine.round. */
    uint8_t first_round, first_times;
    uint32_t xrcd;
    union { /* one test for both, when work requests of the send queue are done */
        struct {
            bool counts_sends; /* some kind of them has a counter */
            bool times_send;   /* one of them is timed: wr_time */
        };
        uint16_t notes_sends;
    };
    bool sq_sig_all;
    bool selective; /* the peer has agreed on maps of kept packets: kept_map.h */

    struct timer timer; /* TIMER_ACK, TIMER_RNR */
    ns_t ack_timeout;   /* the local ACK timeout; 0: none */
    ns_t ack_wait;      /* what the timer is armed for: that, or less (req_recovery.c) */
    struct cc cc;       /* while it is paced; cc.ops is looked at whenever a packet was timed */
    const struct service_ops *ops;
    struct wq *raw_rq;        /* raw packets: the receive queue; or NULL */
    struct rx_spread *spread; /* raw packets: spreads frames over work queues instead; or NULL */

    CACHE_ALIGNED struct requester req;
    CACHE_ALIGNED struct responder resp;
    /* Connected, and not on a promiscuous port: the headers that the peer's packets have. */
    CACHE_ALIGNED struct hdr_template rx_template;
    CACHE_ALIGNED struct encap_template encap;
    struct qp_counters counters; /* the first ones in the last cache line of encap */

    /* what packets do not need */
    struct address_vector av;
    struct qp_attr attr;
    struct qp_caps caps;
    struct qp_shared *shared;
    ns_t cnp_after;                  /* no CNP before that */
    struct timer pace;               /* TIMER_PACE */
    struct entropy_policy entropy;   /* its own, if own_entropy */
    struct share *shares;            /* its program's, by lane; NULL: the engines' own */
    struct late_owner *late;         /* while it is suspended: fault is FAULT_SUSPENDED then */
    LIST_HEAD(, mcast_member) mcast; /* its memberships, at each engine: rx_mcast.c */
    bool own_entropy;
    bool early_doorbell;                     /* rung before the queue pair was ready to send */
    struct comp_counter *counter[QP_COUNTS]; /* by bit of enum qp_count; or NULL */
    struct qp_table *table;
    struct qp_why why;
    struct wr_time wr_time;
};

_Static_assert(offsetof(struct qp, dest_qpn) < CACHE_LINE, "the batch path reads one line");

/* The owner, as qp_engine: for the packet path. */
static inline struct engine *qp_owner_engine(const struct qp *qp)
{
    return __atomic_load_n(&qp->engine, __ATOMIC_ACQUIRE);
}

/* Services whose packets are acknowledged. */
static inline bool qp_is_reliable(const struct qp *qp)
{
    return qp->service == PKT_RC || qp->service == PKT_XRC;
}

/* An XRC receive side completes into the queue of the SRQ's owner, which may not know the queue
 * pair's index. */
static inline uint32_t qp_completion_uidx(const struct qp *qp)
{
    return qp->type == QPT_XRC_RECV ? CQE_UIDX_NONE : qp->uidx;
}

/* Whether calls of its, or of its raw receive queue's, are under way: see late.h. */
bool qp_has_late(const struct qp *qp);

static inline bool qp_can_receive(const struct qp *qp)
{
    return qp->state >= QPS_RTR && qp->state <= QPS_SQE;
}

/* The states in which requests are sent, and their answers taken. */
static inline bool qp_can_request(const struct qp *qp)
{
    return qp->state == QPS_RTS || qp->state == QPS_SQD;
}

/* Packets of a message, at least one: also of any length that a peer may ask for. */
static inline uint32_t packets_for(uint32_t len, uint32_t mtu)
{
    return len ? ((len - 1) >> __builtin_ctz(mtu)) + 1 : 1;
}

/* Requests that are answered by a response of their own, and keep a resource for it. */
static inline bool kind_has_response(uint8_t kind)
{
    const uint32_t kinds = 1u << KIND_READ_REQUEST | 1u << KIND_CMP_SWP | 1u << KIND_FETCH_ADD |
                           1u << KIND_FLUSH | 1u << KIND_ATOMIC_WRITE;

    return kinds >> kind & 1;
}

#endif
