/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair: its rings and its doorbell, which is client_qp_doorbell for sends and
 * client_qp_recv_doorbell for receives.
 */
#ifndef UROCE_CLIENT_QP_H
#define UROCE_CLIENT_QP_H

#include "client.h"
#include "client_ring.h"
#include "doorbell.h"

struct client_cq;

/* Where a queue pair's work completes, and what it receives from. */
struct client_qp_uses {
    struct client_cq *send_cq, *recv_cq; /* may be the same; NULL: it has none */
    bool has_srq;
    uint32_t srq; /* client_srq.uidx */
};

/* A work request that is timed (struct sample_shared): lib/verbs/watch.c. */
struct client_timed {
    _Atomic bool out; /* it is posted, and has no completion yet: then the poller writes, else the
                       * thread that posts */
    uint32_t index, next; /* next: the first one that may be timed after it */
    uint64_t posted, polled, total;
};

struct client_qp {
    struct client_ring sq, rq;
    struct doorbells *doorbells; /* by worker */
    const int *wake_fd;          /* by worker */
    _Atomic uint8_t *worker;     /* that owns it: the dataplane stores it */
    uint32_t db_slot;
    uint32_t max_inline;
    _Atomic uint32_t *rq_notify; /* 1 while receives need a doorbell */
    uint32_t qpn, uidx; /* qpn: the handle, which is not the number of one that was opened */
    uint32_t workers;   /* that have doorbells */
    bool is_wq;         /* a struct client_wq's */
    struct client *client;
    struct client_qp_uses uses; /* under the lock of the table of queue pairs */
    struct client_timed timed;
};

/*
 * Creates a queue pair, which uses these queues, and modifies it unless r->modify.mask is 0.
 * r->create: pd, send_cq, recv_cq, type, sq_sig_all, caps as in the protocol; the reply replaces
 * *r. Returns 0 or a negative errno; r->modify_status does not count there. Completions and events
 * do not find the queue pair before client_qp_publish.
 */
int client_qp_create(struct client *c, struct client_qp *qp, const struct client_qp_uses *uses,
                     struct ctl_create_qp_in *r);

/* Opens an existing XRC target queue pair, which has no rings; r: CTL_OPEN_QP, and its reply. 0 or
 * a negative errno. client_qp_publish as above. */
int client_qp_open(struct client *c, struct client_qp *qp, struct ctl_open_qp *r);

/* To be called once all that events of the queue pair need is initialised: other threads may get
 * them at once. */
void client_qp_publish(struct client_qp *qp);

/*
 * Destroys it and its outstanding completions. Returns 0, also when the daemon is gone; a negative
 * errno of the daemon, and then it still exists; or -EIO: the daemon does not answer, and it is
 * destroyed too.
 */
int client_qp_destroy(struct client_qp *qp);

/* client_qp_destroy with the request and the handle, which are other ones for a work queue. Its
 * outstanding completions go before its slot of the table is free, as the next one may get that. */
int client_qp_end(struct client_qp *qp, enum ctl_type type, uint32_t handle);

/* After the daemon has moved it to RESET: empties its rings, drops its outstanding completions. */
void client_qp_reset(struct client_qp *qp);

/* Adds to the number of users of the completion queues. */
void client_qp_count_cqs(const struct client_qp_uses *uses, int by);

/* Sets its own source port policy; rule 0: the port's. 0 or a negative errno: -EINVAL (no such
 * policy; raw packets). */
int client_qp_set_entropy(struct client_qp *qp, struct ctl_entropy entropy);

/* Wakes a sleeping worker. */
void client_qp_wake(struct client_qp *qp, uint32_t worker);

/* To be called after a ring's producer index has moved. */
static inline void client_qp_doorbell(struct client_qp *qp)
{
    uint32_t worker = atomic_load_explicit(qp->worker, memory_order_relaxed);

    if (unlikely(worker >= qp->workers)) /* nonsense: none is there to hear it */
        return;
    if (doorbell_ring(&qp->doorbells[worker], qp->db_slot))
        client_qp_wake(qp, worker);
}

/* The dataplane loads the index when it needs a receive WQE, except while it flushes. */
static inline void client_qp_recv_doorbell(struct client_qp *qp)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (unlikely(atomic_load_explicit(qp->rq_notify, memory_order_relaxed)))
        client_qp_doorbell(qp);
}

/* Frees the WQEs up to the one that e completes. Under the completion queue's lock. */
static inline void client_qp_retire(struct client_qp *qp, const struct cqe *e)
{
    struct client_ring *r = e->opcode & WC_RECV ? &qp->rq : &qp->sq;

    atomic_store_explicit(&r->cons, e->wqe + 1, memory_order_release);
}

#endif
