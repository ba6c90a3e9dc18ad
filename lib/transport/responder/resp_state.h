/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder's half of a queue pair: what it expects, what it owes. */
#ifndef UROCE_RESP_STATE_H
#define UROCE_RESP_STATE_H

#include "mr_check.h"
#include "psn.h"
#include "work_queue.h"

/* The kind of message whose LAST packet has not arrived yet. */
enum resp_op { RESP_IDLE, RESP_SEND, RESP_WRITE };

/* A READ or atomic request that was executed: kept for its reply and for duplicates (9.7.5.1.5). */
struct resp_resource {
    uint8_t kind;  /* KIND_READ_REQUEST, an atomic, FLUSH or ATOMIC WRITE */
    bool pending;  /* a reply has to be sent, for the first time or again */
    bool answered; /* the reply was sent once: a pending one is a repetition */
    bool counted;  /* READ: completion/count.h */
    psn_t first;
    uint32_t packets; /* from `first` to the end of the reply being sent */
    uint32_t all;     /* READ: to the end of the READ, which may have been repeated for a part */
    uint32_t start, next; /* first and next packet of the reply being sent */
    union {
        uint64_t va;       /* READ */
        uint64_t original; /* atomic: the result */
    };
    uint32_t rkey, pd, msn;
    uint32_t len, all_len; /* READ: bytes of these packets */
};

struct resp_store;
struct resp_repeat;

#define RESP_REPEATS 256 /* of a queue pair at a time */

#define RESP_STORE_PACKETS   512 /* kept behind a gap, if the peer is told of each */
#define RESP_STORE_STRANGERS 128 /* else */

struct responder {
    struct work_queue rq;
    uint8_t op;      /* enum resp_op: message in progress; resp_write.c, resp_send.c, resp_uc.c */
    uint8_t counted; /* work that has a counter: enum qp_count */
    /* resp_commit.[ch] alone write these, and res_head below. */
    uint16_t res_pending; /* replies of resources that are owed */
    psn_t epsn;           /* of the request expected next */
    uint32_t msn;
    bool nak_sent;    /* a NAK or RNR NAK for epsn was sent: later PSNs are dropped silently */
    bool refused;     /* and not because others before it are missing */
    bool ack_pending; /* an ACK, RNR NAK or NAK has to be sent */
    uint8_t syndrome;
    psn_t ack_psn;

    bool recv_busy;            /* *recv is in use */
    bool recv_failed;          /* FAULT_MEMORY has its CQE: later receive WQEs are flushed */
    bool urgent;               /* a map, or one of repeats, goes before what else is owed */
    bool shows_map;            /* the next ACK carries a map: the peer sees that there are some */
    struct mr_hint write_hint; /* the region of the last WRITE */
    struct mr_hint recv_hint;  /* the region of the last receive WQE, or response to a READ */
    unsigned failed_job;       /* FAULT_MEMORY on receive: the job of this burst */
    uint32_t recv_index, recv_room;
    uint32_t recv_pd;           /* of the receive WQE: the queue pair's or the SRQ's */
    struct comp_queue *recv_cq; /* where the receive WQE completes */
    uint32_t recv_srqn;         /* XRC: the WQE's SRQ, which may be destroyed before it completes */
    uint64_t recv_serial;
    struct recv_wqe *recv; /* cut to the queue's WQE size */
    uint32_t msg_len;      /* bytes of the message that have arrived */
    uint64_t write_va;
    uint32_t write_rkey, write_left;
    struct resp_resource *res; /* ring of res_max */
    uint32_t res_max;          /* max_dest_rd_atomic */
    uint32_t res_head;         /* resources opened since reset, or those that were copied since
                                  then to another ring: modulo a multiple of res_max */
    struct resp_store *store;  /* what arrived behind a gap (resp_store.c), or NULL */
    uint8_t in_vain;        /* requests that came again though they were not missing, modulo 256 */
    bool map_due;           /* a map has to be sent: resp_owe_map */
    bool owes_losses;       /* a map of losses has to be sent: resp_owe_losses */
    struct engine *watcher; /* has a watch for this queue pair (resp_trim.c); or NULL */
    bool reports;           /* what is executed is told of before its responses: resp_report */
    psn_t reported;         /* up to here it was */
    psn_t report_end;       /* and is until all responses up to here were sent */
    struct resp_repeat *repeats; /* resp_repeat.h: in the order of their arrival */
    struct mr_hint read_hint;    /* the region of the last READ */
    struct mr_hint atomic_hint;  /* the region of the last atomic */
    /* Rounds of repeated requests: sport_request_repeated counts them. */
    uint32_t rounds;
    psn_t round_first, repeated, repeated_epsn;
};

#endif
