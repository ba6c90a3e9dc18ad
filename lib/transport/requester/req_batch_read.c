/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * READs into one SGE, as many at a time as may be outstanding. The steps are those of req_take.c,
 * req_check.c and req_segment.c that such a WQE needs; retransmission uses the general path.
 */
#include "req_batch.h"

NO_STACK_PROTECTOR unsigned req_batch_reads(struct engine *e, struct qp *qp, struct frame *frames,
                                            unsigned n, unsigned psns)
{
    const struct requester *req = &qp->req;
    struct ring_cursor wqe = new_wqes(req), slot = slots_from(req, req->head);
    struct tx_header header = {.first = 0};
    struct sge_region into = {0};
    psn_t p = req->next_psn, last = p;
    unsigned i;

    n = min_of(n, req_reads_allowed(qp));
    for (i = 0; i < n && (uint32_t)psn_diff(p, req->next_psn) < psns; i++) {
        struct send_slot *s = (struct send_slot *)slot.at;
        const struct sge *sge = s->wqe.sge;
        uint32_t packets;

        if (!send_wqe_copy_read(wqe.at, &s->wqe) ||
            !sge_region_find(e, qp, sge, MEM_LOCAL_WRITE, &into))
            break;
        packets = packets_for(sge->length, qp->mtu);
        slot_start(s, req->sq.cons + i, sge->length, packets, p);
        if (!i)
            tx_header_make(e, &qp->encap, qp->dest_qpn, &header,
                           bth_first_word(OPCODE(PKT_RC, OP_READ_REQUEST), 0, 0),
                           BTH_LEN + RETH_LEN + ICRC_LEN);
        reth_put(tx_header_put(&header, qp->encap.len, &frames[i], BTH_ACK_REQ | p.v),
                 s->wqe.h.remote_addr, s->wqe.h.rkey, sge->length);
        last = p;
        p = psn_add(p, packets);
        ring_cursor_next(&wqe);
        ring_cursor_next(&slot);
    }
    if (!i)
        return 0;
    tx_header_seal(e, qp, &qp->encap, &header, frames, i);
    e->sealed += i;
    req_commit_messages(e, qp, i, last, p, true);
    return i;
}
