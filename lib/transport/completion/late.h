/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that do not end in time. The memory of an application may take for ever to answer: its
 * page is a file server's, or waits for a handler of page faults. The host then goes on without the
 * call (struct mem_caller), and the queue pairs whose bytes it moves are suspended: their fault is
 * FAULT_SUSPENDED, so they send nothing, what they receive is dropped as if the network had lost
 * it, and their completions wait. When the host says that the call has ended (engine_call_ended),
 * their CQEs are posted, and requests whose payload was late are built again. All others do not
 * notice.
 */
#ifndef UROCE_LATE_H
#define UROCE_LATE_H

#include "engine_private.h"

/* mem_batch.late: suspends the queue pairs of a call. */
void late_begin(void *engine, struct mem_call *call);

/* A receive CQE of a suspended queue pair waits. */
void late_complete_recv(struct engine *e, const struct rx_completion *c);

/* A copy of a suspended queue pair's request, of this job, has failed. */
void late_note_failed(struct qp *qp, unsigned job, psn_t psn);

/* A suspended queue pair goes to ERR: what waits is flushed. */
void late_abandon(struct engine *e, struct qp *qp);

/* The engine ends: no call will. Its queue pairs are gone. */
void late_free_all(struct engine *e);

/* The queue pair is reset or destroyed. */
void late_forget(struct engine *e, struct qp *qp);

#endif
