/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair: its rings and its doorbell. Posting is
 *     lock; for each entry: ring_room, fill ring_slot(i), i++; ring_publish; bell; unlock
 * where the bell is client_qp_doorbell for sends and client_qp_recv_doorbell for receives.
 */
#ifndef UROCE_CLIENT_QP_H
#define UROCE_CLIENT_QP_H

#include "client.h"
#include "doorbell.h"

struct client_cq;

struct client_ring {
    struct spin lock;
    uint32_t prod; /* under lock */
    uint32_t size, stride, max_sge;
    uint8_t *entries;
    _Atomic uint32_t *shared_prod;
    /* Entries before it are free again. Stored when a completion is polled. */
    CACHE_ALIGNED _Atomic uint32_t cons;
};

struct client_qp {
    struct client_ring sq, rq;
    struct doorbells *doorbells; /* one per worker */
    struct wake_shared *wake;
    _Atomic uint8_t *worker; /* which one: the dataplane's word */
    uint32_t db_slot;
    uint32_t max_inline;
    _Atomic uint32_t *rq_notify; /* 1 while receives need a doorbell too */
    uint32_t qpn, uidx;
    struct client *client;
};

/*
 * Creates a queue pair. r: pd, send_cq, recv_cq, type, sq_sig_all, caps as in the protocol; the
 * reply replaces it. Returns 0 or a negative errno.
 */
int client_qp_create(struct client *c, struct client_qp *qp, struct ctl_create_qp *r);

/*
 * Destroys it and its outstanding completions in the two queues (which may be the same). Returns 0;
 * a negative errno of the daemon, and then it still exists; or -EIO when the daemon is gone, and
 * then it is destroyed all the same. A queue that it does not have is NULL.
 */
int client_qp_destroy(struct client_qp *qp, struct client_cq *send_cq, struct client_cq *recv_cq);

/* After the daemon has moved it to RESET: empties the rings and drops its outstanding completions.
 */
void client_qp_reset(struct client_qp *qp, struct client_cq *send_cq, struct client_cq *recv_cq);

/* Gives it a source port policy of its own, or with rule 0 the port's again. 0 or a negative errno:
 * -EINVAL (no such policy; raw packets). */
int client_qp_set_entropy(struct client_qp *qp, struct ctl_entropy entropy);

/* Wakes a worker that sleeps. */
void client_qp_wake(struct client_qp *qp, uint32_t worker);

/* Says that a ring's index has moved. */
static inline void client_qp_doorbell(struct client_qp *qp)
{
    uint32_t worker = atomic_load_explicit(qp->worker, memory_order_relaxed);

    if (doorbell_ring(&qp->doorbells[worker], qp->db_slot))
        client_qp_wake(qp, worker);
}

/* The dataplane looks for receives by itself, except while it flushes. */
static inline void client_qp_recv_doorbell(struct client_qp *qp)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (unlikely(atomic_load_explicit(qp->rq_notify, memory_order_relaxed)))
        client_qp_doorbell(qp);
}

static inline bool ring_room(const struct client_ring *r, uint32_t prod)
{
    return prod - atomic_load_explicit(&r->cons, memory_order_acquire) < r->size;
}

static inline void *ring_slot(const struct client_ring *r, uint32_t index)
{
    return r->entries + (size_t)(index & (r->size - 1)) * r->stride;
}

static inline void ring_publish(struct client_ring *r, uint32_t prod)
{
    r->prod = prod;
    atomic_store_explicit(r->shared_prod, prod, memory_order_release);
}

/* Takes a completion into account. Under the completion queue's lock. */
static inline void client_qp_retire(struct client_qp *qp, const struct cqe *e)
{
    struct client_ring *r = e->opcode & WC_RECV ? &qp->rq : &qp->sq;

    atomic_store_explicit(&r->cons, e->wqe + 1, memory_order_release);
}

#endif
