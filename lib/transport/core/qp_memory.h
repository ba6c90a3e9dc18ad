/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of queue pairs. */
#ifndef UROCE_QP_MEMORY_H
#define UROCE_QP_MEMORY_H

#include "qp.h"

#define SEND_SLOTS_MAX 128u /* messages of a queue pair in flight */

/* Zeroed, with the requester's slots and the responder's receive WQE as init says. NULL: out of
 * memory. */
struct qp *qp_alloc(const struct qp_init *init);
void qp_memory_free(struct qp *qp);

/* RESET: frees what the queue pair got since it was created. No slot or resource is in use. */
void qp_memory_reset(struct qp *qp);

/*
 * All slots are in use: doubles their number if a WQE waits and slot_max permits it, or, for a few
 * queue pairs, what is missing of the oldest message (req_sack.h). False, also when there is no
 * memory: the WQE waits for a slot. Once for each size, so not for each packet.
 */
bool req_grow_slots(struct qp *qp);

#endif
