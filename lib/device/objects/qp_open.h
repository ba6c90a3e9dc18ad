/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further handles of XRC target queue pairs (ibv_open_qp). The queue pair is an object of one
 * session, which has a handle of it. When that session closes its last handle, or ends, the queue
 * pair becomes another session's that has one; so it ends with its last handle.
 *
 * Each handle is charged as a queue pair from the start, with all that the transport may allocate:
 * becoming the owner needs nothing that could be refused.
 */
#ifndef UROCE_DEVICE_QP_OPEN_H
#define UROCE_DEVICE_QP_OPEN_H

#include "objects/qp_object.h"

struct qp_handle {
    struct object o;
    LIST_ENTRY(qp_handle) link; /* qp_object.handles */
    struct qp_object *qp;
    struct xrcd *xrcd; /* of its own session */
    uint32_t uidx;
    uint32_t slot;   /* a doorbell slot for the queue pair */
    uint64_t memory; /* as qp_object.memory */
    bool spent;      /* the queue pair has got the slot and what was charged */
    struct async_wait wait;
};

/* CTL_OPEN_QP. */
int qp_handle_open(struct session *sn, struct ctl_call *call);

/* The queue pair of a number or handle of the session, or NULL. */
struct qp_object *qp_object_reach(struct session *sn, uint32_t number);
/* Whether this number or handle, which is valid, is the queue pair's only one. */
bool qp_handle_is_last(struct session *sn, uint32_t number);
/*
 * Closes a valid number or handle. If the session has no other one, the queue pair becomes another
 * session's; if none has one, the caller frees the queue pair. Returns the slab that was freed, or
 * 0.
 */
uint64_t qp_handle_close(struct session *sn, uint32_t number);
/* Closes the session's handles; a queue pair that then has none stays for qp_free_some. */
bool qp_handles_free_some(struct session *sn, const struct slice *s);

/* Charges the sessions of the other handles for memory that the queue pair may come to allocate. 0
 * or -ENOMEM, and then none is charged. */
int qp_handles_charge(struct qp_object *q, size_t bytes);
void qp_handles_uncharge(struct qp_object *q, size_t bytes);

/* Sends events (bits by enum qp_event) of a queue pair to all that have it. */
void qp_handles_tell(struct qp_object *q, uint32_t events);

#endif
