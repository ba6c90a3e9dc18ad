/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, destroying and resizing shared receive queues. */
#include "client_srq.h"

#include <errno.h>
#include <string.h>

#include "conn_undo.h"

static struct client_ring_layout ring_layout(const struct ctl_create_srq *r)
{
    return (struct client_ring_layout){r->ring_off, r->size, r->stride, r->max_sge};
}

static bool reply_fits(const struct ctl_msg *reply, const struct client_piece *piece)
{
    const struct ctl_create_srq *r = &reply->create_srq;
    struct client_ring_layout ring = ring_layout(r);

    return r->segment_bytes <= piece->bytes &&
           client_ring_fits(&ring, rqe_stride(ring.max_sge), sizeof(struct srq_shared),
                            r->segment_bytes);
}

static const struct client_queue_kind kind = {
    CTL_CREATE_SRQ, CTL_DESTROY_SRQ, offsetof(struct ctl_msg, create_srq.place),
    offsetof(struct ctl_msg, create_srq.handle), reply_fits};

/* From now on the ring is in the segment that the reply describes. */
static void use_segment(struct client_srq *srq, const struct ctl_create_srq *r,
                        struct srq_shared *shared)
{
    struct client_ring_layout ring = ring_layout(r);

    srq->taken = &shared->taken;
    srq->max_wr = r->max_wr;
    client_ring_use(&srq->ring, &ring, shared, &shared->prod);
}

int client_srq_create(struct client *c, struct client_srq *srq, const struct client_cq *cq,
                      struct ctl_create_srq *r)
{
    struct ctl_msg m = {.create_srq = *r};
    struct client_piece piece;
    int err;

    memset(srq, 0, sizeof(*srq));
    srq->client = c;
    srq->cq = cq;
    err = slot_table_reserve(&c->srqs, &srq->uidx);
    if (err)
        return err;
    m.create_srq.uidx = srq->uidx;
    err = client_queue_create(&c->conn, &c->slabs, &kind, &m, &piece);
    if (err) {
        slot_table_remove(&c->srqs, srq->uidx);
        return err;
    }
    *r = m.create_srq;
    srq->handle = r->handle;
    use_segment(srq, r, piece.base);
    slot_table_publish(&c->srqs, srq->uidx, srq);
    return 0;
}

static void set_leaving(struct client_srq *srq, bool leaving)
{
    pthread_mutex_lock(&srq->client->srqs.lock);
    srq->ring.leaving = leaving;
    pthread_mutex_unlock(&srq->client->srqs.lock);
}

int client_srq_destroy(struct client_srq *srq)
{
    struct client *c = srq->client;
    int err;

    set_leaving(srq, true);
    err = client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_SRQ, srq->handle);
    if (err && err != -EIO) {
        set_leaving(srq, false);
        return err;
    }
    slot_table_remove(&c->srqs, srq->uidx);
    return err;
}

int client_srq_modify(struct client_srq *srq, const struct ctl_modify_srq *rq)
{
    struct ctl_msg m = {.modify_srq = *rq};
    struct client *c = srq->client;
    struct client_piece piece;
    int err = rq->mask & CTL_SRQ_MAX_WR ? conn_room() : 0;

    if (err)
        return err;
    m.modify_srq.handle = srq->handle;
    spin_lock(&srq->ring.lock); /* no posting while the WQEs move */
    err = client_slab_create(&c->conn, &c->slabs, CTL_MODIFY_SRQ, &m, &m.create_srq.place, &piece);
    if (!err && reply_fits(&m, &piece))
        use_segment(srq, &m.create_srq, piece.base);
    else if (!err)
        err = -EIO;
    spin_unlock(&srq->ring.lock);
    return err;
}
