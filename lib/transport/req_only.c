/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of one packet, which most are: WRITEs and SENDs of at most a path MTU, inline or from
 * one SGE, as many in one go as may be sent. Each is taken as take_slot, req_check and req_segment
 * take it, without those of their steps that find nothing in such a work request, and what is the
 * same for all is done once. Slots are left as they leave them: a retransmission goes their way.
 */
#include "mem_memcpy.h"
#include "req_run.h"
#include "tx_head.h"

/* The second word of such a work request: opcode, flags, number of SGEs. */
#define TAKEN_FLAGS UINT64_C(0x0600) /* signaled, solicited */
#define TAKEN_MASK  (UINT64_C(0xFFFFFC) & ~TAKEN_FLAGS)
#define INLINE_MASK (UINT64_C(0x00FFFC) & ~TAKEN_FLAGS)
#define INLINE_DATA UINT64_C(0x000800)

_Static_assert(SQE_WRITE == 0 && SQE_WRITE_IMM == 1 && SQE_SEND == 2 && SQE_SEND_IMM == 3,
               "the opcodes that TAKEN_MASK leaves");
_Static_assert((SQE_SIGNALED | SQE_SOLICITED) << 8 == TAKEN_FLAGS, "");
_Static_assert(SQE_INLINE << 8 == INLINE_DATA, "");
_Static_assert(offsetof(struct sqe, opcode) == 8 && offsetof(struct sqe, flags) == 9 &&
                   offsetof(struct sqe, num_sge) == 10,
               "");

/* How many work requests may be taken and sent now, as far as that is not up to themselves. */
static unsigned may_take(const struct engine *e, const struct qp *qp, unsigned n)
{
    const struct requester *req = &qp->req;
    uint32_t inflight = (uint32_t)psn_diff(req->next_psn, req->una);
    int pending;

    if (qp->service != PKT_RC || qp->state != QPS_RTS || req->rnr_wait || qp->fault ||
        !req->sq.max_sge || req->send != req->head || !psn_eq(req->next_psn, req->max_psn) ||
        inflight >= e->cfg.max_inflight)
        return 0;
    pending = work_queue_pending(&req->sq);
    if (pending <= 0)
        return 0;
    n = min_of(n, (unsigned)pending);
    n = min_of(n, e->cfg.max_inflight - inflight);
    return min_of(n, req->slot_count - (req->head - req->tail));
}

/*
 * Copies an entry without taking it, if it is such a message. Of its words each is loaded once: the
 * application may rewrite them meanwhile, and then gets what it deserves. What the other words mean
 * belongs to other operations. Returns what tells kinds of messages apart (MESSAGE_*), or
 * NOT_SIMPLE.
 */
#define MESSAGE_LEN(key)  ((uint32_t)((key) >> 32))
#define MESSAGE_WORD      (SQE_SOLICITED << 8 | SQE_INLINE << 8 | 0xFF)
#define MESSAGE_SOLICITED (SQE_SOLICITED << 8)
#define MESSAGE_INLINE    (SQE_INLINE << 8)
#define MESSAGE_OP(key)   ((key)&0xFF)
#define NOT_SIMPLE        UINT64_MAX
#define NO_MESSAGE        UINT64_C(0xFF) /* an opcode that none has */

static inline uint64_t copy_entry(const void *entry, uint32_t max_inline, struct send_wqe *w)
{
    const volatile pair *from = entry;
    pair *to = (pair *)&w->h, a = from[0], b = from[1];
    uint64_t word = a[1], len;

    if (likely((word & TAKEN_MASK) == ONE_SGE)) {
        const volatile uint64_t *sge = entry;
        uint64_t addr = sge[sizeof(struct sqe) / 8];

        len = sge[sizeof(struct sqe) / 8 + 1];
        memcpy(w->sge, &addr, sizeof(addr));
        memcpy(&w->sge->length, &len, sizeof(len));
        b &= (pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    } else if ((word & INLINE_MASK) == INLINE_DATA && b[1] >> 32 <= max_inline) {
        len = b[1] >> 32;
        a &= (pair){UINT64_MAX, ~UINT64_C(0xFF0000)}; /* no SGEs */
        mem_memcpy(w->inline_data, (const uint8_t *)entry + sizeof(struct sqe), (uint32_t)len);
    } else {
        return NOT_SIMPLE;
    }
    to[0] = a;
    to[1] = b;
    return len << 32 | (word & MESSAGE_WORD);
}

/* Messages of one kind have the same headers but for PSN, address, key and immediate data. */
struct head {
    struct tx_head tx;
    uint64_t message; /* of copy_entry; NO_MESSAGE: nothing is here */
    bool in_memory;   /* there is a payload, and it is not inline */
    bool few;         /* and so few bytes that they need no call */
    bool many;        /* or so many that they are copied while they are summed up */
};

static void make_head(struct engine *e, const struct qp *qp, uint64_t message, struct head *h)
{
    static const struct {
        uint8_t opcode, len;
    } kinds[] = {
        [SQE_WRITE] = {OPCODE(PKT_RC, OP_WRITE_ONLY), BTH_LEN + 16},
        [SQE_WRITE_IMM] = {OPCODE(PKT_RC, OP_WRITE_ONLY_IMM), BTH_LEN + 16 + 4},
        [SQE_SEND] = {OPCODE(PKT_RC, OP_SEND_ONLY), BTH_LEN},
        [SQE_SEND_IMM] = {OPCODE(PKT_RC, OP_SEND_ONLY_IMM), BTH_LEN + 4},
    };
    uint32_t len = MESSAGE_LEN(message), op = MESSAGE_OP(message);
    uint32_t bth_len = kinds[op].len + len + pkt_pad(len) + ICRC_LEN;

    tx_head_make(e, qp, &h->tx,
                 (uint32_t)kinds[op].opcode << 24 |
                     (message & MESSAGE_SOLICITED ? UINT32_C(1) << 23 : 0) | pkt_pad(len) << 20 |
                     PKEY_DEFAULT,
                 bth_len);
    h->message = message;
    h->in_memory = len && !(message & MESSAGE_INLINE);
    h->few = h->in_memory && mem_memcpy_is_few(len);
    h->many = h->in_memory && len >= SOURCE_MIN;
}

/* All headers. Returns where the payload goes. */
static inline uint8_t *put_headers(const struct head *h, const struct send_slot *s,
                                   const struct qp *qp, struct frame *frame)
{
    const struct sqe *w = &s->wqe.h;
    uint8_t *next = tx_head_put(&h->tx, qp, frame, ASKS_FOR_ACK | s->first.v);

    if (!(h->message & SQE_SEND)) {
        put_be64(next, w->remote_addr);
        put_be32(next + 8, w->rkey);
        put_be32(next + 12, MESSAGE_LEN(h->message));
        next += 16;
    }
    if (h->message & 1) {
        memcpy(next, &w->imm, sizeof(w->imm));
        next += sizeof(w->imm);
    }
    return next;
}

/* The bytes of the job that is s; if the region is not mapped they come with the batch. */
static inline void put_payload(struct engine *e, const struct head *h, const struct send_slot *s,
                               struct mem_region *mr, uint8_t *to, unsigned job)
{
    uint32_t len = MESSAGE_LEN(h->message);
    const struct sge *sge = s->wqe.sge;

    memset(to + len, 0, ICRC_LEN); /* the pad, and more */
    if (likely(h->few && mr->direct))
        mem_memcpy_few(to, mr_direct(mr, sge->addr), len);
    else if (h->in_memory)
        mem_batch_in(&e->batch, mr, mr_host_addr(mr, sge->addr), to, len, job);
    else
        mem_memcpy(to, s->wqe.inline_data, len);
}

/* Its payload, or that of a packet before it, comes with the batch: so does the rest. */
static void leave_job(struct engine *e, struct qp *qp, unsigned job, struct frame *f, uint32_t slot,
                      psn_t p)
{
    e->tx_job[job] = (struct tx_job){.frame = f,
                                     .qp = qp,
                                     .encap = &qp->encap,
                                     .bth_len = (uint16_t)(f->len - qp->encap.len),
                                     .slot = slot,
                                     .psn = p};
}

static void move_on(struct engine *e, struct qp *qp, unsigned n)
{
    struct requester *req = &qp->req;

    req->sq.cons += n;
    req->ack_req = psn_add(req->next_psn, n - 1);
    req->next_psn = req->max_psn = psn_add(req->next_psn, n);
    req->head += n;
    req->send += n;
    req_arm_timer(e, qp);
}

/*
 * Up to n of them. A message whose memory is not mapped comes with the batch, and all behind it
 * wait for that: late says whether these are such messages. Inlined once for each.
 */
ALWAYS_INLINE unsigned run(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                           bool late)
{
    const struct requester *req = &qp->req;
    struct place entry = place_in(req->sq.ring, req->sq.size, req->sq.stride, req->sq.cons);
    struct place slot = place_in(req->slots, req->slot_count, req->slot_stride, req->head);
    uint32_t index = req->sq.cons, max_inline = req->sq.max_inline;
    struct head head = {.message = NO_MESSAGE};
    struct source from = {0};
    psn_t p = req->next_psn;
    unsigned i;

    for (i = 0; i < n; i++, advance(&entry), advance(&slot), p = psn_add(p, 1)) {
        struct send_slot *s = (struct send_slot *)slot.at;
        uint64_t message = copy_entry(entry.at, max_inline, &s->wqe);
        uint8_t *payload;

        if (unlikely(message != head.message)) {
            if (message == NOT_SIMPLE || MESSAGE_LEN(message) > qp->mtu)
                break;
            if (!late)
                tx_head_seal(e, qp, &head.tx, frames, i);
            make_head(e, qp, message, &head);
            head.tx.first = i;
        }
        if (head.in_memory && (!find_source(e, qp, s->wqe.sge, MEM_LOCAL_READ, &from) ||
                               (!late && !from.mr->direct) || (late && mem_batch_full(&e->batch))))
            break;
        start_slot(s, index + i, MESSAGE_LEN(message), 1, p);
        payload = put_headers(&head, s, qp, &frames[i]);
        if (!late && unlikely(head.many))
            tx_head_seal_copy(e, qp, &head.tx, &frames[i], mr_direct(from.mr, s->wqe.sge->addr),
                              s->len);
        else
            put_payload(e, &head, s, from.mr, payload, e->jobs + i);
        if (late)
            leave_job(e, qp, e->jobs + i, &frames[i], req->head + i, p);
    }
    if (!i)
        return 0;
    if (!late) {
        tx_head_seal(e, qp, &head.tx, frames, i);
        e->sealed += i;
    }
    move_on(e, qp, i);
    return i;
}

static __attribute__((noinline)) unsigned run_late(struct engine *e, struct qp *qp,
                                                   struct frame *frames, unsigned n)
{
    return run(e, qp, frames, n, true);
}

unsigned req_only(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    unsigned taken = 0;

    n = may_take(e, qp, n);
    if (likely(n && e->sealed == e->jobs))
        taken = run(e, qp, frames, n, false);
    if (likely(taken) || !n)
        return taken;
    if (e->sealed == e->jobs)
        taken = req_reads(e, qp, frames, n);
    return taken ? taken : run_late(e, qp, frames, n);
}
