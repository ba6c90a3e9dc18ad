/* SPDX-License-Identifier: BSD-3-Clause */
#include "client_qp.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_cq.h"

static bool ring_fits(uint64_t off, uint32_t size, uint32_t stride, uint64_t segment)
{
    return is_pow2(size) && size <= QUEUE_MAX_WR && off <= segment &&
           (uint64_t)size * stride <= segment - off;
}

static bool reply_sane(const struct ctl_create_qp *r, const struct client_piece *piece)
{
    return r->db_slot < DB_SLOTS && r->segment_bytes >= sizeof(struct qp_shared) &&
           r->segment_bytes <= piece->bytes &&
           ring_fits(r->sq_off, r->sq_size, r->sq_stride, r->segment_bytes) &&
           ring_fits(r->rq_off, r->rq_size, r->rq_stride, r->segment_bytes) &&
           r->caps.max_send_sge <= QUEUE_MAX_SGE && r->caps.max_recv_sge <= QUEUE_MAX_SGE &&
           r->sq_stride >= sqe_stride(r->caps.max_send_sge, r->caps.max_inline_data) &&
           r->rq_stride >= rqe_stride(r->caps.max_recv_sge);
}

static void ring_init(struct client_ring *ring, void *entries, _Atomic uint32_t *prod,
                      uint32_t size, uint32_t stride, uint32_t max_sge)
{
    ring->entries = entries;
    ring->shared_prod = prod;
    ring->size = size;
    ring->stride = stride;
    ring->max_sge = max_sge;
}

static void use_segment(struct client_qp *qp, const struct ctl_create_qp *r,
                        struct qp_shared *shared)
{
    qp->rq_notify = &shared->rq_notify;
    ring_init(&qp->sq, (uint8_t *)shared + r->sq_off, &shared->sq_prod, r->sq_size, r->sq_stride,
              r->caps.max_send_sge);
    ring_init(&qp->rq, (uint8_t *)shared + r->rq_off, &shared->rq_prod, r->rq_size, r->rq_stride,
              r->caps.max_recv_sge);
}

int client_qp_create(struct client *c, struct client_qp *qp, struct ctl_create_qp *r)
{
    struct ctl_msg m = {.create_qp = *r};
    struct client_piece piece;
    int err;

    memset(qp, 0, sizeof(*qp));
    qp->client = c;
    err = slot_table_reserve(&c->qps, &qp->uidx);
    if (err)
        return err;
    m.create_qp.uidx = qp->uidx;
    err = client_slab_create(&c->conn, &c->slabs, CTL_CREATE_QP, &m, &m.create_qp.place, &piece);
    if (err)
        goto release;
    *r = m.create_qp;
    err = reply_sane(r, &piece) ? 0 : -EIO;
    if (err)
        goto destroy;
    use_segment(qp, r, piece.base);
    qp->qpn = r->qpn;
    qp->max_inline = r->caps.max_inline_data;
    qp->db_slot = r->db_slot;
    qp->doorbells = c->shared->worker;
    qp->worker = &c->shared->slot_worker[r->db_slot];
    qp->wake = c->wake;
    slot_table_publish(&c->qps, qp->uidx, qp);
    return 0;

destroy:
    client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_QP, r->qpn);
release:
    slot_table_remove(&c->qps, qp->uidx);
    return err;
}

static void clean(struct client_qp *qp, struct client_cq *send_cq, struct client_cq *recv_cq)
{
    if (send_cq)
        client_cq_clean(send_cq, qp->uidx);
    if (recv_cq && recv_cq != send_cq)
        client_cq_clean(recv_cq, qp->uidx);
}

int client_qp_destroy(struct client_qp *qp, struct client_cq *send_cq, struct client_cq *recv_cq)
{
    struct client *c = qp->client;
    int err = client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_QP, qp->qpn);

    if (err && err != -EIO)
        return err;
    /* Clean before the slot is free: the next queue pair may get it. */
    clean(qp, send_cq, recv_cq);
    slot_table_remove(&c->qps, qp->uidx);
    return err;
}

static void ring_reset(struct client_ring *r)
{
    spin_lock(&r->lock);
    ring_publish(r, 0);
    atomic_store_explicit(&r->cons, 0, memory_order_relaxed);
    spin_unlock(&r->lock);
}

void client_qp_reset(struct client_qp *qp, struct client_cq *send_cq, struct client_cq *recv_cq)
{
    clean(qp, send_cq, recv_cq);
    ring_reset(&qp->sq);
    ring_reset(&qp->rq);
}

int client_qp_set_entropy(struct client_qp *qp, struct ctl_entropy entropy)
{
    struct ctl_msg m = {.set_entropy = {.qpn = qp->qpn, .entropy = entropy}};

    return conn_call(&qp->client->conn, CTL_SET_ENTROPY, &m, NULL, 0, NULL, 0);
}

void client_qp_wake(struct client_qp *qp, uint32_t worker)
{
    _Atomic uint32_t *word = &qp->wake->worker[worker].word;

    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
