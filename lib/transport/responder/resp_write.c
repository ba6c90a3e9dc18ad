/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes WRITEs that have been judged, one packet or a batch: the payload goes straight to mapped
 * memory. Other memory is reached through the engine's queued copies.
 */
#include "count.h"
#include "late.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"
#include "rx_flush.h"
#include "srq.h"

uint32_t resp_domain(const struct engine *e, const struct qp *qp, unsigned job)
{
    const struct srq *srq = e->rx_job[job].srq;

    return srq ? srq->init.pd : qp->pd;
}

/* Where a payload goes, if the key grants mapped memory; NULL: not that simple. */
ALWAYS_INLINE uint8_t *write_address(struct rx_batch *b, struct mr_grant *g, uint32_t rkey,
                                     uint64_t va, uint32_t len)
{
    return rx_batch_lookup(b, g, &b->qp->resp.write_hint, rkey, MEM_REMOTE_WRITE, va, len);
}

/* The message in progress goes on by a packet of len bytes. */
ALWAYS_INLINE void write_advance(struct responder *resp, uint16_t flags, uint32_t len)
{
    resp->write_va += len;
    resp->write_left -= len;
    resp->msg_len += len;
    resp->op = flags & PF_END ? RESP_IDLE : RESP_WRITE;
}

ALWAYS_INLINE void write_begin(struct responder *resp, uint64_t va, uint32_t rkey, uint32_t len)
{
    resp->msg_len = 0;
    resp->write_va = va;
    resp->write_rkey = rkey;
    resp->write_left = len;
}

/* ---- one packet ---- */

/* Writes to memory that is not mapped, or belongs to a window. The key may have been revoked since
 * the message was checked as a whole. */
static enum fault write_queued(struct engine *e, struct qp *qp, unsigned job, const struct pkt *p)
{
    struct responder *resp = &qp->resp;
    struct mr_span span;
    enum mr_fault f;

    if (mem_batch_full(&e->batch))
        rx_flush(e);
    if (qp->fault) /* of a request before it, found just now */
        return qp->fault;
    f = mr_check_remote(&e->mrs, resp->write_rkey, resp_domain(e, qp, job), qp->qpn, resp->write_va,
                        p->payload_len, MEM_REMOTE_WRITE, &span);
    if (f != MR_OK)
        return why_access_fault(e, qp, FAULT_REMOTE_ACCESS, f, resp->write_rkey, resp->write_va,
                                p->payload_len, MEM_REMOTE_WRITE);
    if (!span.window && span.mr->direct && !e->rx_job[job].srq) /* the next WRITE is direct */
        mr_hint_note(&resp->write_hint, &e->mrs, resp->write_rkey, qp->pd, MEM_REMOTE_WRITE);
    if (mem_refuses(&e->batch, span.mr)) {
        mr_span_end(&span);
        return late_wait(e, qp);
    }
    mem_batch_out_span(&e->batch, &span, p->payload, p->payload_len, job);
    return FAULT_NONE;
}

/* Writes to mapped memory under the key of the last WRITE: XRC, whose keys belong to the SRQ's
 * domain, notes none. False: not that simple. */
static bool write_direct(const struct engine *e, const struct qp *qp, const struct pkt *p)
{
    const struct responder *resp = &qp->resp;
    const struct mr_hint *hint = &resp->write_hint;
    const struct mem_region *mr = hint->mr;

    if (!mr_hint_holds(hint, e->cfg.mrs, resp->write_rkey) || !mr->direct ||
        !mr_covers(mr, resp->write_va, p->payload_len))
        return false;
    mr_grant_copy(mr_direct(mr, resp->write_va), p->payload, p->payload_len);
    return true;
}

enum fault resp_write(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct responder *resp = &qp->resp;
    uint16_t flags = pkt_info(p)->flags;
    enum fault fault = FAULT_NONE;

    if (flags & PF_START)
        write_begin(resp, p->reth.va, p->reth.rkey, p->reth.len);
    if (p->payload_len && !write_direct(e, qp, p))
        fault = write_queued(e, qp, job, p);
    if (fault != FAULT_NONE)
        return fault;
    write_advance(resp, flags, p->payload_len);
    if ((flags & PF_END) && (flags & PF_IMM))
        resp_complete_recv(e, qp, job);
    else if ((flags & PF_END) && counts(qp, QP_COUNT_PEER_WRITE))
        count_write_later(e, qp, job, resp->msg_len);
    return FAULT_NONE;
}

/* ---- a batch ---- */

/* Each of them may become an rx_completion. */
static unsigned counted_room(const struct engine *e, unsigned n)
{
    return min_of(n, (unsigned)ARRAY_SIZE(e->completion) - e->completions);
}

unsigned resp_admit_writes(struct rx_batch *b, unsigned n)
{
    const uint8_t *bth = b->span->bth;
    struct responder *resp = &b->qp->resp;
    bool start = opcode_table[bth_opcode(bth)].flags & PF_RETH;

    if (!resp_right_ok(b->qp, MEM_REMOTE_WRITE))
        return 0;
    if (counts(b->qp, QP_COUNT_PEER_WRITE))
        n = counted_room(b->e, n);
    b->grant = rx_batch_grant(b, &resp->write_hint,
                              start ? reth_rkey(rx_batch_eth(b, b->span)) : resp->write_rkey,
                              MEM_REMOTE_WRITE);
    return b->grant.direct || b->grant.copied ? n : 0;
}

/* Without queued copies the bytes are there. */
static __attribute__((noinline)) void count_batch(struct rx_batch *b, unsigned n)
{
    const struct engine *e = b->e;
    uint64_t bytes = 0;

    if (!e->batch.n && !e->completions && !e->copies_failed) {
        for (unsigned i = 0; i < n; i++)
            bytes += b->span[i].payload;
        count_done(b->e, b->qp, QP_COUNT_PEER_WRITE, n, bytes);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        rx_batch_job(b, i);
        count_write_later(b->e, b->qp, b->job + i, b->span[i].payload);
    }
}

/* WRITE ONLY to memory that is not mapped. */
static __attribute__((noinline)) unsigned place_queued(struct rx_batch *b, unsigned n)
{
    struct mr_grant g = b->grant;
    unsigned i;

    for (i = 0; i < n; i++) {
        const uint8_t *reth = rx_batch_eth(b, &b->span[i]);
        uint64_t va = reth_va(reth);
        uint32_t len = b->span[i].payload;

        if (write_address(b, &g, reth_rkey(reth), va, len) ||
            !resp_write_len_ok(PF_START | PF_END, reth_len(reth), len) ||
            !rx_batch_queue(b, &g, i, va, reth + RETH_LEN, len))
            break;
    }
    b->messages = i;
    return i;
}

/* WRITE ONLY without immediate data. */
unsigned resp_place_writes(struct rx_batch *b, unsigned n)
{
    const uint16_t flags = PF_START | PF_END;
    struct qp *qp = b->qp;
    const struct icrc_span *s = b->span;
    struct mr_grant g = b->grant;
    unsigned i;

    if (!resp_order_ok(&qp->resp, flags, RESP_WRITE))
        return 0;
    for (i = 0; i < n; i++, s++) {
        const uint8_t *reth = rx_batch_eth(b, s);
        uint32_t len = s->payload;
        uint8_t *to = write_address(b, &g, reth_rkey(reth), reth_va(reth), len);

        if (unlikely(!to || !resp_write_len_ok(flags, reth_len(reth), len)))
            break;
        mr_grant_copy(to, reth + RETH_LEN, len);
    }
    b->messages = i;
    if (unlikely(!i))
        i = place_queued(b, n);
    if (counts(qp, QP_COUNT_PEER_WRITE))
        count_batch(b, i);
    return i;
}

/* Begins a WRITE of several packets; false: its R_Key does not cover all of it (9.7.4.1.7). */
static bool begin_long_write(struct rx_batch *b, struct mr_grant *g, const uint8_t *reth)
{
    struct qp *qp = b->qp;

    if (!write_address(b, g, reth_rkey(reth), reth_va(reth), reth_len(reth)) &&
        !mr_grant_covers(g, reth_va(reth), reth_len(reth)))
        return false;
    write_begin(&qp->resp, reth_va(reth), reth_rkey(reth), reth_len(reth));
    return true;
}

/* Packet i, of a WRITE of several, without immediate data. */
static bool place_segment(struct rx_batch *b, struct mr_grant *g, unsigned i)
{
    const uint8_t *bth = b->span[i].bth, *reth = rx_batch_eth(b, &b->span[i]);
    uint32_t len = b->span[i].payload;
    struct qp *qp = b->qp;
    struct responder *resp = &qp->resp;
    uint16_t flags = opcode_table[bth_opcode(bth)].flags;
    uint32_t left = flags & PF_START ? reth_len(reth) : resp->write_left;
    uint8_t *to;

    if (!resp_order_ok(resp, flags, RESP_WRITE) || !resp_payload_ok(flags, len, qp->mtu) ||
        !resp_write_len_ok(flags, left, len))
        return false;
    if ((flags & PF_START) && !begin_long_write(b, g, reth))
        return false;
    to = write_address(b, g, resp->write_rkey, resp->write_va, len);
    if (to)
        memcpy(to, bth_payload(bth), len);
    else if (!rx_batch_queue(b, g, i, resp->write_va, bth_payload(bth), len))
        return false;
    write_advance(resp, flags, len);
    b->messages += !!(flags & PF_END);
    if ((flags & PF_END) && counts(qp, QP_COUNT_PEER_WRITE)) {
        rx_batch_job(b, i);
        count_write_later(b->e, qp, b->job + i, resp->msg_len);
    }
    return true;
}

unsigned resp_place_segments(struct rx_batch *b, unsigned n)
{
    struct mr_grant g = b->grant;
    unsigned i = 0;

    while (i < n && place_segment(b, &g, i))
        i++;
    return i;
}
