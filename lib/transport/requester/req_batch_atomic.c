/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics into one SGE, ATOMIC WRITEs and FLUSHes, as many at a time as may be outstanding. The
 * steps are those of req_take.c, req_check.c and req_segment.c that such a WQE needs;
 * retransmission uses the general path.
 */
#include "req_batch.h"

/* The header of requests with this operation. */
static void header_make(struct engine *e, const struct qp *qp, uint8_t op, struct tx_header *h)
{
    uint8_t opcode = OPCODE(qp->service, req_ops[op].only);

    tx_header_make(e, &qp->encap, qp->dest_qpn, h, bth_first_word(opcode, 0, 0),
                   (uint32_t)pkt_len(opcode, op == SQE_ATOMIC_WRITE ? sizeof(uint64_t) : 0));
}

/* The value of an ATOMIC WRITE; NULL: it is in memory that is not mapped, or not the queue pair's
 * to read. */
static const uint8_t *find_value(struct engine *e, const struct qp *qp, const struct send_wqe *w,
                                 struct sge_region *from)
{
    if (w->h.flags & SQE_INLINE)
        return w->inline_data;
    if (!sge_region_find(e, qp, w->sge, MEM_LOCAL_READ, from) || !from->mr->direct)
        return NULL;
    return mr_direct(from->mr, w->sge->addr);
}

/* Copies an ATOMIC WRITE or a FLUSH. value: of an ATOMIC WRITE. False: the general path must judge
 * it. */
static __attribute__((noinline)) bool copy_other(struct engine *e, const struct qp *qp,
                                                 const void *entry, uint64_t ignored,
                                                 struct send_wqe *w, struct sge_region *from,
                                                 const uint8_t **value)
{
    if (send_wqe_copy_flush(entry, ignored, w))
        return true;
    if (!send_wqe_copy_atomic_write(entry, qp->req.sq.max_inline, ignored, w))
        return false;
    *value = find_value(e, qp, w, from);
    return *value;
}

/* What follows the BTH. value: of an ATOMIC WRITE. */
static __attribute__((noinline)) void other_eth_put(uint8_t *eth, const struct sqe *w,
                                                    const uint8_t *value)
{
    if (value) {
        reth_put(eth, w->remote_addr, w->rkey, sizeof(uint64_t));
        memcpy(eth + RETH_LEN, value, sizeof(uint64_t));
    } else {
        feth_put(eth, w->flush.selectivity, w->flush.placement);
        reth_put(eth + FETH_LEN, w->remote_addr, w->rkey, (uint32_t)w->flush.length);
    }
}

static void atomic_put(uint8_t *eth, const struct sqe *w)
{
    bool swap = w->opcode == SQE_CMP_SWP;

    atomic_eth_put(eth, w->remote_addr, w->rkey, swap ? w->atomic.swap : w->atomic.compare_add,
                   swap ? w->atomic.compare_add : 0);
}

NO_STACK_PROTECTOR unsigned req_batch_atomics(struct engine *e, struct qp *qp, struct frame *frames,
                                              unsigned n)
{
    const struct requester *req = &qp->req;
    struct ring_cursor wqe = new_wqes(req), slot = slots_from(req, req->head);
    struct tx_header header = {.first = 0};
    struct sge_region into = {0}, from = {0};
    uint64_t ignored = fence_of_first(req);
    psn_t p = req->next_psn;
    uint8_t op = SQE_WRITE; /* no header yet */
    unsigned i;

    n = min_of(n, req_reads_allowed(qp));
    for (i = 0; i < n; i++, ring_cursor_next(&wqe), ring_cursor_next(&slot), p = psn_add(p, 1)) {
        struct send_slot *s = (struct send_slot *)slot.at;
        const uint8_t *value = NULL;
        uint8_t *eth;

        if (unlikely(!send_wqe_copy_atomic(wqe.at, ignored, &s->wqe))) {
            if (!send_wqe_is_write_or_flush(wqe.at) ||
                !copy_other(e, qp, wqe.at, ignored, &s->wqe, &from, &value))
                break;
        } else if (!sge_region_find(e, qp, s->wqe.sge, MEM_LOCAL_WRITE, &into))
            break;
        ignored = 0;
        if (unlikely(s->wqe.h.opcode != op)) {
            tx_header_seal(e, qp, &qp->encap, &header, frames, i);
            header.first = i;
            op = s->wqe.h.opcode;
            header_make(e, qp, op, &header);
        }
        eth = tx_header_put(&header, qp->encap.len, &frames[i], BTH_ACK_REQ | p.v);
        if (unlikely(qp->service == PKT_XRC))
            eth = xrc_srq_put(eth, wqe.at, s);
        if (likely(op_is_atomic(op)))
            atomic_put(eth, &s->wqe.h);
        else
            other_eth_put(eth, &s->wqe.h, value);
        slot_start(s, req->sq.cons + i, op == SQE_FLUSH ? 0 : sizeof(uint64_t), 1, p);
    }
    if (!i)
        return 0;
    tx_header_seal(e, qp, &qp->encap, &header, frames, i);
    e->sealed += i;
    req_commit_messages(e, qp, i, psn_prev(p), p, true);
    return i;
}
