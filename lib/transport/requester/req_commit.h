/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send window: which WQEs were taken, which PSNs were sent, which are acknowledged. These
 * functions are the only ones that change it, for the batch path, the general path and the
 * completer. The owner worker.
 */
#ifndef UROCE_REQ_COMMIT_H
#define UROCE_REQ_COMMIT_H

#include "engine_private.h"

/*
 * An answer may be late by as much without being lost: nothing was lost yet, and a peer in software
 * may wait for its CPU; and on a path that loses packets.
 */
#define ANSWER_SLACK_FIRST (UINT64_C(1) << 20)
#define ANSWER_SLACK       (UINT64_C(1) << TIMER_TICK_SHIFT)

/* Nothing is sent, the first PSN is `first`; the retry counts are those of the attributes. */
void req_reset(struct qp *qp, psn_t first);

/* The slot of the next WQE, which the caller fills: it has room (slot_count). */
struct send_slot *req_open_slot(struct requester *req);

/* A local operation at the sending position was executed: it has no packet. */
void req_commit_local(struct requester *req);

/* The packet at the sending position was built; asked: it asks for an ACK. After a READ the
 * position is past the PSNs of all its responses. Unreliable packets are complete thereby. */
void req_commit_packet(struct engine *e, struct qp *qp, struct send_slot *s, bool asked);

/* n packets, neither first nor last of their message, were built. ack_asked_psn: of the last packet
 * that asked for an ACK; asked: one of these did. */
void req_commit_segments(struct engine *e, struct qp *qp, unsigned n, psn_t ack_asked_psn,
                         bool asked);

/* n WQEs were taken and sent, a packet each; the last one, `last`, asks for an ACK, and the next
 * PSN is `next`. reads: they are READs or atomics. */
void req_commit_messages(struct engine *e, struct qp *qp, unsigned n, psn_t last, psn_t next,
                         bool reads);

/* All PSNs before una are acknowledged. Nothing else changes: comp_progress decides. */
void req_commit_ack(struct requester *req, psn_t una);

/* A READ or an atomic has all its responses: called while the last one is placed, before
 * comp_progress. */
static inline void req_commit_response(struct requester *req)
{
    req->rd_outstanding -= req->rd_outstanding > 0;
}

/* Its responses are waited for again. */
static inline void req_uncommit_response(struct requester *req)
{
    req->rd_outstanding++;
}

/* As req_commit_response for slot i, which may be about to be sent again: then it does not count.
 */
static inline void req_commit_response_at(struct requester *req, uint32_t i)
{
    if ((int32_t)(i - req->send) < 0)
        req_commit_response(req);
}

/* Moves the sending position to PSN p, from una up to max_psn: packets from there on are sent
 * again. */
void req_rewind(struct qp *qp, psn_t p);

/* Moves the sending position behind all that was sent: it is not sent again after all. */
void req_go_on(struct qp *qp);

/* Moves the sending position to the first packet that is lost (req_sack.h), which is sent alone,
 * and so are the others; then it goes on. */
void req_send_lost(struct qp *qp);

/* UC, UD, raw packets: the packets from PSN p on were not sent after all. Their slots have not
 * completed. */
void req_unsend(struct qp *qp, psn_t p);

/* The slots before `tail` have completed. */
void req_retire(struct requester *req, uint32_t tail);

/* All slots are flushed, sent or not. */
void req_drop_all(struct qp *qp);

/* Whether an ACK or a response was asked for that has not come. */
static inline bool req_answer_is_due(const struct requester *req)
{
    return req->rd_outstanding || !psn_before(req->ack_asked_psn, req->una);
}

/* Whether it is noted when packets ask for an answer: the peer has agreed, and some were lost. */
static inline bool req_notes_asks(const struct qp *qp)
{
    return unlikely(qp->selective) && qp->req.recovery.slack != ANSWER_SLACK_FIRST;
}

/* Starts the ACK timer anew, if the queue pair has one. */
void req_arm_timer(struct engine *e, struct qp *qp);

#endif
