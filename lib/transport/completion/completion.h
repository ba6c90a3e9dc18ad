/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion: what happened to queue pairs during a call into the engine becomes CQEs, in order,
 * and changes of state. complete.c is called once, at the end of the call.
 */
#ifndef UROCE_COMPLETION_H
#define UROCE_COMPLETION_H

#include "engine_private.h"
#include "invariant.h"

/* ---- post.c: posting CQEs; who fills them in: "a field of the CQE" in ../README.md ---- */

/* Posts a CQE. False: it is lost, and the host was told that the queue is in error. */
bool engine_post(struct engine *e, struct comp_queue *cq, const struct cqe *c, bool solicited);
/* Ends a batch of CQEs, which were written in place. (By value: the caller keeps it in registers.)
 */
void engine_post_batch(struct engine *e, struct comp_queue *cq, struct cq_batch batch,
                       bool solicited);
/* A queue pair's CQE; one that does not fit is lost, and that is a fault (C11-39). */
void qp_post(struct engine *e, struct qp *qp, struct comp_queue *cq, const struct cqe *c,
             bool solicited);
/* The CQE of one send WQE; with WC_SUCCESS only if the application has asked for it. For WQEs that
 * fail or are flushed, and where the completion queue seems full: complete.c writes the CQEs of all
 * others in place. */
void qp_post_send(struct engine *e, struct qp *qp, const struct sqe *w, uint32_t index,
                  uint32_t len, uint8_t status);
/* Raises the events of the completion queues that were posted to, once per call: the arming
 * protocol needs one fence for all CQEs before it. */
void engine_raise_cq_events(struct engine *e);

/* ---- why_send.c: the cause of a failure (why.h), before its CQE is posted ---- */

/* The send WQE in s has failed. */
void why_send_failed(struct engine *e, struct qp *qp, const struct send_slot *s);
/* The queue pair goes to the error state. */
void why_faulted(struct engine *e, struct qp *qp, enum fault fault);

/* ---- why_answer.c ---- */

/* Why the peer does not answer. */
struct why why_no_answer(const struct engine *e, const struct qp *qp);

/* ---- moderation.c ---- */

/* cq_take_event of a queue whose events may wait. */
bool cq_take_moderated(struct engine *e, struct comp_queue *cq, struct cq_moderation *m);
/* A completion has waited for as long as it may. */
void cq_timer(struct engine *e, struct timer *t);

/* ---- flush.c ---- */

/* A suspended queue pair flushes its WQEs when it resumes; so does qp_flush. */
void qp_enter_error(struct engine *e, struct qp *qp, uint8_t recv_status);
/* The event of that, when the WQEs are flushed. */
void qp_raise_last_wqe(struct engine *e, struct qp *qp);
/* UC, UD: a send that failed stops the send queue only. */
void qp_enter_sqe(struct engine *e, struct qp *qp);
/*
 * Completes WQEs posted in the error state as flushed. recv_status: of a receive WQE in use. A
 * part of a long queue is left to qp_flush_more: its queue pair takes turns with others.
 */
void qp_flush(struct engine *e, struct qp *qp, uint8_t recv_status);
/* The same for the send queue alone, as in the send queue error state. */
void qp_flush_sq(struct engine *e, struct qp *qp);
/* Goes on with it in that state, and does nothing in others. */
void qp_flush_more(struct engine *e, struct qp *qp);
/* Before the send queue error state ends: all that was posted in it. */
void qp_flush_sq_all(struct engine *e, struct qp *qp);
/* The same for the receive queue of a service other than raw packets: flush_recv of service.c. */
void qp_flush_rq(struct engine *e, struct qp *qp, uint8_t status);
/* How many WQEs of a queue of qp's to flush now. For those that are left qp gets another turn. */
int qp_flush_turn(struct engine *e, struct qp *qp, const struct work_queue *q);

/* ---- complete_recv.c ---- */

/* Posts the receive CQEs whose bytes are written now. */
void complete_recvs(struct engine *e);
/* Posts one of them. */
void complete_recv(struct engine *e, struct rx_completion *c);
/* Makes room for one more receive CQE that waits for its bytes: before each packet of the general
 * path. A batch is admitted with no more packets than there is room for. */
void rx_completion_room(struct engine *e);
/* The next one: there is room. */
static inline struct rx_completion *rx_completion_take(struct engine *e)
{
    invariant(e->completions < ARRAY_SIZE(e->completion));
    return &e->completion[e->completions++];
}

/* ---- complete.c ---- */

/* Turns what was recorded for every touched queue pair into CQEs and states; raises the events. */
void engine_complete_touched(struct engine *e);
static inline void engine_complete(struct engine *e)
{
    if (!STAILQ_EMPTY(&e->touched) || !STAILQ_EMPTY(&e->touched_wqs) || e->cqs)
        engine_complete_touched(e);
}

#endif
