/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to late.c and late_end.c. */
#ifndef UROCE_LATE_PRIVATE_H
#define UROCE_LATE_PRIVATE_H

#include "late.h"

/* What a transfer moves. */
enum late_kind { LATE_REQUEST, LATE_RESPONSE, LATE_SEND, LATE_REPLY, LATE_RAW };

/* A transfer of a call: what has to be known when it has ended. */
struct late_part {
    struct late_owner *owner; /* NULL: it needs to know no more */
    LIST_ENTRY(late_part) link;
    enum late_kind kind;
    unsigned job; /* LATE_RAW: the index of its rx_completion */
    uint32_t slot;
    psn_t psn;
};

struct late_call {
    LIST_ENTRY(late_call) link;
    unsigned parts;
    struct late_part part[];
};

/* A receive CQE that waits, and the XRC SRQ that it belongs to. */
struct late_recv {
    struct rx_completion c;
    uint32_t srqn;
    uint64_t serial;
};

/* What was not sent. */
struct late_again {
    bool any;
    psn_t from; /* the first PSN */
};

/* A queue pair or a work queue while it is suspended. */
struct late_owner {
    struct qp *qp;
    struct wq *wq;                /* one of these two */
    LIST_HEAD(, late_part) parts; /* that have not ended */
    bool waits;                   /* for room: on the engine's list */
    LIST_ENTRY(late_owner) waiting;
    bool stopped;      /* nothing follows */
    enum fault before; /* the queue pair's fault, then */
    bool was_error;    /* it was in ERR then */
    struct late_again requests, replies;
    bool failed;         /* a copy for a request or a reply has failed: FAULT_MEMORY follows, */
    psn_t failed_psn;    /* at this PSN; */
    unsigned failed_job; /* receive CQEs of this job and later ones fail */
    bool flush;          /* WQEs are to be flushed, the receive WQE in use with this status */
    uint8_t flush_status;
    unsigned recvs, room;
    struct late_recv *recv;
};

#endif
