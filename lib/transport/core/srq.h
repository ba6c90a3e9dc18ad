/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the transport: the shared receive queue. */
#ifndef UROCE_SRQ_H
#define UROCE_SRQ_H

#include "engine.h"

struct srq {
    struct srq_init init; /* wq.cons and limit: under the lock */
    uint32_t limit;       /* 0: not armed */
    atomic_flag lock;
    uint32_t number;
    uint64_t serial; /* no other SRQ of the table ever has the same, and none has 0 */
    struct srq_table *table;
};

/*
 * Takes the next entry. 0; 1 when there is none; -EINVAL when it is malformed (and taken);
 * -EOVERFLOW when the application's index makes no sense. *limit_reached is set only with 0 or
 * -EINVAL. Any worker.
 */
int srq_take(struct srq *srq, struct recv_wqe *wqe, bool *limit_reached);

/* Locks the SRQ. Returns its queue, whose next *pending entries may be looked at. Any worker. */
const struct work_queue *srq_begin(struct srq *srq, unsigned *pending);
/* Takes n of those, and unlocks the SRQ. pending: what srq_begin told. Returns whether its limit
 * has been reached. */
bool srq_end(struct srq *srq, unsigned pending, unsigned n);

#endif
