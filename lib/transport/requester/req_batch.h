/* SPDX-License-Identifier: BSD-3-Clause */
/* What req_batch_message.c, req_batch_read.c, req_batch_atomic.c and req_batch_ud.c share. */
#ifndef UROCE_REQ_BATCH_H
#define UROCE_REQ_BATCH_H

#include "requester.h"
#include "tx_header.h"
#include "wqe.h"

/* The region of the last L_Key: consecutive WQEs mostly use one, with the same access. */
struct sge_region {
    struct mem_region *mr;
    uint32_t lkey;
};

static inline bool sge_region_find(struct engine *e, const struct qp *qp, const struct sge *sge,
                                   uint32_t access, struct sge_region *r)
{
    if (likely(r->mr && r->lkey == sge->lkey))
        return mr_covers(r->mr, sge->addr, sge->length);
    r->lkey = sge->lkey;
    r->mr = NULL;
    return mr_check(&e->mrs, sge->lkey, qp->pd, sge->addr, sge->length, access, &r->mr) == MR_OK;
}

/* WQEs that may be taken now: the last one taken was sent as a whole, and nothing is sent again. */
static inline unsigned wqes_to_take(const struct qp *qp, unsigned n)
{
    const struct requester *req = &qp->req;
    int pending;

    if (!req_takes_new(qp) || !req->sq.in_batches || req->send != req->head ||
        !psn_eq(req->next_psn, req->max_psn))
        return 0;
    pending = work_queue_pending(&req->sq);
    if (pending <= 0)
        return 0;
    n = min_of(n, (unsigned)pending);
    return min_of(n, req->slot_count - (req->head - req->tail));
}

/* The WQEs that are not taken yet. */
static inline struct ring_cursor new_wqes(const struct requester *req)
{
    return ring_cursor_at(req->sq.ring, req->sq.size, req->sq.stride, req->sq.cons);
}

/* What a READ or atomic, the first one of a batch, may have: a fence, where it has nothing to wait
 * for. Those behind it would wait for the first. */
static inline uint64_t fence_of_first(const struct requester *req)
{
    return req->rd_outstanding ? 0 : WQE_FENCE;
}

static inline void slot_start(struct send_slot *s, uint32_t index, uint32_t len, uint32_t packets,
                              psn_t first)
{
    s->index = index;
    s->len = len;
    s->packets = packets;
    s->done = 0;
    s->first = first;
    s->status = WC_SUCCESS;
    s->started = true;
}

/* The XRCETH of a request of XRC, by its WQE, which s is the slot of. Returns what follows it. */
static inline uint8_t *xrc_srq_put(uint8_t *xrceth, const void *entry, struct send_slot *s)
{
    s->wqe.h.remote_srqn = send_wqe_srqn(entry);
    xrceth_put(xrceth, s->wqe.h.remote_srqn);
    return xrceth + XRCETH_LEN;
}

/* The payload of this packet, or of one before it, is queued: tx_burst.c seals it later. */
static inline void defer_seal(struct engine *e, struct qp *qp, const struct encap_template *encap,
                              unsigned job, struct frame *f, uint32_t slot, psn_t p)
{
    e->tx_job[job] = (struct tx_job){.frame = f,
                                     .qp = qp,
                                     .encap = encap,
                                     .bth_len = (uint16_t)(f->len - encap->len),
                                     .slot = slot,
                                     .psn = p};
}

#endif
