/* SPDX-License-Identifier: BSD-3-Clause */
#include "client_srq.h"

#include <errno.h>
#include <string.h>

static bool reply_sane(const struct ctl_create_srq *r, const struct client_piece *piece)
{
    return is_pow2(r->size) && r->size <= QUEUE_MAX_WR && r->max_sge <= QUEUE_MAX_SGE &&
           r->stride >= rqe_stride(r->max_sge) && r->ring_off >= sizeof(struct srq_shared) &&
           r->segment_bytes <= piece->bytes && r->ring_off <= r->segment_bytes &&
           (uint64_t)r->size * r->stride <= r->segment_bytes - r->ring_off;
}

/* Goes over to the segment that the reply describes. */
static void use_segment(struct client_srq *srq, const struct ctl_create_srq *r,
                        struct srq_shared *shared)
{
    srq->taken = &shared->taken;
    srq->max_wr = r->max_wr;
    srq->ring.entries = (uint8_t *)shared + r->ring_off;
    srq->ring.shared_prod = &shared->prod;
    srq->ring.size = r->size;
    srq->ring.stride = r->stride;
    srq->ring.max_sge = r->max_sge;
}

int client_srq_create(struct client *c, struct client_srq *srq, struct ctl_create_srq *r)
{
    struct ctl_msg m = {.create_srq = *r};
    struct client_piece piece;
    int err;

    memset(srq, 0, sizeof(*srq));
    srq->client = c;
    err = slot_table_reserve(&c->srqs, &srq->uidx);
    if (err)
        return err;
    m.create_srq.uidx = srq->uidx;
    err = client_slab_create(&c->conn, &c->slabs, CTL_CREATE_SRQ, &m, &m.create_srq.place, &piece);
    if (err)
        goto release;
    *r = m.create_srq;
    srq->handle = r->handle;
    err = reply_sane(r, &piece) ? 0 : -EIO;
    if (err)
        goto destroy;
    use_segment(srq, r, piece.base);
    slot_table_publish(&c->srqs, srq->uidx, srq);
    return 0;

destroy:
    client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_SRQ, srq->handle);
release:
    slot_table_remove(&c->srqs, srq->uidx);
    return err;
}

int client_srq_destroy(struct client_srq *srq)
{
    struct client *c = srq->client;
    int err = client_slab_destroy(&c->conn, &c->slabs, CTL_DESTROY_SRQ, srq->handle);

    if (err && err != -EIO)
        return err;
    slot_table_remove(&c->srqs, srq->uidx);
    return err;
}

int client_srq_modify(struct client_srq *srq, const struct ctl_modify_srq *rq)
{
    struct ctl_msg m = {.modify_srq = *rq};
    struct client *c = srq->client;
    struct client_piece piece;
    int err;

    m.modify_srq.handle = srq->handle;
    spin_lock(&srq->ring.lock); /* no posting while the entries move */
    err = client_slab_create(&c->conn, &c->slabs, CTL_MODIFY_SRQ, &m, &m.create_srq.place, &piece);
    if (!err && reply_sane(&m.create_srq, &piece))
        use_segment(srq, &m.create_srq, piece.base);
    else if (!err)
        err = -EIO;
    spin_unlock(&srq->ring.lock);
    return err;
}
