/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushing without a daemon; see client_end.h. Locks are taken in this order: completion queue,
 * table of queue pairs, table of shared receive queues, ring. Rings are only tried: a thread may
 * poll between ibv_wr_start and ibv_wr_complete.
 */
#include "client_end.h"

#include <errno.h>
#include <string.h>

#include "cause.h"
#include "client_cq.h"
#include "client_qp.h"
#include "client_srq.h"

/* ---- objects ---- */

/* Calls `visit` for each object, which the lock keeps alive. */
static void for_each(struct slot_table *t, void (*visit)(void *object, void *arg), void *arg)
{
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->used; i++) {
        void *object = atomic_load_explicit(&slot_at(t, i)->object, memory_order_acquire);

        if (object)
            visit(object, arg);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- no more WQEs ---- */

static void end_ring(struct client_ring *r)
{
    if (!spin_trylock(&r->lock))
        return;
    client_ring_end(r);
    spin_unlock(&r->lock);
}

/* In a child, of an object that another thread of the parent was destroying: its segment may be
 * gone, and no thread of the child frees the object. */
static void forget_ring(struct client_ring *r)
{
    if (!r->leaving)
        return;
    r->entries = NULL;
    r->size = r->old_size = 0;
}

static void end_qp(void *object, void *arg)
{
    struct client_qp *qp = object;

    end_ring(&qp->sq);
    end_ring(&qp->rq);
}

static void end_srq(void *object, void *arg)
{
    struct client_srq *srq = object;

    end_ring(&srq->ring);
}

/* ---- a child's rings ---- */

static void visit_alone(struct slot_table *t, void (*visit)(void *object, void *arg))
{
    for (uint32_t i = 0; i < t->used; i++) {
        void *object = atomic_load_explicit(&slot_at(t, i)->object, memory_order_acquire);

        if (object)
            visit(object, NULL);
    }
}

static void go_on_ring(struct client_ring *r)
{
    if (r->size || !r->old_size)
        return;
    r->prod = atomic_load_explicit(r->shared_prod, memory_order_relaxed);
    r->size = r->old_size;
}

static void go_on_qp(void *object, void *arg)
{
    struct client_qp *qp = object;

    go_on_ring(&qp->sq);
    go_on_ring(&qp->rq);
}

static void go_on_srq(void *object, void *arg)
{
    struct client_srq *srq = object;

    go_on_ring(&srq->ring);
}

/* A thread of the parent may have been posting. */
static void pause_ring(struct client_ring *r)
{
    spin_unlock(&r->lock);
    client_ring_end(r);
    forget_ring(r);
}

static void pause_qp(void *object, void *arg)
{
    struct client_qp *qp = object;

    pause_ring(&qp->sq);
    pause_ring(&qp->rq);
}

static void pause_srq(void *object, void *arg)
{
    struct client_srq *srq = object;

    pause_ring(&srq->ring);
}

/* A thread of the parent may have been polling. */
static void free_cq(void *object, void *arg)
{
    struct client_cq *cq = object;

    client_cq_reads(cq, NULL);
    spin_unlock(&cq->lock);
    spin_unlock(&cq->place);
    pthread_mutex_init(&cq->resizing, NULL);
}

void client_rings_pause(struct client *c)
{
    visit_alone(&c->qps, pause_qp);
    visit_alone(&c->srqs, pause_srq);
    visit_alone(&c->cqs, free_cq);
}

void client_rings_go_on(struct client *c)
{
    visit_alone(&c->qps, go_on_qp);
    visit_alone(&c->srqs, go_on_srq);
}

bool client_daemon_gone(struct client *c)
{
    if (!conn_is_ours(&c->conn) && c->conn.inherit)
        c->conn.inherit(&c->conn);
    if (atomic_load_explicit(&c->daemon_gone, memory_order_acquire))
        return true;
    if (!conn_hung_up(&c->conn))
        return false;
    atomic_store_explicit(&c->daemon_gone, true, memory_order_release);
    for_each(&c->qps, end_qp, NULL);
    for_each(&c->srqs, end_srq, NULL);
    return true;
}

/* ---- flushing ---- */

/* Room in the lane from which the next CQE will be read. */
struct flush {
    struct client_cq *cq;
    struct cq_lane *lane;
    uint32_t next, end; /* CQEs */
    bool busy;          /* a ring was locked */
};

static void post_cqe(struct flush *f, const struct cqe *e)
{
    struct cqe *to = &f->lane->entry[f->next & (f->cq->reader.size - 1)];

    memcpy(to, e, offsetof(struct cqe, seq));
    atomic_store_explicit(&to->seq, ++f->next, memory_order_release);
}

static uint64_t wr_id_at(const struct client_ring *r, uint32_t index)
{
    uint64_t id;

    memcpy(&id, r->entries + (size_t)(index & (r->old_size - 1)) * r->stride, sizeof(id));
    return id;
}

/* first: WQEs before it have a completion, which the application has polled; *first belongs to the
 * ring's segment, which may move until the lock is held. e: without wr_id and wqe. */
static void flush_ring(struct flush *f, struct client_ring *r, _Atomic uint32_t *const *first,
                       struct cqe e)
{
    uint32_t prod;

    if (!r->entries || r->leaving)
        return;
    if (!spin_trylock(&r->lock)) {
        f->busy = true;
        return;
    }
    client_ring_end(r);
    if (!r->flushing)
        client_ring_begin_flush(r, atomic_load_explicit(*first, memory_order_relaxed));
    prod = atomic_load_explicit(r->shared_prod, memory_order_relaxed);
    for (; r->next_flush != prod && f->next != f->end; r->next_flush++) {
        e.wr_id = wr_id_at(r, r->next_flush);
        e.wqe = r->next_flush;
        post_cqe(f, &e);
    }
    spin_unlock(&r->lock);
}

static struct cqe flush_error(const struct client_qp *qp, enum wc_opcode opcode)
{
    return (struct cqe){.qpn = qp ? qp->qpn : 0,
                        .uidx = qp ? qp->uidx : CQE_UIDX_NONE,
                        .vendor_err = CAUSE_daemon_ended,
                        .status = WC_WR_FLUSH_ERR,
                        .opcode = (uint8_t)opcode,
                        .vlan = CQE_VLAN_NONE};
}

static void flush_shared(struct flush *f, const struct client_qp *qp)
{
    struct slot_table *table = &qp->client->srqs;
    struct client_srq *srq;

    pthread_mutex_lock(&table->lock);
    srq = slot_table_get(table, qp->uses.srq);
    if (srq)
        flush_ring(f, &srq->ring, &srq->taken, flush_error(qp, WC_RECV));
    pthread_mutex_unlock(&table->lock);
}

static void flush_qp(void *object, void *arg)
{
    struct client_qp *qp = object;
    _Atomic uint32_t *sent = &qp->sq.cons, *received = &qp->rq.cons;
    struct flush *f = arg;

    if (qp->uses.send_cq == f->cq)
        flush_ring(f, &qp->sq, &sent, flush_error(qp, WC_SEND));
    if (qp->uses.recv_cq != f->cq)
        return;
    if (qp->uses.has_srq)
        flush_shared(f, qp);
    else
        flush_ring(f, &qp->rq, &received, flush_error(qp, WC_RECV));
}

/* Receives of an XRC one belong to no queue pair of this context. */
static void flush_xrc_srq(void *object, void *arg)
{
    struct client_srq *srq = object;
    struct flush *f = arg;

    if (srq->cq == f->cq)
        flush_ring(f, &srq->ring, &srq->taken, flush_error(NULL, WC_RECV));
}

/* An empty poll has looked at all lanes, so each has room for `size` CQEs. */
static int flush_all(struct client_cq *cq)
{
    struct cq_reader *r = &cq->reader;
    uint32_t first = r->cons[r->next_lane];
    struct flush f = {.cq = cq,
                      .lane = cq_lane_at(r->shared, r->size, r->next_lane),
                      .next = first,
                      .end = first + r->size};

    for_each(&cq->client->qps, flush_qp, &f);
    for_each(&cq->client->srqs, flush_xrc_srq, &f);
    if (f.next != first)
        return 1;
    return f.busy ? 0 : -EIO;
}

int client_cq_flush(struct client_cq *cq)
{
    int found = 1;

    client_cq_lock(cq);
    if (client_cq_is_leaving(cq))
        found = -EIO;
    else if (!cq_reader_peek(&cq->reader))
        found = flush_all(cq);
    client_cq_unlock(cq);
    return found;
}
