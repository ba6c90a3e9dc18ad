/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's half of a queue pair: what it has sent, what it waits for. */
#ifndef UROCE_REQ_STATE_H
#define UROCE_REQ_STATE_H

#include "psn.h"
#include "work_queue.h"
#include "wqe.h"

struct req_sack;

/* A send WQE that was taken from the send queue and has not completed yet. */
struct send_slot {
    uint32_t index;   /* in the send queue */
    uint32_t len;     /* message bytes */
    uint32_t packets; /* PSNs of the message: a READ has one per response, a local operation none */
    uint32_t done;    /* READ, atomic: responses received */
    psn_t first;
    uint8_t status; /* WC_SUCCESS, or the status that it will complete with */
    bool started;   /* it has its PSNs */
    bool judged;    /* not started: the status is engine_judge_sends()'s */
    uint64_t atomic_value;
    struct send_wqe wqe; /* cut to the queue's WQE size: last */
};

_Static_assert(offsetof(struct send_slot, wqe.h.rkey) < CACHE_LINE, "see qp_memory.c");

/* Whether the peer keeps what arrives behind a gap. In doubt: it did, but the last packet that was
 * sent alone did not suffice. Its neighbour may have been lost, too. */
enum peer_keeps { KEEPS_UNKNOWN, KEEPS_NOT, KEEPS_IN_DOUBT, KEEPS };

/*
 * What is known about the path, and what goes on since something was lost: req_recovery.c. Of it
 * only the round trip is touched, now and then, while all packets arrive and are answered in time.
 */
struct req_recovery {
    /* The round trip. */
    bool timed;       /* an answer to packet timed_psn, sent at timed_at, shows it */
    bool timed_first; /* that packet was sent for the first time */
    bool timed_copy;  /* it had been sent again before */
    psn_t timed_psn;
    psn_t timed_una; /* una at that time */
    ns_t timed_at;
    ns_t rtt, rtt_var; /* smoothed; rtt 0: not known */
    ns_t rtt_min;      /* the shortest */
    ns_t slack;        /* an answer may be later than these say by as much */
    ns_t early;        /* after that an answer came that seemed early, the last one; 0: none */

    /* Waiting for an answer, and probes, which ask for one. */
    uint8_t probes;  /* sent since the last progress */
    psn_t probed;    /* the packet of the probes; behind a READ max_psn, which is beyond all */
    psn_t probe_max; /* max_psn when the first of them was sent */
    ns_t probed_at;  /* when the last of them was sent */
    ns_t give_up;    /* when the local ACK timeout is over that probes are sent in */
    ns_t asked_at;   /* the last packet that asks for an answer was sent then: req_notes_asks */
    ns_t wait;       /* for an answer, when one is asked for: ack_wait may be the rest of it */

    /* What is sent again. */
    psn_t again;             /* behind the last packet that was sent again */
    bool has_response;       /* what was sent again last: no ACK of more will come first */
    bool sent_for_an_answer; /* since a probe was sent, or all again: not because it was lost */
    bool nak_follows;        /* the progress is a NAK's, which says what is missing */
    bool ramps;              /* window_max grows again: req_start_slowly */
    psn_t missing;           /* the packet that the last NAK told of */
    uint32_t flight;         /* packets that are sent in a round trip: those behind a lost one */

    /* A packet is sent alone, to find out whether the peer keeps those behind it. */
    uint8_t peer_keeps; /* enum peer_keeps */
    bool alone;         /* the one at the sending position is, then what is new */
    bool alone_out;     /* that was done, and there is no answer yet */
    psn_t alone_end;    /* behind the last one, which was sent when max_psn was alone_max */
    psn_t alone_max;

    /* A packet of a READ is asked for alone: req_asks_one. */
    bool one_asked; /* una is that packet, `one` */
    bool has_one;   /* the answer has come; the others do not follow it */
    psn_t one;

    /* Maps of what the peer keeps: req_sack.c. */
    bool has_maps;   /* it has sent one */
    bool no_maps;    /* it has agreed on them, but sends none */
    bool awaits_map; /* it has sent a NAK, and no map yet */
    bool reorder_known;
    uint8_t reorder_left; /* as many packets have to be lost before packets arrive in order again */
    uint16_t reorder;     /* packets that may overtake another */
    uint8_t duplicates;   /* of the last map */
    bool duplicates_known;

    /* Trimmed packets: their headers alone have come. */
    bool has_trimmed; /* those of response `trimmed`: comp_trim.c */
    psn_t trimmed;
    uint8_t asks;  /* for trimmed responses, less the progress since: comp_ask_again */
    ns_t told_at;  /* a NAK, or the headers of a response, were believed then */
    ns_t retry_at; /* what is trimmed again and again took a retry then */
};

/* req_commit.c alone writes the counts and PSNs from tail to rd_outstanding. */
struct requester {
    struct work_queue sq;
    uint8_t *slots; /* ring of slot_count slots, slot_stride bytes each */
    uint32_t slot_count, slot_stride;
    /* Counts since reset: tail of completed slots, send of sent ones, head of taken ones.
     * tail <= send <= head. */
    uint32_t tail, head, send;
    uint32_t pkt;            /* next packet of slot `send` */
    psn_t next_psn;          /* of that packet */
    psn_t max_psn;           /* the first PSN that was never sent */
    psn_t una;               /* the oldest unacknowledged PSN */
    psn_t ack_asked_psn;     /* of the last packet that asked for an ACK */
    uint32_t rd_outstanding; /* READs and atomics between tail and send without their response */
    uint32_t window; /* PSNs that may be unacknowledged: window_max, or one while a probe is out */
    union {          /* the reasons to wait: one test for all */
        struct {
            union { /* and for those that may let something through */
                struct {
                    bool paced;    /* congestion/rate.h: qp.cc and qp.pace are in use */
                    bool credited; /* has_credits, but while tx_turn.c heeds it */
                };
                uint16_t held;
            };
            bool rnr_wait; /* the peer was not ready: nothing is sent until the timer fires */
        };
        uint32_t waits;
    };
    uint32_t ask_every; /* packets of a message, the last one asks for an ACK */
    ns_t time_at;       /* a packet is timed when one asks for an ACK after this */
    /* Retries since the last progress; attr.retry_cnt and attr.rnr_retry are the most. */
    uint8_t retries, rnr_retries;
    uint8_t stalls;  /* timeouts since the last answer, or since the source port changed */
    bool recovering; /* RNR wait, one of the two below, a probe, a timed packet: progress ends it */
    bool implied_nak; /* rewound for a lost response; not again before progress */
    bool nak_taken;   /* rewound for a sequence NAK; not again before progress or a timeout */
    bool drained;     /* SQD: the host knows that all started work has completed */
    bool has_credits; /* the last ACK had some: req_credit.h */
    uint32_t window_max;
    /* Where answers come from: comp_source.c. */
    uint16_t peer_sport; /* the UDP source port of the peer's answers; 0: not known */
    uint8_t peer_moves;  /* how many times the peer's port has changed, up to PEER_MOVES_MAX */
    bool stranger;       /* an answer from elsewhere was ignored when stranger_una was oldest */

    struct req_sack *sack; /* what is known about single packets: req_sack.h; or NULL */
    struct req_recovery recovery;
    uint32_t window_full; /* window_max without a congestion controller */
    uint32_t credit_end;  /* the messages that the peer has receives for: those before this slot */
    uint32_t slot_max;    /* slot_count grows up to this */
    psn_t stranger_una;
};

_Static_assert(offsetof(struct requester, send) == CACHE_LINE &&
                   offsetof(struct requester, sack) == 2 * CACHE_LINE,
               "WQEs are in one cache line, what answers need is in the next");

static inline struct send_slot *slot_at(const struct requester *req, uint32_t count)
{
    return (struct send_slot *)(req->slots +
                                (size_t)(count & (req->slot_count - 1)) * req->slot_stride);
}

/* A probe has asked for one packet of a READ. If the READ was lost, the peer has executed that much
 * of it: the packet is asked for alone until it is here. */
static inline bool req_asks_one(const struct requester *req, psn_t p)
{
    return unlikely(req->recovery.one_asked) && psn_eq(p, req->recovery.one);
}

/* From that slot on. */
static inline struct ring_cursor slots_from(const struct requester *req, uint32_t count)
{
    return ring_cursor_at(req->slots, req->slot_count, req->slot_stride, count);
}

/* The last PSN of a message. */
static inline psn_t slot_last(const struct send_slot *s)
{
    return psn_add(s->first, s->packets - 1);
}

/* Whether all PSNs of a message are before una. */
static inline bool slot_is_before(const struct send_slot *s, psn_t una)
{
    return !psn_before(una, psn_add(s->first, s->packets));
}

static inline bool op_is_atomic(uint8_t sqe_op)
{
    return sqe_op == SQE_CMP_SWP || sqe_op == SQE_FETCH_ADD;
}

/* A receive WQE of the peer. */
static inline bool op_takes_receive(uint8_t sqe_op)
{
    return sqe_op == SQE_SEND || sqe_op == SQE_SEND_IMM || sqe_op == SQE_SEND_INV ||
           sqe_op == SQE_WRITE_IMM;
}

static inline bool op_is_read_or_atomic(uint8_t sqe_op)
{
    return sqe_op == SQE_READ || op_is_atomic(sqe_op) || sqe_op == SQE_FLUSH ||
           sqe_op == SQE_ATOMIC_WRITE;
}

#endif
