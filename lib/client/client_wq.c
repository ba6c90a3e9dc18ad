/* SPDX-License-Identifier: BSD-3-Clause */
#include "client_wq.h"

#include <errno.h>
#include <string.h>

#include "client_cq.h"

#define STATE_RESET 0
#define STATE_ERR   2

static bool reply_sane(const struct ctl_create_wq *r, const struct client_piece *piece)
{
    return is_pow2(r->size) && r->size <= QUEUE_MAX_WR && r->max_sge <= QUEUE_MAX_SGE &&
           r->stride >= rqe_stride(r->max_sge) && r->rq_off >= sizeof(struct qp_shared) &&
           r->segment_bytes <= piece->bytes && r->rq_off <= r->segment_bytes &&
           (uint64_t)r->size * r->stride <= r->segment_bytes - r->rq_off;
}

static void use_segment(struct client_ring *rq, const struct ctl_create_wq *r,
                        struct qp_shared *shared)
{
    rq->entries = (uint8_t *)shared + r->rq_off;
    rq->shared_prod = &shared->rq_prod;
    rq->size = r->size;
    rq->stride = r->stride;
    rq->max_sge = r->max_sge;
}

/* One that takes its entries from a shared receive queue has no memory of its own. */
static int create(struct client *c, struct client_wq *wq, struct ctl_msg *m)
{
    const struct ctl_create_wq *r = &m->create_wq;
    struct client_piece piece;
    int err;

    if (r->type == CTL_WQ_SRQ)
        return conn_call(&c->conn, CTL_CREATE_WQ, m, NULL, 0, NULL, 0);
    err = client_slab_create(&c->conn, &c->slabs, CTL_CREATE_WQ, m, &r->place, &piece);
    if (err)
        return err;
    if (!reply_sane(r, &piece)) {
        client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_WQ, r->handle);
        return -EIO;
    }
    use_segment(&wq->half.rq, r, piece.base);
    return 0;
}

int client_wq_create(struct client *c, struct client_wq *wq, struct ctl_create_wq *r)
{
    struct ctl_msg m = {.create_wq = *r};
    int err;

    memset(wq, 0, sizeof(*wq));
    wq->half.client = c;
    err = slot_table_reserve(&c->qps, &wq->half.uidx);
    if (err)
        return err;
    m.create_wq.uidx = wq->half.uidx;
    err = create(c, wq, &m);
    if (err) {
        slot_table_remove(&c->qps, wq->half.uidx);
        return err;
    }
    *r = m.create_wq;
    wq->handle = r->handle;
    slot_table_publish(&c->qps, wq->half.uidx, &wq->half);
    return 0;
}

int client_wq_destroy(struct client_wq *wq, struct client_cq *cq)
{
    struct client *c = wq->half.client;
    int err = client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_WQ, wq->handle);

    if (err && err != -EIO)
        return err;
    /* Clean before the slot is free, as for queue pairs. */
    client_cq_clean(cq, wq->half.uidx);
    slot_table_remove(&c->qps, wq->half.uidx);
    return err;
}

static void reset(struct client_wq *wq, struct client_cq *cq)
{
    struct client_ring *rq = &wq->half.rq;

    atomic_fetch_add_explicit(&wq->resets, 1, memory_order_relaxed);
    client_cq_clean(cq, wq->half.uidx);
    if (!rq->entries)
        return;
    spin_lock(&rq->lock);
    ring_publish(rq, 0);
    atomic_store_explicit(&rq->cons, 0, memory_order_relaxed);
    spin_unlock(&rq->lock);
}

int client_wq_modify(struct client_wq *wq, struct client_cq *cq, uint32_t *state)
{
    struct ctl_msg m = {.modify_wq = {.handle = wq->handle, .state = *state}};
    int err = conn_call(&wq->half.client->conn, CTL_MODIFY_WQ, &m, NULL, 0, NULL, 0);

    if (!err && *state == STATE_RESET)
        reset(wq, cq);
    if (err != -EIO && m.modify_wq.state <= STATE_ERR)
        *state = m.modify_wq.state;
    return err;
}
