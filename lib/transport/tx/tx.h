/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transmit path. tx_burst.c decides which queue pair sends, and how many packets in a row;
 * tx_turn.c builds the next packets of one queue pair.
 */
#ifndef UROCE_TX_H
#define UROCE_TX_H

#include "engine_private.h"

/* Builds the next packets of qp, a batch or a single one: up to n, the first one into frames[0],
 * which is that of job e->jobs. Returns how many; the first e->sealed jobs are ready to be sent. To
 * be called again until qp has had its quantum, or 0 is returned. */
unsigned tx_take_turn(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);

/* Builds qp's next answer, alone and ready to be sent, unless it is a response to a READ. Returns
 * how many: 0 or 1. */
unsigned tx_take_answer(struct engine *e, struct qp *qp, struct frame *frame);

/* Builds answers of qp, at most n: responses, or else as tx_take_answer. Its requests are not
 * looked at. */
unsigned tx_take_answers(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);

/* ---- tx_ceiling.c: engines with a ceiling ---- */

/* How many of n frames may be sent now; 0: not before engine.ceiling_until. */
unsigned tx_ceiling_admit(struct engine *e, unsigned n);
/* Takes a received frame that is not RoCE, if it is a pause frame that is heeded. */
bool tx_ceiling_take(struct engine *e, const struct frame *f);
/* All classes that have work pause. */
void tx_ceiling_wait(struct engine *e);
/* These are sent. */
void tx_ceiling_charge(struct engine *e, const struct frame *frames, unsigned n);

/* ---- tx_ahead.c ---- */

/* Fetches what the queue pairs behind qp in the line need into the cache, which it has left since
 * their last turn. */
void tx_fetch_ahead(const struct engine *e, const struct qp *qp);

/* ---- tx_seal.c ---- */

/* Ends a packet whose payload is there, or is copied now: ICRC, length, counters. */
void tx_seal(struct engine *e, struct tx_job *job);

#endif
