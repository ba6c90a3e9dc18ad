/* SPDX-License-Identifier: BSD-3-Clause */
/* The transmit path: tx_burst.c lets queue pairs take turns, tx_turn.c fills one turn. */
#ifndef UROCE_TX_H
#define UROCE_TX_H

#include "engine_private.h"

/* Builds up to n packets of qp, the first one into frames[0], which is that of job e->jobs. Returns
 * how many; the first e->sealed jobs are ready to be sent. */
unsigned tx_take_turn(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);

/* Ends a packet whose payload is there, or is copied now: ICRC, length, counters. */
void tx_seal(struct engine *e, struct tx_job *job);

#endif
