/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SENDs and datagrams whose receive WQEs have several SGEs, a batch at a time: from the queue
 * pair's own receive queue, into mapped memory.
 */
#include "count.h"
#include "resp_batch_recv.h"

/* Mapped memory in pieces, which is filled from its start. */
struct piece {
    uint8_t *at;
    uint32_t len;
};

/* Those of n SGEs that take len bytes, exactly; false: they have no room, or one is not mapped. */
ALWAYS_INLINE bool pieces_find(struct rx_batch *b, struct mr_grant *g, const struct sge *sge,
                               unsigned n, uint32_t len, struct piece *p)
{
    for (unsigned i = 0; len && i < n; i++) {
        p->len = min_of(len, sge[i].length);
        if (!p->len)
            continue;
        p->at = mr_grant_lookup(b->e, b->qp, g, &b->qp->resp.recv_hint, sge[i].lkey,
                                MEM_LOCAL_WRITE, sge[i].addr, p->len);
        if (!p->at)
            return false;
        len -= p->len;
        p++;
    }
    return !len;
}

/* Returns the piece that is filled next. */
ALWAYS_INLINE struct piece *pieces_put(struct piece *p, const uint8_t *bytes, uint32_t len)
{
    for (; len > p->len; p++) {
        mr_grant_copy(p->at, bytes, p->len);
        bytes += p->len;
        len -= p->len;
    }
    mr_grant_copy(p->at, bytes, len);
    p->at += len;
    p->len -= len;
    return p;
}

ALWAYS_INLINE unsigned place_pieces(enum messages what, struct rx_batch *b, unsigned n)
{
    struct work_queue *rq = &b->qp->resp.rq;
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(b->qp->recv_cq, b->e->cfg.lane);
    bool solicited = false;
    uint32_t i;

    if (what == WRITES_IMM || b->e->completions || b->e->batch.n)
        return 0;
    for (i = 0; i < n; i++) {
        const struct icrc_span *s = &b->span[i];
        struct cqe *c = cq_batch_entry(&cqes);
        uint8_t grh[ENCAP_GRH_LEN];
        struct sge sge[QUEUE_MAX_SGE];
        struct piece pieces[QUEUE_MAX_SGE], *next = pieces;
        uint64_t wr_id;
        unsigned sges = recv_wqe_copy_sges(rq, rq->cons + i, &wr_id, sge);

        if (!sges || !qkey_ok(what, b, s) ||
            !pieces_find(b, &g, sge, sges, bytes_of(what, s), pieces))
            break;
        memcpy(c, &common, offsetof(struct cqe, seq));
        put_cqe(what, b, s, wr_id, rq->cons + i, grh, c);
        if (are_datagrams(what))
            next = pieces_put(next, grh, sizeof(grh));
        if (s->payload)
            pieces_put(next, payload_of(what, s->bth), s->payload);
        solicited |= bth_is_solicited(s->bth);
        cq_batch_give(&cqes, c);
    }
    rq->cons += i;
    b->messages = i;
    if (counts(b->qp, QP_COUNT_RECV))
        count_received(b->e, b->qp, b->span, i, false);
    engine_post_batch(b->e, b->qp->recv_cq, cqes, solicited);
    return i;
}

static __attribute__((noinline)) unsigned place_sends(struct rx_batch *b, unsigned n)
{
    return place_pieces(SENDS, b, n);
}

unsigned resp_place_pieces(enum messages what, struct rx_batch *b, unsigned n)
{
    return what == SENDS ? place_sends(b, n) : place_pieces(what, b, n);
}
