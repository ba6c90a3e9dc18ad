/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counting for completion counters (comp_counter.h). What is counted, and where:
 *
 *   work requests of the send queue      before they retire, or where they are flushed;
 *                                        signaled or not
 *   receives                             before their CQEs
 *   the peer's WRITEs                    as receives, by rx_completions without a queue: after the
 *                                        bytes of the message
 *   the peer's READs                     when the last response is built, and sealed
 *
 * A CQE that a program reads is counted. A queue pair without a counter pays for it with one test
 * of each batch that completes, and of each message that takes a receive WQE.
 */
#ifndef UROCE_COUNT_H
#define UROCE_COUNT_H

#include "engine_private.h"

/* Work of one kind that is done, and its bytes; or has failed. Nothing without a counter. */
void count_done(struct engine *e, struct qp *qp, enum qp_count what, uint64_t n, uint64_t bytes);
void count_failed(struct engine *e, struct qp *qp, enum qp_count what);

/* The work requests in the slots from `tail` to `end` are done. */
void count_sends(struct engine *e, struct qp *qp, uint32_t tail, uint32_t end);
/* One has failed. */
void count_send_failed(struct engine *e, struct qp *qp, const struct sqe *w);

/* A receive, by its CQE; that of a WRITE with immediate data is a WRITE of the peer's, too. */
void count_recv(struct engine *e, struct qp *qp, const struct cqe *c);

/* n messages of a batch that have their bytes, and get their CQEs next; the peer's WRITEs too, if
 * they are such. */
void count_received(struct engine *e, struct qp *qp, const struct icrc_span *s, unsigned n,
                    bool writes);

/* The frame's, or a batch's job is a WRITE of len bytes that is complete once its bytes are there,
 * and takes no receive WQE. There is room for an rx_completion. */
void count_write_later(struct engine *e, struct qp *qp, unsigned job, uint32_t len);

/* The last response to a READ of the peer was built: it counts once, however often it is answered.
 */
void count_read(struct engine *e, struct qp *qp, struct resp_resource *r);

/* The expected request of the peer is refused for a fault. */
void count_refused(struct engine *e, struct qp *qp, uint8_t kind, enum fault fault);

static inline bool counts(const struct qp *qp, enum qp_count what)
{
    return unlikely(qp->resp.counted & what);
}

#endif
