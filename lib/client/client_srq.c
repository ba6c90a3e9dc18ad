/* SPDX-License-Identifier: BSD-3-Clause */
#include "client_srq.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static bool reply_sane(const struct ctl_create_srq *r)
{
    return is_pow2(r->size) && r->size <= QUEUE_MAX_WR && r->max_sge <= QUEUE_MAX_SGE &&
           r->stride >= rqe_stride(r->max_sge) && r->ring_off >= sizeof(struct srq_shared) &&
           r->ring_off <= r->segment_bytes &&
           (uint64_t)r->size * r->stride <= r->segment_bytes - r->ring_off;
}

/* Goes over to the segment that the reply describes. */
static int map_segment(struct client_srq *srq, const struct ctl_create_srq *r, int fd)
{
    struct srq_shared *shared = client_map(fd, r->segment_bytes);

    if (!shared)
        return -EIO;
    if (srq->segment)
        munmap(srq->segment, srq->bytes);
    srq->segment = shared;
    srq->bytes = r->segment_bytes;
    srq->taken = &shared->taken;
    srq->max_wr = r->max_wr;
    srq->ring.entries = (uint8_t *)shared + r->ring_off;
    srq->ring.shared_prod = &shared->prod;
    srq->ring.size = r->size;
    srq->ring.stride = r->stride;
    srq->ring.max_sge = r->max_sge;
    return 0;
}

int client_srq_create(struct client *c, struct client_srq *srq, struct ctl_create_srq *r)
{
    struct ctl_msg m = {.create_srq = *r};
    int fd, err;

    memset(srq, 0, sizeof(*srq));
    srq->client = c;
    err = slot_table_reserve(&c->srqs, &srq->uidx);
    if (err)
        return err;
    m.create_srq.uidx = srq->uidx;
    err = conn_call(&c->conn, CTL_CREATE_SRQ, &m, NULL, 0, &fd, 1);
    if (err)
        goto release;
    *r = m.create_srq;
    srq->handle = r->handle;
    err = reply_sane(r) ? map_segment(srq, r, fd) : -EIO;
    if (err)
        goto destroy;
    slot_table_publish(&c->srqs, srq->uidx, srq);
    return 0;

destroy:
    conn_call_handle(&c->conn, CTL_DESTROY_SRQ, srq->handle);
release:
    slot_table_remove(&c->srqs, srq->uidx);
    return err;
}

int client_srq_destroy(struct client_srq *srq)
{
    int err = conn_call_handle(&srq->client->conn, CTL_DESTROY_SRQ, srq->handle);

    if (err && err != -EIO)
        return err;
    slot_table_remove(&srq->client->srqs, srq->uidx);
    munmap(srq->segment, srq->bytes);
    return err;
}

int client_srq_modify(struct client_srq *srq, const struct ctl_modify_srq *rq)
{
    struct ctl_msg m = {.modify_srq = *rq};
    bool resize = rq->mask & CTL_SRQ_MAX_WR;
    int fd, err;

    m.modify_srq.handle = srq->handle;
    spin_lock(&srq->ring.lock); /* no posting while the entries move */
    err = conn_call(&srq->client->conn, CTL_MODIFY_SRQ, &m, NULL, 0, &fd, resize ? 1 : 0);
    if (!err && resize)
        err = reply_sane(&m.create_srq) ? map_segment(srq, &m.create_srq, fd) : -EIO;
    spin_unlock(&srq->ring.lock);
    return err;
}
