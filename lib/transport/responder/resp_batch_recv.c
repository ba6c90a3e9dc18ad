/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of messages that take receive WQEs: SEND ONLY with immediate data or without, datagrams
 * or of a connection, and WRITE ONLY with immediate data. The WQEs come from the queue pair's own
 * queue or from an SRQ, and those of SENDs have one SGE. If their memory is mapped, the CQEs are
 * written in place; else, from the queue pair's own queue, they wait for the copies of their bytes.
 */
#include "count.h"
#include "recv_cqe.h"
#include "resp_datagram.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"
#include "srq.h"
#include "wqe.h"

/* ---- admit ---- */

/* An SRQ says how many WQEs it has when they are taken. */
static unsigned wqes_for(const struct rx_batch *b, unsigned n)
{
    const struct qp *qp = b->qp;
    int pending;

    if (qp->srq) /* messages for memory that is not mapped take its WQEs one by one */
        return qp->srq->init.pd == qp->pd && !b->e->completions && !b->e->batch.n ? n : 0;
    pending = qp->resp.rq.max_sge ? work_queue_pending(&qp->resp.rq) : 0;
    return pending > 0 ? min_of(n, (unsigned)pending) : 0;
}

/* As many as have a receive WQE, and room for its CQE, besides those that wait for queued copies.
 */
unsigned resp_admit_sends(struct rx_batch *b, unsigned n)
{
    const struct responder *resp = &b->qp->resp;
    unsigned waiting = b->e->completions;

    if (resp->recv_busy || !resp_order_ok(resp, PF_START | PF_END, RESP_SEND))
        return 0;
    n = wqes_for(b, n);
    n = n ? cq_room(b->qp->recv_cq, b->e->cfg.lane, n + waiting) : 0;
    return n > waiting ? n - waiting : 0;
}

unsigned resp_admit_writes_imm(struct rx_batch *b, unsigned n)
{
    return resp_right_ok(b->qp, MEM_REMOTE_WRITE) ? resp_admit_sends(b, n) : 0;
}

/* ---- messages ---- */

/* Which messages. Inlined where they are constants. */
enum messages { SENDS, SENDS_IMM, WRITES_IMM, DATAGRAMS, DATAGRAMS_IMM };

ALWAYS_INLINE bool are_datagrams(enum messages what)
{
    return what >= DATAGRAMS;
}

ALWAYS_INLINE bool have_imm(enum messages what)
{
    return what != SENDS && what != DATAGRAMS;
}

ALWAYS_INLINE const uint8_t *imm_of(enum messages what, const uint8_t *bth)
{
    return bth + BTH_LEN + (what == WRITES_IMM ? RETH_LEN : are_datagrams(what) ? DETH_LEN : 0);
}

ALWAYS_INLINE const uint8_t *payload_of(enum messages what, const uint8_t *bth)
{
    return imm_of(what, bth) + (have_imm(what) ? IMM_LEN : 0);
}

/* Bytes that a message writes: a datagram has its network header before its payload. */
ALWAYS_INLINE uint32_t bytes_of(enum messages what, const struct icrc_span *s)
{
    return s->payload + (are_datagrams(what) ? ENCAP_GRH_LEN : 0);
}

ALWAYS_INLINE bool find_write(const struct icrc_span *s, const struct work_queue *rq,
                              uint32_t index, struct recv_buffer *to)
{
    const uint8_t *reth = s->bth + BTH_LEN;

    to->addr = reth_va(reth);
    to->lkey = reth_rkey(reth);
    return recv_wqe_peek_id(rq, index, &to->wr_id) &&
           resp_write_len_ok(PF_START | PF_END, reth_len(reth), s->payload);
}

/* The WQE that a message takes, and the memory that it names, or that a WRITE names by an R_Key.
 * False: not that simple. A datagram of another Q_Key is dropped (10.2.5). */
ALWAYS_INLINE bool find_target(enum messages what, const struct rx_batch *b,
                               const struct icrc_span *s, const struct work_queue *rq,
                               uint32_t index, struct recv_buffer *to)
{
    if (what == WRITES_IMM)
        return find_write(s, rq, index, to);
    if (are_datagrams(what) && unlikely(deth_qkey(s->bth + BTH_LEN) != b->qp->qkey))
        return false;
    return likely(recv_wqe_peek(rq, index, to) && resp_room_ok(to->length, 0, bytes_of(what, s)));
}

/* The target in mapped memory; NULL: it is empty, or not mapped, or refused. */
ALWAYS_INLINE uint8_t *find_mapped(enum messages what, struct rx_batch *b, struct mr_grant *g,
                                   const struct recv_buffer *to, uint32_t len)
{
    struct responder *resp = &b->qp->resp;

    if (what != WRITES_IMM)
        return mr_grant_lookup(b->e, b->qp, g, &resp->recv_hint, to->lkey, MEM_LOCAL_WRITE,
                               to->addr, len);
    return len ? mr_grant_lookup(b->e, b->qp, g, &resp->write_hint, to->lkey, MEM_REMOTE_WRITE,
                                 to->addr, len)
               : NULL;
}

ALWAYS_INLINE struct cqe common_cqe(enum messages what, const struct rx_batch *b)
{
    struct cqe c = recv_cqe(b->e, b->qp);

    if (what == WRITES_IMM)
        c.opcode = WC_RECV_RDMA_WITH_IMM;
    if (have_imm(what))
        c.wc_flags = WC_WITH_IMM;
    if (are_datagrams(what))
        resp_datagram_cqe(&c, hdr_is_ipv6(b->form) ? ICRC_IPV6 : ICRC_IPV4,
                          hdr_vlan_tci(b->form, b->span->bth - hdr_bth_at(b->form)));
    return c;
}

/* A datagram's network header, and what its CQE says of its sender. */
ALWAYS_INLINE void put_sender(enum hdr_form form, const struct icrc_span *s, uint8_t *to,
                              struct cqe *c)
{
    const uint8_t *frame = s->bth - hdr_bth_at(form);

    encap_grh(to, hdr_is_ipv6(form) ? ICRC_IPV6 : ICRC_IPV4, frame + hdr_l3_at(form));
    c->src_qpn = deth_src_qpn(s->bth + BTH_LEN);
    memcpy(c->smac, frame + MAC_LEN, sizeof(c->smac));
}

/* What the CQE says of this message alone. grh: where a datagram's network header goes. */
ALWAYS_INLINE void put_cqe(enum messages what, const struct rx_batch *b, const struct icrc_span *s,
                           uint64_t wr_id, uint32_t wqe, uint8_t *grh, struct cqe *c)
{
    c->wr_id = wr_id;
    c->byte_len = bytes_of(what, s);
    c->wqe = wqe;
    if (have_imm(what))
        memcpy(&c->imm, imm_of(what, s->bth), sizeof(c->imm));
    if (!are_datagrams(what))
        return;
    if (likely(b->form == HDR_IPV4))
        put_sender(HDR_IPV4, s, grh, c);
    else
        put_sender(b->form, s, grh, c);
}

/* ---- memory that is not mapped ---- */

/* Queues the copies of packet i's bytes to `to`; a datagram has two, and both are queued or none.
 */
static bool queue_bytes(enum messages what, struct rx_batch *b, const struct mr_grant *g,
                        unsigned i, uint64_t to)
{
    const struct icrc_span *s = &b->span[i];
    const uint8_t *payload = payload_of(what, s->bth);

    if (!are_datagrams(what))
        return rx_batch_queue(b, g, i, to, payload, s->payload);
    if (b->e->batch.n + 2 > MEM_BATCH_MAX || !mr_grant_covers(g, to, bytes_of(what, s)))
        return false;
    return rx_batch_queue(b, g, i, to, b->e->rx_job[b->job + i].grh, ENCAP_GRH_LEN) &&
           (!s->payload || rx_batch_queue(b, g, i, to + ENCAP_GRH_LEN, payload, s->payload));
}

/* The CQE of packet i waits for the copy of its bytes, and of those before it. */
static struct rx_completion *complete_later(struct rx_batch *b, unsigned i,
                                            const struct cqe *common)
{
    struct engine *e = b->e;
    struct rx_completion *c = &e->completion[e->completions++];

    *c = (struct rx_completion){.qp = b->qp,
                                .cq = b->qp->recv_cq,
                                .job = b->job + i,
                                .solicited = bth_is_solicited(b->span[i].bth),
                                .cqe = *common};
    rx_batch_job(b, i);
    return c;
}

/* Into memory that is not mapped, or behind messages that wait for such. */
ALWAYS_INLINE unsigned place_queued(enum messages what, struct rx_batch *b, unsigned n)
{
    struct engine *e = b->e;
    struct work_queue *rq = &b->qp->resp.rq;
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
        if (!at && len && !queue_bytes(what, b, &g, i, to.addr))
            break;
        if (at)
            mr_grant_copy(at + before, payload_of(what, s->bth), s->payload);
        else
            at = e->rx_job[b->job + i].grh;
        c = complete_later(b, i, &common);
        put_cqe(what, b, s, to.wr_id, rq->cons + i, at, &c->cqe);
    }
    rq->cons += i;
    b->messages = i;
    return i;
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
        mr_grant_copy(p->to + before, payload_of(what, s->bth), s->payload);
    memcpy(c, common, offsetof(struct cqe, seq));
    put_cqe(what, b, s, p->wr_id, wqe, p->to, c);
}

/* The first n messages of the batch have their bytes, and their CQEs. */
static __attribute__((noinline)) void count_batch(const struct rx_batch *b, unsigned n,
                                                  const struct cqe *common)
{
    struct qp *qp = b->qp;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < n; i++)
        bytes += b->span[i].payload;
    if (qp->service == PKT_UD)
        bytes += (uint64_t)n * ENCAP_GRH_LEN;
    count_done(b->e, qp, QP_COUNT_RECV, n, bytes);
    if (common->opcode == WC_RECV_RDMA_WITH_IMM)
        count_done(b->e, qp, QP_COUNT_PEER_WRITE, n, bytes);
}

ALWAYS_INLINE unsigned place_own(enum messages what, struct rx_batch *b, unsigned n)
{
    struct qp *qp = b->qp;
    const struct work_queue rq = qp->resp.rq;
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(qp->recv_cq, b->e->cfg.lane);
    const struct icrc_span *s = b->span;
    bool solicited = false;
    uint32_t i;

    for (i = 0; i < n; i++, s++) {
        struct cqe *c = cq_batch_entry(&cqes);
        struct place p;

        if (unlikely(!find_place(what, b, &g, s, &rq, rq.cons + i, &p)))
            break;
        put_message(what, b, s, &p, &common, rq.cons + i, c);
        solicited |= bth_is_solicited(s->bth);
        cq_batch_give(&cqes, c);
    }
    qp->resp.rq.cons += i;
    b->messages = i;
    engine_post_batch(b->e, qp->recv_cq, cqes, solicited);
    if (counts(qp, QP_COUNT_RECV | QP_COUNT_PEER_WRITE))
        count_batch(b, i, &common);
    return i;
}

/*
 * From an SRQ. Its lock is held while WQEs are judged, and not while memory of applications is
 * touched: a page fault of one would stop the workers of all.
 */
ALWAYS_INLINE unsigned place_shared(enum messages what, struct rx_batch *b, unsigned n)
{
    struct engine *e = b->e;
    struct qp *qp = b->qp;
    const struct cqe common = common_cqe(what, b);
    struct mr_grant g = {.direct = NULL};
    struct cq_batch cqes = cq_batch_begin(qp->recv_cq, e->cfg.lane);
    struct place place[FRAME_BURST];
    bool solicited = false;
    unsigned i, pending;
    const struct work_queue *rq = srq_begin(qp->srq, &pending);

    n = rq->max_sge ? min_of(n, pending) : 0;
    for (i = 0; i < n; i++)
        if (!find_place(what, b, &g, &b->span[i], rq, rq->cons + i, &place[i]))
            break;
    n = i;
    if (srq_end(qp->srq, n) && e->cfg.host.srq_event)
        e->cfg.host.srq_event(e->cfg.host.ctx, qp->srq, QP_EVENT_SRQ_LIMIT_REACHED);
    for (i = 0; i < n; i++) {
        struct cqe *c = cq_batch_entry(&cqes);

        put_message(what, b, &b->span[i], &place[i], &common, 0, c);
        solicited |= bth_is_solicited(b->span[i].bth);
        cq_batch_give(&cqes, c);
    }
    b->messages = n;
    engine_post_batch(e, qp->recv_cq, cqes, solicited);
    if (counts(qp, QP_COUNT_RECV | QP_COUNT_PEER_WRITE))
        count_batch(b, n, &common);
    return n;
}

static __attribute__((noinline)) unsigned place_shared_sends(struct rx_batch *b, unsigned n)
{
    return place_shared(SENDS, b, n);
}

unsigned resp_place_sends(struct rx_batch *b, unsigned n)
{
    unsigned i = 0;

    if (unlikely(b->qp->srq))
        return place_shared_sends(b, n);
    if (likely(!b->e->completions && !b->e->batch.n))
        i = place_own(SENDS, b, n);
    return likely(i) ? i : queue_sends(b, n);
}

ALWAYS_INLINE unsigned place_any(enum messages what, struct rx_batch *b, unsigned n)
{
    unsigned i = 0;

    if (b->qp->srq)
        return place_shared(what, b, n);
    if (likely(!b->e->completions && !b->e->batch.n))
        i = place_own(what, b, n);
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
