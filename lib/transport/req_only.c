/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of one packet, which most are: WRITEs and SENDs of at most a path MTU, inline or from
 * one SGE, as many in one go as may be sent. Each is taken as take_slot, req_check and req_segment
 * take it, without those of their steps that find nothing in such a work request, and what is the
 * same for all is done once. Slots are left as they leave them: a retransmission goes their way.
 */
#include "encap_put.h"
#include "transport.h"

/* The second word of such a work request: opcode, flags, number of SGEs. */
#define TAKEN_FLAGS UINT64_C(0x0600) /* signaled, solicited */
#define TAKEN_MASK  (UINT64_C(0xFFFFFC) & ~TAKEN_FLAGS)
#define ONE_SGE     UINT64_C(0x010000)
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
        req->send != req->head || !psn_eq(req->next_psn, req->max_psn) ||
        inflight >= e->cfg.max_inflight)
        return 0;
    pending = work_queue_pending(&req->sq);
    if (pending <= 0)
        return 0;
    n = min_of(n, (unsigned)pending);
    n = min_of(n, e->cfg.max_inflight - inflight);
    return min_of(n, req->slot_count - (req->head - req->tail));
}

/* Few bytes without a call: two pieces that overlap. */
static inline void copy_bytes(uint8_t *to, const uint8_t *from, uint32_t len)
{
    uint64_t first, last;

    if (len - 8 > 8) {
        memcpy(to, from, len);
        return;
    }
    memcpy(&first, from, 8);
    memcpy(&last, from + len - 8, 8);
    memcpy(to, &first, 8);
    memcpy(to + len - 8, &last, 8);
}

/*
 * Copies an entry without taking it, if it is such a message. Of its words each is loaded once: the
 * application may rewrite them meanwhile, and then gets what it deserves. What the other words mean
 * belongs to other operations. Returns the message's length, or UINT32_MAX.
 */
static inline uint32_t copy_entry(const volatile uint64_t *entry, uint32_t max_inline,
                                  struct send_wqe *w)
{
    uint64_t *h = (uint64_t *)(void *)&w->h, *sge = (uint64_t *)(void *)w->sge;
    uint64_t word = entry[1], last = entry[3];
    uint32_t len;

    if (likely((word & TAKEN_MASK) == ONE_SGE)) {
        last &= UINT32_MAX; /* no inline bytes */
        sge[0] = entry[sizeof(struct sqe) / 8];
        sge[1] = entry[sizeof(struct sqe) / 8 + 1];
        len = w->sge[0].length;
    } else if ((word & INLINE_MASK) == INLINE_DATA && last >> 32 <= max_inline) {
        len = (uint32_t)(last >> 32);
        word &= ~UINT64_C(0xFF0000); /* no SGEs */
        copy_bytes(w->inline_data, (const uint8_t *)(uintptr_t)entry + sizeof(struct sqe), len);
    } else {
        return UINT32_MAX;
    }
    h[0] = entry[0];
    h[1] = word;
    h[2] = entry[2];
    h[3] = last;
    return len;
}

/* What is known of the region that holds the bytes. */
struct source {
    struct mem_region *mr;
    uint32_t lkey;
};

static inline bool find_source(struct engine *e, const struct qp *qp, const struct sge *sge,
                               struct source *from)
{
    if (likely(from->mr && from->lkey == sge->lkey))
        return mr_covers(from->mr, sge->addr, sge->length);
    from->lkey = sge->lkey;
    from->mr = NULL;
    return mr_check(&e->mrs, sge->lkey, qp->pd, sge->addr, sge->length, MEM_LOCAL_READ,
                    &from->mr) == MR_OK;
}

/* BTH, and what comes before the payload, whose place is returned. */
static inline uint8_t *put_headers(const struct qp *qp, const struct sqe *w, uint32_t len, psn_t p,
                                   uint8_t *bth)
{
    static const uint8_t opcode[] = {
        [SQE_WRITE] = OPCODE(PKT_RC, OP_WRITE_ONLY),
        [SQE_WRITE_IMM] = OPCODE(PKT_RC, OP_WRITE_ONLY_IMM),
        [SQE_SEND] = OPCODE(PKT_RC, OP_SEND_ONLY),
        [SQE_SEND_IMM] = OPCODE(PKT_RC, OP_SEND_ONLY_IMM),
    };
    uint8_t *next = bth + BTH_LEN;

    put_be32(bth, (uint32_t)opcode[w->opcode & 3] << 24 |
                      (uint32_t)(w->flags & SQE_SOLICITED) << (23 - 2) | pkt_pad(len) << 20 |
                      PKEY_DEFAULT);
    put_be32(bth + 4, qp->dest_qpn);
    put_be32(bth + 8, UINT32_C(1) << 31 | p.v); /* asks for an ACK */
    if (!(w->opcode & SQE_SEND)) {
        put_be64(next, w->remote_addr);
        put_be32(next + 8, w->rkey);
        put_be32(next + 12, len);
        next += 16;
    }
    if (w->opcode & 1) {
        memcpy(next, &w->imm, sizeof(w->imm));
        next += sizeof(w->imm);
    }
    return next;
}
_Static_assert(SQE_SOLICITED == 1 << 2, "");

static inline void start_slot(struct send_slot *s, uint32_t index, uint32_t len, psn_t p)
{
    s->index = index;
    s->len = len;
    s->packets = 1;
    s->done = 0;
    s->first = p;
    s->status = WC_SUCCESS;
    s->started = true;
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

/* Takes the i-th of the entries that wait into the i-th free slot. False: it is not such a message,
 * or its memory is not to be read. */
static inline bool take(struct engine *e, const struct qp *qp, unsigned i, struct send_slot *s,
                        struct source *from)
{
    const struct requester *req = &qp->req;
    uint32_t index = req->sq.cons + i;
    const uint8_t *entry = req->sq.ring + (size_t)(index & (req->sq.size - 1)) * req->sq.stride;
    uint32_t len =
        copy_entry((const volatile uint64_t *)(const void *)entry, req->sq.max_inline, &s->wqe);

    if (len > qp->mtu ||
        (len && !(s->wqe.h.flags & SQE_INLINE) && !find_source(e, qp, s->wqe.sge, from)))
        return false;
    s->index = index;
    s->len = len;
    s->packets = 1;
    s->done = 0;
    s->first = psn_add(req->next_psn, i);
    s->status = WC_SUCCESS;
    s->started = true;
    return true;
}

/* The bytes of the job that is s. False: they come with the batch. */
static inline bool put_payload(struct engine *e, const struct send_slot *s, struct mem_region *mr,
                               uint8_t *to, unsigned job)
{
    const struct sge *sge = s->wqe.sge;

    memset(to + s->len, 0, ICRC_LEN); /* the pad, and more */
    if (s->wqe.h.flags & SQE_INLINE)
        copy_bytes(to, s->wqe.inline_data, s->len);
    else if (likely(mr && mr->direct))
        copy_bytes(to, mr_direct(mr, sge->addr), s->len);
    else if (s->len)
        return mem_batch_in(&e->batch, mr, mr_host_addr(mr, sge->addr), to, s->len, job);
    return true;
}

unsigned req_only(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    const struct encap_template *encap = &qp->encap;
    struct source from = {0};
    bool late = e->sealed != e->jobs;
    unsigned i, here = 0;
    uint64_t bytes = 0;

    n = may_take(e, qp, n);
    for (i = 0; i < n && !mem_batch_full(&e->batch); i++) {
        struct send_slot *s = slot_at(&qp->req, qp->req.head + i);
        struct frame *f = &frames[i];
        uint8_t *bth = f->data + encap->len, *payload;
        uint32_t bth_len;

        if (!take(e, qp, i, s, &from))
            break;
        payload = put_headers(qp, &s->wqe.h, s->len, s->first, bth);
        late |= !put_payload(e, s, from.mr, payload, e->jobs + i);
        bth_len = (uint32_t)(payload - bth) + s->len + pkt_pad(s->len) + ICRC_LEN;
        encap_put(f->data, encap, bth_len, e->ip_id++);
        f->len = encap->len + bth_len;
        if (unlikely(late)) {
            leave_job(e, qp, e->jobs + i, f, qp->req.head + i, s->first);
            continue;
        }
        here++;
        bytes += f->len;
    }
    if (!i)
        return 0;
    encap_seal_frames(encap, frames, here);
    tx_count(e, qp, encap->priority, here, bytes);
    e->sealed += here;
    move_on(e, qp, i);
    return i;
}
