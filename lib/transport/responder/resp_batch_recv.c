/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of messages that take receive WQEs: SEND ONLY with immediate data or without, datagrams
 * or of a connection, and WRITE ONLY with immediate data. The WQEs come from the queue pair's own
 * queue or from an SRQ. If their memory is mapped, the CQEs are written in place; else they wait
 * for the copies of their bytes. WQEs with several SGEs are taken if all of them are mapped.
 */
#include "resp_batch_recv.h"

/* ---- admit ---- */

/* An SRQ says how many WQEs it has when they are taken. */
static unsigned wqes_for(const struct rx_batch *b, unsigned n)
{
    const struct srq *srq = rx_batch_srq(b);
    const struct qp *qp = b->qp;
    int pending;

    if (srq)
        return srq->init.pd == rx_batch_pd(b) ? n : 0;
    pending = qp->resp.rq.max_sge ? work_queue_pending(&qp->resp.rq) : 0;
    return pending > 0 ? min_of(n, (unsigned)pending) : 0;
}

/* As many as have a receive WQE, and room for its CQE, besides those that wait for queued copies.
 */
unsigned resp_admit_sends(struct rx_batch *b, unsigned n)
{
    const struct responder *resp = &b->qp->resp;
    unsigned waiting = b->e->completions;

    /* A copy that has failed may be of an earlier message: the general path tells. */
    if (resp->recv_busy || b->e->copies_failed ||
        !resp_order_ok(resp, PF_START | PF_END, RESP_SEND))
        return 0;
    n = wqes_for(b, n);
    n = n ? cq_room(rx_batch_recv_cq(b), b->e->cfg.lane, n + waiting) : 0;
    return n > waiting ? n - waiting : 0;
}

unsigned resp_admit_writes_imm(struct rx_batch *b, unsigned n)
{
    return resp_right_ok(b->qp, MEM_REMOTE_WRITE) ? resp_admit_sends(b, n) : 0;
}

/* ---- memory that is not mapped ---- */

/* Queues the copies of packet i's bytes to `to`; a datagram has two, and both are queued or none.
 */
ALWAYS_INLINE bool queue_bytes(enum messages what, struct rx_batch *b, const struct mr_grant *g,
                               unsigned i, uint64_t to)
{
    const struct icrc_span *s = &b->span[i];
    const uint8_t *payload = payload_of(what, b, s);

    if (!are_datagrams(what))
        return rx_batch_queue(b, g, i, to, payload, s->payload);
    if (b->e->batch.n + 2 > MEM_BATCH_MAX || !mr_grant_covers(g, to, bytes_of(what, s)))
        return false;
    if (!rx_batch_queue(b, g, i, to, b->e->rx_job[b->job + i].grh, ENCAP_GRH_LEN))
        return false;
    if (!s->payload || rx_batch_queue(b, g, i, to + ENCAP_GRH_LEN, payload, s->payload))
        return true;
    b->e->batch.n--; /* the memory is refused by now: another worker may take the WQE */
    return false;
}

/* The CQE of packet i waits for the copy of its bytes, and of those before it. */
ALWAYS_INLINE struct rx_completion *complete_later(struct rx_batch *b, unsigned i,
                                                   const struct cqe *common)
{
    struct rx_completion *c = rx_completion_take(b->e);

    *c = (struct rx_completion){.qp = b->qp,
                                .cq = rx_batch_recv_cq(b),
                                .job = b->job + i,
                                .solicited = bth_is_solicited(b->span[i].bth),
                                .cqe = *common};
    rx_batch_job(b, i);
    return c;
}

/*
 * Into memory that is not mapped, or behind messages that wait for such. shared: the WQEs are an
 * SRQ's, whose lock is held: no memory of applications may be touched.
 */
ALWAYS_INLINE unsigned queue_from(enum messages what, struct rx_batch *b,
                                  const struct work_queue *rq, bool shared, unsigned n)
{
    struct engine *e = b->e;
    const struct cqe common = common_cqe(what, b);
    const uint32_t before = are_datagrams(what) ? ENCAP_GRH_LEN : 0;
    struct mr_grant g = {.direct = NULL};
    unsigned i;

    n = min_of(n, (unsigned)ARRAY_SIZE(e->completion) - e->completions);
    for (i = 0; i < n; i++) {
        const struct icrc_span *s = &b->span[i];
        uint32_t len = bytes_of(what, s);
        struct rx_completion *c;
        struct recv_buffer to;
        uint8_t *at;

        if (!find_target(what, b, s, rq, rq->cons + i, &to))
            break;
        at = find_mapped(what, b, &g, &to, len);
        if (at ? shared : len && !queue_bytes(what, b, &g, i, to.addr))
            break;
        if (at)
            mr_grant_copy(at + before, payload_of(what, b, s), s->payload);
        else
            at = e->rx_job[b->job + i].grh;
        c = complete_later(b, i, &common);
        put_cqe(what, b, s, to.wr_id, shared ? 0 : rq->cons + i, at, &c->cqe);
    }
    b->messages = i;
    return i;
}

ALWAYS_INLINE unsigned place_queued(enum messages what, struct rx_batch *b, unsigned n)
{
    struct work_queue *rq = &b->qp->resp.rq;

    n = queue_from(what, b, rq, false, n);
    rq->cons += n;
    return n;
}

static __attribute__((noinline)) unsigned queue_sends(struct rx_batch *b, unsigned n)
{
    return place_queued(SENDS, b, n);
}

static __attribute__((noinline)) unsigned queue_others(enum messages what, struct rx_batch *b,
                                                       unsigned n)
{
    return place_queued(what, b, n);
}

/* ---- mapped memory ---- */

/* What a message of the batch needs. */
struct place {
    uint64_t wr_id;
    uint8_t *to; /* of an empty one anything */
};

/* Where the message goes, and the id of the WQE that it takes; false: not that simple. */
ALWAYS_INLINE bool find_place(enum messages what, struct rx_batch *b, struct mr_grant *g,
                              const struct icrc_span *s, const struct work_queue *rq,
                              uint32_t index, struct place *p)
{
    struct recv_buffer to;
    uint32_t len = bytes_of(what, s);

    if (unlikely(!find_target(what, b, s, rq, index, &to)))
        return false;
    p->wr_id = to.wr_id;
    p->to = find_mapped(what, b, g, &to, len);
    return p->to || (what != SENDS && !len);
}

/* The message's bytes, and its CQE. */
ALWAYS_INLINE void put_message(enum messages what, const struct rx_batch *b,
                               const struct icrc_span *s, const struct place *p,
                               const struct cqe *common, uint32_t wqe, struct cqe *c)
{
    const uint32_t before = are_datagrams(what) ? ENCAP_GRH_LEN : 0;

    if (what == SENDS || s->payload)
        mr_grant_copy(p->to + before, payload_of(what, b, s), s->payload);
    memcpy(c, common, offsetof(struct cqe, seq));
    put_cqe(what, b, s, p->wr_id, wqe, p->to, c);
}

ALWAYS_INLINE unsigned place_own(enum messages what, struct rx_batch *b, unsigned n)
{
    struct qp *qp = b->qp;
    const struct work_queue rq = qp->resp.rq;
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(qp->recv_cq, b->e->cfg.lane);
    const struct icrc_span *s = b->span;
    const bool counted = counts_messages(b);
    bool solicited = false;
    uint32_t i;

    for (i = 0; i < n; i++, s++) {
        struct cqe *c = cq_batch_entry(&cqes);
        struct place p;

        if (unlikely(!find_place(what, b, &g, s, &rq, rq.cons + i, &p)))
            break;
        put_message(what, b, s, &p, &common, rq.cons + i, c);
        solicited |= bth_is_solicited(s->bth);
        give_message(counted, &cqes, c);
    }
    qp->resp.rq.cons += i;
    b->messages = i;
    if (unlikely(counted))
        count_and_give(what, b, i, &cqes);
    engine_post_batch(b->e, qp->recv_cq, cqes, solicited);
    return i;
}

/* ---- an SRQ ---- */

/*
 * Its lock is held while WQEs are judged, and not while memory of applications is
 * touched: a page fault of one would stop the workers of all.
 */
ALWAYS_INLINE unsigned place_shared(enum messages what, struct rx_batch *b, unsigned n)
{
    struct engine *e = b->e;
    struct srq *srq = rx_batch_srq(b);
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(rx_batch_recv_cq(b), e->cfg.lane);
    struct place place[FRAME_BURST];
    const bool counted = counts_messages(b);
    bool solicited = false;
    unsigned i, pending;
    const struct work_queue *rq = srq_begin(srq, &pending);

    n = rq->max_sge ? min_of(n, pending) : 0;
    for (i = 0; i < n; i++)
        if (!find_place(what, b, &g, &b->span[i], rq, rq->cons + i, &place[i]))
            break;
    n = i;
    resp_srq_taken(e, srq, pending, n);
    for (i = 0; i < n; i++) {
        struct cqe *c = cq_batch_entry(&cqes);

        put_message(what, b, &b->span[i], &place[i], &common, 0, c);
        solicited |= bth_is_solicited(b->span[i].bth);
        give_message(counted, &cqes, c);
    }
    b->messages = n;
    if (unlikely(counted))
        count_and_give(what, b, n, &cqes);
    engine_post_batch(e, rx_batch_recv_cq(b), cqes, solicited);
    return n;
}

static __attribute__((noinline)) unsigned queue_shared(enum messages what, struct rx_batch *b,
                                                       unsigned n)
{
    struct srq *srq = rx_batch_srq(b);
    unsigned pending;
    const struct work_queue *rq = srq_begin(srq, &pending);

    n = rq->max_sge ? queue_from(what, b, rq, true, min_of(n, pending)) : 0;
    resp_srq_taken(b->e, srq, pending, n);
    return n;
}

/* Nothing waits for a copy: messages may complete at once. */
static inline bool nothing_waits(const struct engine *e)
{
    return likely(!e->completions && !e->batch.n);
}

ALWAYS_INLINE unsigned place_from_srq(enum messages what, struct rx_batch *b, unsigned n)
{
    unsigned i = nothing_waits(b->e) ? place_shared(what, b, n) : 0;

    if (unlikely(!i))
        i = resp_place_pieces(what, b, n);
    return likely(i) ? i : queue_shared(what, b, n);
}

static __attribute__((noinline)) unsigned place_shared_sends(struct rx_batch *b, unsigned n)
{
    return place_from_srq(SENDS, b, n);
}

unsigned resp_place_sends(struct rx_batch *b, unsigned n)
{
    unsigned i = 0;

    if (unlikely(rx_batch_srq(b)))
        return place_shared_sends(b, n);
    if (nothing_waits(b->e))
        i = place_own(SENDS, b, n);
    if (unlikely(!i))
        i = resp_place_pieces(SENDS, b, n);
    return likely(i) ? i : queue_sends(b, n);
}

ALWAYS_INLINE unsigned place_any(enum messages what, struct rx_batch *b, unsigned n)
{
    unsigned i = 0;

    if (rx_batch_srq(b))
        return place_from_srq(what, b, n);
    if (nothing_waits(b->e))
        i = place_own(what, b, n);
    if (unlikely(!i))
        i = resp_place_pieces(what, b, n);
    return likely(i) ? i : queue_others(what, b, n);
}

unsigned resp_place_sends_imm(struct rx_batch *b, unsigned n)
{
    return place_any(SENDS_IMM, b, n);
}

unsigned resp_place_writes_imm(struct rx_batch *b, unsigned n)
{
    return place_any(WRITES_IMM, b, n);
}

unsigned resp_place_datagrams(struct rx_batch *b, unsigned n)
{
    return place_any(DATAGRAMS, b, n);
}

unsigned resp_place_datagrams_imm(struct rx_batch *b, unsigned n)
{
    return place_any(DATAGRAMS_IMM, b, n);
}
