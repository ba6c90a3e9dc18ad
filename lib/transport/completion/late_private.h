/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to late.c and late_end.c. */
#ifndef UROCE_LATE_PRIVATE_H
#define UROCE_LATE_PRIVATE_H

#include "late.h"

/* What a transfer moves. */
enum late_kind { LATE_REQUEST, LATE_RESPONSE, LATE_SEND, LATE_REPLY };

/* A transfer of a call: what has to be known when it has ended. */
struct late_part {
    struct qp *qp; /* NULL: it needs to know no more, or the frame was raw */
    enum late_kind kind;
    unsigned job;
    uint32_t slot;
    psn_t psn;
};

struct late_call {
    LIST_ENTRY(late_call) link;
    const struct mem_call *call;
    unsigned parts;
    struct late_part part[MEM_BATCH_MAX];
};

/* A receive CQE that waits, and the XRC SRQ that it belongs to. */
struct late_recv {
    struct rx_completion c;
    uint32_t srqn;
    uint64_t serial;
};

/* Part of a suspended queue pair. */
struct late_qp {
    unsigned parts;      /* that have not ended */
    enum fault before;   /* its fault, then */
    bool send_again;     /* requests were not sent */
    bool failed;         /* a copy for a request or a reply has failed: FAULT_MEMORY follows, */
    psn_t failed_psn;    /* at this PSN; */
    unsigned failed_job; /* receive CQEs of this job and later ones fail */
    unsigned recvs, room;
    struct late_recv *recv;
};

/* Whether the completion queue of a receive CQE is still there: that of an XRC SRQ may have been
 * destroyed. */
bool late_recv_is_alive(const struct engine *e, const struct qp *qp, const struct late_recv *r);

/* Frees qp->late; the fault is `then` now. */
void late_end_suspension(struct qp *qp, enum fault then);

#endif
