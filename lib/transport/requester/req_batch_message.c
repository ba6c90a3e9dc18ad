/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SENDs and WRITEs of one packet, which most messages are: of at most a path MTU, inline or from
 * SGEs, as many at a time as may be sent. The steps are those of req_take.c, req_check.c and
 * req_segment.c that such a WQE needs; what all of them have in common is done once. A send slot is
 * left exactly as the general path leaves it, so retransmission uses that path.
 */
#include "mem_memcpy.h"
#include "req_batch.h"

/* A fence waits for READs and atomics; without such it changes nothing. */
static __attribute__((noinline)) uint64_t copy_fenced(const struct requester *req,
                                                      const void *entry, struct send_wqe *w)
{
    return req->rd_outstanding ? MESSAGE_NOT_SIMPLE
                               : send_wqe_copy_message(entry, req->sq.max_inline, WQE_FENCE, w);
}

/* The headers of messages of one shape. */
struct message_header {
    struct tx_header tx;
    uint64_t shape;  /* of send_wqe_copy_message; MESSAGE_NONE: no header yet */
    uint32_t ask;    /* BTH_ACK_REQ, if anything is acknowledged */
    bool in_memory;  /* there is a payload, and it is not inline */
    bool copy_short; /* a payload so short that its copy needs no call */
    bool copy_late;  /* a payload so long that it is copied while it is summed up */
};

static void header_make(struct engine *e, const struct qp *qp, uint64_t shape,
                        struct message_header *h)
{
    static const uint8_t kinds[] = {
        [SQE_WRITE] = OP_WRITE_ONLY,
        [SQE_WRITE_IMM] = OP_WRITE_ONLY_IMM,
        [SQE_SEND] = OP_SEND_ONLY,
        [SQE_SEND_IMM] = OP_SEND_ONLY_IMM,
    };
    uint32_t len = MESSAGE_LEN(shape), op = MESSAGE_OP(shape);
    uint8_t opcode = OPCODE(qp->service, kinds[op]);
    bool solicited = (shape & MESSAGE_SOLICITED) && op_takes_receive((uint8_t)op);

    tx_header_make(e, &qp->encap, qp->dest_qpn, &h->tx,
                   bth_first_word(opcode, solicited ? BTH_SOLICITED : 0, pkt_pad(len)),
                   (uint32_t)pkt_len(opcode, len));
    h->ask = qp_is_reliable(qp) ? BTH_ACK_REQ : 0;
    h->shape = shape;
    h->in_memory = len && !(shape & MESSAGE_INLINE);
    h->copy_short = h->in_memory && mem_memcpy_is_few(len);
    h->copy_late = h->in_memory && len >= TX_COPY_LATE_MIN;
}

/* Writes all headers. Returns where the payload goes. xrc: the WQE, where it is one of XRC, or
 * NULL; a constant, as below. */
ALWAYS_INLINE uint8_t *headers_put(const struct message_header *h, struct send_slot *s,
                                   const struct qp *qp, struct frame *frame, const void *xrc)
{
    const struct sqe *w = &s->wqe.h;
    uint8_t *next = tx_header_put(&h->tx, qp->encap.len, frame, h->ask | s->first.v);

    if (xrc)
        next = xrc_srq_put(next, xrc, s);
    if (!(h->shape & SQE_SEND)) {
        reth_put(next, w->remote_addr, w->rkey, MESSAGE_LEN(h->shape));
        next += RETH_LEN;
    }
    if (h->shape & 1) { /* SQE_WRITE_IMM, SQE_SEND_IMM */
        memcpy(next, &w->imm, sizeof(w->imm));
        next += IMM_LEN;
    }
    return next;
}

/* The payload of the message in s, which `job` sends: copied, or queued where the region is not
 * mapped. */
static inline void payload_put(struct engine *e, const struct message_header *h,
                               const struct send_slot *s, struct mem_region *mr, uint8_t *to,
                               unsigned job)
{
    uint32_t len = MESSAGE_LEN(h->shape);
    const struct sge *sge = s->wqe.sge;

    memset(to + len, 0, ICRC_LEN); /* the pad, and more */
    if (likely(h->copy_short && mr->direct))
        mem_memcpy_few(to, mr_direct(mr, sge->addr), len);
    else if (h->in_memory)
        mem_batch_in(&e->batch, mr, mr_host_addr(mr, sge->addr), to, len, job);
    else
        mem_memcpy(to, s->wqe.inline_data, len);
}

/*
 * Takes and builds up to n messages. A message whose memory is not mapped is queued, and all behind
 * it wait for that: deferred says whether these are such messages. xrc: the queue pair is of XRC.
 * Inlined once for each.
 */
ALWAYS_INLINE unsigned build_messages(struct engine *e, struct qp *qp, struct frame *frames,
                                      unsigned n, bool deferred, bool xrc)
{
    const struct requester *req = &qp->req;
    struct ring_cursor wqe = new_wqes(req), slot = slots_from(req, req->head);
    uint32_t index = req->sq.cons, max_inline = req->sq.max_inline;
    struct message_header header = {.shape = MESSAGE_NONE};
    struct sge_region from = {0};
    psn_t p = req->next_psn;
    unsigned i;

    for (i = 0; i < n; i++, ring_cursor_next(&wqe), ring_cursor_next(&slot), p = psn_add(p, 1)) {
        struct send_slot *s = (struct send_slot *)slot.at;
        uint64_t shape = send_wqe_copy_message(wqe.at, max_inline, 0, &s->wqe);
        uint8_t *payload;

        if (unlikely(shape != header.shape)) {
            if (shape == MESSAGE_NOT_SIMPLE)
                shape = copy_fenced(req, wqe.at, &s->wqe);
            if (shape == MESSAGE_NOT_SIMPLE || MESSAGE_LEN(shape) > qp->mtu)
                break;
            if (shape != header.shape) {
                if (!deferred)
                    tx_header_seal(e, qp, &qp->encap, &header.tx, frames, i);
                header_make(e, qp, shape, &header);
                header.tx.first = i;
            }
        }
        if (header.in_memory &&
            (!sge_region_find(e, qp, s->wqe.sge, MEM_LOCAL_READ, &from) ||
             (!deferred && !from.mr->direct) || (deferred && mem_batch_full(&e->batch))))
            break;
        slot_start(s, index + i, MESSAGE_LEN(shape), 1, p);
        payload = headers_put(&header, s, qp, &frames[i], xrc ? wqe.at : NULL);
        if (!deferred && unlikely(header.copy_late))
            tx_header_seal_copy(e, qp, &qp->encap, &header.tx, &frames[i],
                                mr_direct(from.mr, s->wqe.sge->addr), s->len);
        else
            payload_put(e, &header, s, from.mr, payload, e->jobs + i);
        if (deferred)
            defer_seal(e, qp, &qp->encap, e->jobs + i, &frames[i], req->head + i, p);
    }
    if (!i)
        return 0;
    if (!deferred) {
        tx_header_seal(e, qp, &qp->encap, &header.tx, frames, i);
        e->sealed += i;
    }
    req_commit_messages(e, qp, i, psn_prev(p), p, false);
    return i;
}

/* ---- several SGEs ---- */

/* Where the pieces of a message are. An empty one is nowhere. */
struct pieces {
    const uint8_t *at[QUEUE_MAX_SGE];         /* or NULL */
    struct mem_region *copied[QUEUE_MAX_SGE]; /* of those that are not mapped */
};

/* False: one of them is not the queue pair's to read, or is not mapped. deferred: such are copied
 * later, if the engine's batch of copies has room for all of the message. */
ALWAYS_INLINE bool pieces_find(struct engine *e, const struct qp *qp, const struct send_wqe *w,
                               struct sge_region *from, struct pieces *p, bool deferred)
{
    unsigned room = MEM_BATCH_MAX - e->batch.n;

    for (unsigned i = 0; i < w->h.num_sge; i++) {
        const struct sge *sge = &w->sge[i];

        p->at[i] = NULL;
        p->copied[i] = NULL;
        if (!sge->length)
            continue;
        if (!sge_region_find(e, qp, sge, MEM_LOCAL_READ, from))
            return false;
        if (from->mr->direct)
            p->at[i] = mr_direct(from->mr, sge->addr);
        else if (!deferred || room-- == 0)
            return false;
        else
            p->copied[i] = from->mr;
    }
    return true;
}

ALWAYS_INLINE void pieces_put(struct engine *e, const struct send_wqe *w, const struct pieces *p,
                              uint8_t *to, unsigned job, bool deferred)
{
    for (unsigned i = 0; i < w->h.num_sge; i++) {
        const struct sge *sge = &w->sge[i];

        if (p->at[i])
            mem_memcpy(to, p->at[i], sge->length);
        else if (deferred && p->copied[i])
            mem_batch_in(&e->batch, p->copied[i], mr_host_addr(p->copied[i], sge->addr), to,
                         sge->length, job);
        to += sge->length;
    }
    memset(to, 0, ICRC_LEN); /* the pad, and more */
}

/* The same as build_messages for messages of several SGEs. */
ALWAYS_INLINE unsigned build_gathered(struct engine *e, struct qp *qp, struct frame *frames,
                                      unsigned n, bool deferred)
{
    const bool xrc = qp->service == PKT_XRC;
    const struct requester *req = &qp->req;
    struct ring_cursor wqe = new_wqes(req), slot = slots_from(req, req->head);
    struct message_header header = {.shape = MESSAGE_NONE};
    uint64_t ignored = req->rd_outstanding ? 0 : WQE_FENCE;
    struct sge_region from = {0};
    psn_t p = req->next_psn;
    unsigned i;

    for (i = 0; i < n; i++, ring_cursor_next(&wqe), ring_cursor_next(&slot), p = psn_add(p, 1)) {
        struct send_slot *s = (struct send_slot *)slot.at;
        uint64_t shape = send_wqe_copy_gathered(wqe.at, req->sq.max_sge, ignored, &s->wqe);
        struct pieces pieces;

        if (shape == MESSAGE_NOT_SIMPLE || MESSAGE_LEN(shape) > qp->mtu ||
            !pieces_find(e, qp, &s->wqe, &from, &pieces, deferred))
            break;
        if (shape != header.shape) {
            if (!deferred)
                tx_header_seal(e, qp, &qp->encap, &header.tx, frames, i);
            header_make(e, qp, shape, &header);
            header.tx.first = i;
        }
        slot_start(s, req->sq.cons + i, MESSAGE_LEN(shape), 1, p);
        pieces_put(e, &s->wqe, &pieces,
                   headers_put(&header, s, qp, &frames[i], xrc ? wqe.at : NULL), e->jobs + i,
                   deferred);
        if (deferred)
            defer_seal(e, qp, &qp->encap, e->jobs + i, &frames[i], req->head + i, p);
    }
    if (!i)
        return 0;
    if (!deferred) {
        tx_header_seal(e, qp, &qp->encap, &header.tx, frames, i);
        e->sealed += i;
    }
    req_commit_messages(e, qp, i, psn_prev(p), p, false);
    return i;
}

static __attribute__((noinline)) unsigned build_gathered_now(struct engine *e, struct qp *qp,
                                                             struct frame *frames, unsigned n)
{
    return build_gathered(e, qp, frames, n, false);
}

/* ---- all ---- */

static __attribute__((noinline)) unsigned build_xrc(struct engine *e, struct qp *qp,
                                                    struct frame *frames, unsigned n)
{
    return build_messages(e, qp, frames, n, false, true);
}

static __attribute__((noinline)) unsigned build_deferred(struct engine *e, struct qp *qp,
                                                         struct frame *frames, unsigned n)
{
    unsigned taken = build_messages(e, qp, frames, n, true, qp->service == PKT_XRC);

    if (taken || send_wqe_peek(&qp->req.sq).opcode > SQE_SEND_IMM)
        return taken;
    return build_gathered(e, qp, frames, n, true);
}

/* Atomics, ATOMIC WRITEs and FLUSHes, or messages and READs of several SGEs. */
static __attribute__((noinline)) unsigned
build_others(struct engine *e, struct qp *qp, struct frame *frames, unsigned n, unsigned psns)
{
    uint8_t op = send_wqe_peek(&qp->req.sq).opcode;

    if (op <= SQE_SEND_IMM)
        return build_gathered_now(e, qp, frames, min_of(n, psns));
    if (!qp_is_reliable(qp))
        return 0;
    return op == SQE_READ ? req_batch_other_reads(e, qp, frames, n, psns)
                          : req_batch_atomics(e, qp, frames, min_of(n, psns));
}

NO_STACK_PROTECTOR unsigned req_batch_messages(struct engine *e, struct qp *qp,
                                               struct frame *frames, unsigned n, unsigned psns)
{
    unsigned taken = 0, messages;

    if (unlikely(!req_has_batches(qp)))
        return qp->service == PKT_UD ? req_batch_datagrams(e, qp, frames, min_of(n, psns)) : 0;
    n = wqes_to_take(qp, n);
    messages = min_of(n, psns);
    if (likely(messages && e->sealed == e->jobs))
        taken = likely(qp->service != PKT_XRC)
                    ? build_messages(e, qp, frames, messages, false, false)
                    : build_xrc(e, qp, frames, messages);
    if (likely(taken) || !messages)
        return taken;
    if (e->sealed == e->jobs && qp_is_reliable(qp))
        taken = req_batch_reads(e, qp, frames, n, psns);
    if (!taken && e->sealed == e->jobs)
        taken = build_others(e, qp, frames, n, psns);
    return taken ? taken : build_deferred(e, qp, frames, messages);
}
