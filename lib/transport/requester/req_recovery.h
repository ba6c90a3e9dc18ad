/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss recovery of the requester: see req_recovery.c. The owner worker. */
#ifndef UROCE_REQ_RECOVERY_H
#define UROCE_REQ_RECOVERY_H

#include "req_commit.h"

/* As many packets of a window ask for an ACK: all, and where packets are lost, since each answer
 * says how much more may be sent. */
#define ASKS           4
#define ASKS_WHEN_LOST 16

/* There is progress from PSN `from` on while req->recovering: measures the round trip, ends probes
 * and refusals. Returns una: what was known to have arrived behind it may be acknowledged now. */
psn_t req_recovered(struct engine *e, struct qp *qp, psn_t from);

/* More is known about what is missing (req_sack.h); news: something has arrived. True: some is
 * lost; it is sent again. */
bool req_lose(struct engine *e, struct qp *qp, bool news);

/* Packets are known to be lost (req_sack_lose): they are sent again at once. */
void req_resend_lost(struct engine *e, struct qp *qp);

/*
 * Much is sent again, though a queue on the way may be full that trims: the next loss would be told
 * of a round trip later, and so on, and others would get nothing through. The window is one packet,
 * and grows with each that arrives; a congestion controller may want less.
 */
void req_start_slowly(struct qp *qp);

/* A peer that has agreed on maps has sent a NAK without one: a map follows, or is asked for. */
void req_await_map(struct engine *e, struct qp *qp);

/*
 * The peer lacks what is at PSN p, from una up to max_psn, and says so: it is sent again, alone if
 * the peer has shown that it keeps what follows a gap, else with all that follows.
 */
void req_send_missing(struct engine *e, struct qp *qp, psn_t p);

/* A response at PSN p, in mid-message, says that it is the last one. Takes it if it answers a
 * probe, which asked for this response alone: the rest is then asked for. Returns whether it does.
 */
bool req_take_probe_answer(struct qp *qp, psn_t p);

/* The peer has acknowledged more than was sent again. */
void req_skip(struct qp *qp);

/* The peer has answered, or all is sent again: the window and the timer are the usual ones. */
void req_end_probes(const struct engine *e, struct qp *qp);

/* The timer fired. True: a probe is sent, or will be; false: the local ACK timeout is over. */
bool req_probe(struct engine *e, struct qp *qp);

#endif
