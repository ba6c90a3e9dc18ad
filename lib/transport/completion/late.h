/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that do not end in time. The memory of an application may take for ever to answer: its
 * page is a file server's, or waits for a handler of page faults. The host then goes on without the
 * call (struct mem_caller). The queue pairs whose bytes the call moves are suspended: `late` is
 * set, and their fault is FAULT_SUSPENDED. They send nothing, what they receive is dropped as if
 * the network had lost it, and their completions wait, those of the error state too. When the host
 * says that the call has ended (engine_call_ended), their CQEs are posted, and what they would have
 * sent is built again, whatever their service. All other queue pairs do not notice.
 *
 * A host that has put off too much makes no further call (mem_refuses, -EBUSY): a queue pair that
 * needs one is suspended until there is room (engine_memory_has_room).
 *
 * Work queues for raw packets are suspended, too: they receive nothing, and their CQEs wait.
 */
#ifndef UROCE_LATE_H
#define UROCE_LATE_H

#include "engine_private.h"
#include "mem_call.h"

/* mem_batch.late: suspends the queue pairs and work queues of a call. */
void late_begin(void *engine, struct mem_call *call);

/* This tx_job, behind one of its queue pair whose payload did not come, is not sent: if that one is
 * late this one is built again, too. */
void late_note_unsent(const struct tx_job *job);

/* The host has no room for the call that the payload of this tx_job needs: it is built again
 * later. False: out of memory. */
bool late_wait_to_send(struct engine *e, struct tx_job *job);
/* Nor for one that a received packet needs, which is dropped: the queue pair is suspended.
 * FAULT_SUSPENDED, or another fault: out of memory. */
enum fault late_wait(struct engine *e, struct qp *qp);

/* A receive CQE of a suspended queue pair, or work queue, waits. */
void late_complete_recv(struct engine *e, struct late_owner *owner, const struct rx_completion *c);

/* A copy of a suspended queue pair's request, of this job, has failed. */
void late_note_failed(struct qp *qp, unsigned job, psn_t psn);

/* A suspended queue pair or work queue flushes its WQEs when it resumes. status: of the receive WQE
 * in use. */
void late_flush(struct late_owner *owner, uint8_t status);

/* It is about to be destroyed: when its calls have ended nothing follows. */
void late_stop(struct late_owner *owner);
/* It goes at once, although calls have not ended: they refer to it no more. NULL does nothing. */
void late_forget(struct late_owner *owner);

/* The engine ends: no call will. Its queue pairs are gone. */
void late_free_all(struct engine *e);

#endif
