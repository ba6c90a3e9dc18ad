/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SENDs and datagrams whose receive WQEs have several SGEs, a batch at a time: from the queue
 * pair's own receive queue, into mapped memory.
 */
#include "count.h"
#include "mr_pieces.h"
#include "resp_batch_recv.h"

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
        struct mr_piece pieces[QUEUE_MAX_SGE], *next = pieces;
        uint64_t wr_id;
        unsigned sges = recv_wqe_copy_sges(rq, rq->cons + i, &wr_id, sge);

        if (!sges || !qkey_ok(what, b, s) ||
            !mr_pieces_find(b, &g, sge, sges, 0, bytes_of(what, s), pieces))
            break;
        memcpy(c, &common, offsetof(struct cqe, seq));
        put_cqe(what, b, s, wr_id, rq->cons + i, grh, c);
        if (are_datagrams(what))
            next = mr_pieces_put(next, grh, sizeof(grh));
        if (s->payload)
            mr_pieces_put(next, payload_of(what, s->bth), s->payload);
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
