/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SENDs and datagrams whose receive WQEs have several SGEs, a batch at a time: from the queue
 * pair's own receive queue or from an SRQ, into mapped memory.
 */
#include "count.h"
#include "mr_pieces.h"
#include "resp_batch_recv.h"

/* Where a message of a batch goes. */
struct gathered {
    uint64_t wr_id;
    struct mr_piece *piece;
};

/* The message of span s takes the WQE at `index`, and its pieces are put at `room`: how many, at
 * most. 0: it is not that simple. */
ALWAYS_INLINE unsigned find_pieces(enum messages what, struct rx_batch *b, struct mr_grant *g,
                                   const struct icrc_span *s, const struct work_queue *rq,
                                   uint32_t index, struct mr_piece *room, struct gathered *m)
{
    struct sge sge[QUEUE_MAX_SGE];
    unsigned sges = recv_wqe_copy_sges(rq, index, &m->wr_id, sge);

    m->piece = room;
    if (!sges || !qkey_ok(what, b, s) ||
        !mr_pieces_find(b, g, sge, sges, 0, bytes_of(what, s), room))
        return 0;
    return sges;
}

/* The message's bytes, and its CQE. */
ALWAYS_INLINE void put_message(enum messages what, const struct rx_batch *b,
                               const struct icrc_span *s, const struct gathered *m,
                               const struct cqe *common, uint32_t wqe, struct cqe *c)
{
    struct mr_piece *next = m->piece;
    uint8_t grh[ENCAP_GRH_LEN];

    memcpy(c, common, offsetof(struct cqe, seq));
    put_cqe(what, b, s, m->wr_id, wqe, grh, c);
    if (are_datagrams(what))
        next = mr_pieces_put(next, grh, sizeof(grh));
    if (s->payload)
        mr_pieces_put(next, payload_of(what, b, s), s->payload);
}

ALWAYS_INLINE void complete_all(enum messages what, struct rx_batch *b, struct cq_batch cqes,
                                bool solicited, bool counted, unsigned n)
{
    b->messages = n;
    if (unlikely(counted))
        count_and_give(what, b, n, &cqes);
    engine_post_batch(b->e, rx_batch_recv_cq(b), cqes, solicited);
}

/* A WRITE's bytes go elsewhere. Messages complete behind those that wait for a copy. */
ALWAYS_INLINE bool may_have_pieces(enum messages what, const struct rx_batch *b)
{
    return what != WRITES_IMM && !b->e->completions && !b->e->batch.n;
}

ALWAYS_INLINE unsigned place_pieces(enum messages what, struct rx_batch *b, unsigned n)
{
    struct work_queue *rq = &b->qp->resp.rq;
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(rx_batch_recv_cq(b), b->e->cfg.lane);
    struct mr_piece room[QUEUE_MAX_SGE];
    const bool counted = counts_messages(b);
    bool solicited = false;
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct icrc_span *s = &b->span[i];
        struct cqe *c = cq_batch_entry(&cqes);
        struct gathered m;

        if (!find_pieces(what, b, &g, s, rq, rq->cons + i, room, &m))
            break;
        put_message(what, b, s, &m, &common, rq->cons + i, c);
        solicited |= bth_is_solicited(s->bth);
        give_message(counted, &cqes, c);
    }
    rq->cons += i;
    complete_all(what, b, cqes, solicited, counted, i);
    return i;
}

/* The SRQ's lock is held while WQEs are judged, as in resp_batch_recv.c. The batch ends where there
 * is no room for the pieces of another message. */
ALWAYS_INLINE unsigned place_shared_pieces(enum messages what, struct rx_batch *b, unsigned n)
{
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(rx_batch_recv_cq(b), b->e->cfg.lane);
    struct mr_piece room[4 * FRAME_BURST];
    struct gathered message[FRAME_BURST];
    const bool counted = counts_messages(b);
    bool solicited = false;
    unsigned i, pending, used = 0;
    struct srq *srq = rx_batch_srq(b);
    const struct work_queue *rq = srq_begin(srq, &pending);

    n = min_of(n, pending);
    for (i = 0; i < n && used + QUEUE_MAX_SGE <= ARRAY_SIZE(room); i++) {
        unsigned more =
            find_pieces(what, b, &g, &b->span[i], rq, rq->cons + i, room + used, &message[i]);

        if (!more)
            break;
        used += more;
    }
    n = i;
    resp_srq_taken(b->e, srq, pending, n);
    for (i = 0; i < n; i++) {
        struct cqe *c = cq_batch_entry(&cqes);

        put_message(what, b, &b->span[i], &message[i], &common, 0, c);
        solicited |= bth_is_solicited(b->span[i].bth);
        give_message(counted, &cqes, c);
    }
    complete_all(what, b, cqes, solicited, counted, n);
    return n;
}

ALWAYS_INLINE unsigned place(enum messages what, struct rx_batch *b, unsigned n)
{
    return rx_batch_srq(b) ? place_shared_pieces(what, b, n) : place_pieces(what, b, n);
}

static __attribute__((noinline)) unsigned place_sends(struct rx_batch *b, unsigned n)
{
    return place(SENDS, b, n);
}

unsigned resp_place_pieces(enum messages what, struct rx_batch *b, unsigned n)
{
    if (!may_have_pieces(what, b))
        return 0;
    return what == SENDS ? place_sends(b, n) : place(what, b, n);
}
