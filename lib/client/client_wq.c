/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, destroying and modifying work queues for raw packets. */
#include "client_wq.h"

#include <errno.h>
#include <string.h>

#include "client_cq.h"

#define STATE_RESET 0
#define STATE_ERR   2

static struct client_ring_layout rq_layout(const struct ctl_create_wq *r)
{
    return (struct client_ring_layout){r->rq_off, r->size, r->stride, r->max_sge};
}

static bool reply_fits(const struct ctl_msg *reply, const struct client_piece *piece)
{
    const struct ctl_create_wq *r = &reply->create_wq;
    struct client_ring_layout rq = rq_layout(r);

    return r->segment_bytes <= piece->bytes &&
           client_ring_fits(&rq, rqe_stride(rq.max_sge), sizeof(struct qp_shared),
                            r->segment_bytes);
}

static const struct client_queue_kind kind = {
    CTL_CREATE_WQ, CTL_DESTROY_WQ, offsetof(struct ctl_msg, create_wq.place),
    offsetof(struct ctl_msg, create_wq.handle), reply_fits};

/* A work queue that takes its WQEs from a shared receive queue has no memory of its own. */
static int request_wq(struct client *c, struct client_wq *wq, struct ctl_msg *m)
{
    struct client_ring_layout rq;
    struct client_piece piece;
    struct qp_shared *shared;
    int err;

    if (m->create_wq.type == CTL_WQ_SRQ)
        return conn_call(&c->conn, CTL_CREATE_WQ, m, NULL, 0, NULL, 0);
    err = client_queue_create(&c->conn, &c->slabs, &kind, m, &piece);
    if (err)
        return err;
    rq = rq_layout(&m->create_wq);
    shared = piece.base;
    client_ring_use(&wq->half.rq, &rq, shared, &shared->rq_prod);
    return 0;
}

int client_wq_create(struct client *c, struct client_wq *wq, const struct client_qp_uses *uses,
                     struct ctl_create_wq *r)
{
    struct ctl_msg m = {.create_wq = *r};
    int err;

    memset(wq, 0, sizeof(*wq));
    wq->half.client = c;
    wq->half.is_wq = true;
    wq->half.uses = *uses;
    err = slot_table_reserve(&c->qps, &wq->half.uidx);
    if (err)
        return err;
    m.create_wq.uidx = wq->half.uidx;
    err = request_wq(c, wq, &m);
    if (err) {
        slot_table_remove(&c->qps, wq->half.uidx);
        return err;
    }
    *r = m.create_wq;
    wq->half.qpn = r->handle;
    wq->handle = r->handle;
    client_qp_count_cqs(uses, 1);
    slot_table_publish(&c->qps, wq->half.uidx, &wq->half);
    return 0;
}

int client_wq_destroy(struct client_wq *wq)
{
    return client_qp_end(&wq->half, CTL_DESTROY_WQ, wq->handle);
}

static void reset_wq(struct client_wq *wq)
{
    struct client_ring *rq = &wq->half.rq;

    atomic_fetch_add_explicit(&wq->resets, 1, memory_order_relaxed);
    client_cq_clean(wq->half.uses.recv_cq, wq->half.uidx);
    if (rq->entries)
        client_ring_reset(rq);
}

int client_wq_modify(struct client_wq *wq, uint32_t *state)
{
    struct ctl_msg m = {.modify_wq = {.handle = wq->handle, .state = *state}};
    int err = conn_call(&wq->half.client->conn, CTL_MODIFY_WQ, &m, NULL, 0, NULL, 0);

    if (!err && *state == STATE_RESET)
        reset_wq(wq);
    if (err != -EIO && m.modify_wq.state <= STATE_ERR)
        *state = m.modify_wq.state;
    return err;
}
