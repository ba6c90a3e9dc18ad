/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics into one SGE, as many at a time as may be outstanding. The steps are those of req_take.c,
 * req_check.c and req_segment.c that such a WQE needs; retransmission uses the general path.
 */
#include "req_batch.h"

/* The header of COMPARE SWAP or FETCH ADD. */
static void header_make(struct engine *e, const struct qp *qp, uint8_t op, struct tx_header *h)
{
    tx_header_make(e, &qp->encap, qp->dest_qpn, h,
                   bth_first_word(OPCODE(PKT_RC, req_ops[op].only), 0, 0),
                   BTH_LEN + ATOMIC_ETH_LEN + ICRC_LEN);
}

static void eth_put(uint8_t *eth, const struct sqe *w)
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
    struct sge_region into = {0};
    uint64_t ignored = fence_of_first(req);
    psn_t p = req->next_psn;
    uint8_t op = SQE_WRITE; /* no header yet */
    unsigned i;

    n = min_of(n, req_reads_allowed(qp));
    for (i = 0; i < n; i++, ring_cursor_next(&wqe), ring_cursor_next(&slot), p = psn_add(p, 1)) {
        struct send_slot *s = (struct send_slot *)slot.at;

        if (!send_wqe_copy_atomic(wqe.at, ignored, &s->wqe) ||
            !sge_region_find(e, qp, s->wqe.sge, MEM_LOCAL_WRITE, &into))
            break;
        ignored = 0;
        if (unlikely(s->wqe.h.opcode != op)) {
            tx_header_seal(e, qp, &qp->encap, &header, frames, i);
            header.first = i;
            op = s->wqe.h.opcode;
            header_make(e, qp, op, &header);
        }
        slot_start(s, req->sq.cons + i, sizeof(uint64_t), 1, p);
        eth_put(tx_header_put(&header, qp->encap.len, &frames[i], BTH_ACK_REQ | p.v), &s->wqe.h);
    }
    if (!i)
        return 0;
    tx_header_seal(e, qp, &qp->encap, &header, frames, i);
    e->sealed += i;
    req_commit_messages(e, qp, i, psn_prev(p), p, true);
    return i;
}
