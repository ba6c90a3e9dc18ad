/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * READs, as many at a time as may be outstanding. The steps are those of req_take.c, req_check.c
 * and req_segment.c that such a WQE needs; retransmission uses the general path.
 */
#include "req_batch.h"

static bool may_scatter(struct engine *e, const struct qp *qp, const struct send_wqe *w,
                        struct sge_region *into)
{
    for (unsigned i = 0; i < w->h.num_sge; i++)
        if (w->sge[i].length && !sge_region_find(e, qp, &w->sge[i], MEM_LOCAL_WRITE, into))
            return false;
    return true;
}

/* Of READs into one SGE each, or scattered: into several. */
ALWAYS_INLINE unsigned build_reads(struct engine *e, struct qp *qp, struct frame *frames,
                                   unsigned n, unsigned psns, bool scattered, uint64_t fence)
{
    const uint8_t opcode = OPCODE(qp->service, OP_READ_REQUEST);
    const struct requester *req = &qp->req;
    struct ring_cursor wqe = new_wqes(req), slot = slots_from(req, req->head);
    struct tx_header header = {.first = 0};
    struct sge_region into = {0};
    psn_t p = req->next_psn, last = p;
    unsigned i;

    n = min_of(n, req_reads_allowed(qp));
    for (i = 0; i < n && (uint32_t)psn_diff(p, req->next_psn) < psns; i++) {
        struct send_slot *s = (struct send_slot *)slot.at;
        uint32_t packets, len;
        uint8_t *eth;

        if (!send_wqe_copy_read(wqe.at, scattered, req->sq.max_sge, fence, &s->wqe, &len) ||
            !(scattered ? may_scatter(e, qp, &s->wqe, &into)
                        : sge_region_find(e, qp, s->wqe.sge, MEM_LOCAL_WRITE, &into)))
            break;
        packets = packets_for(len, qp->mtu);
        slot_start(s, req->sq.cons + i, len, packets, p);
        if (!i)
            tx_header_make(e, &qp->encap, qp->dest_qpn, &header, bth_first_word(opcode, 0, 0),
                           (uint32_t)pkt_len(opcode, 0));
        eth = tx_header_put(&header, qp->encap.len, &frames[i], BTH_ACK_REQ | p.v);
        if (unlikely(qp->service == PKT_XRC))
            eth = xrc_srq_put(eth, wqe.at, s);
        reth_put(eth, s->wqe.h.remote_addr, s->wqe.h.rkey, len);
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

NO_STACK_PROTECTOR unsigned req_batch_reads(struct engine *e, struct qp *qp, struct frame *frames,
                                            unsigned n, unsigned psns)
{
    return build_reads(e, qp, frames, n, psns, false, 0);
}

NO_STACK_PROTECTOR unsigned req_batch_other_reads(struct engine *e, struct qp *qp,
                                                  struct frame *frames, unsigned n, unsigned psns)
{
    unsigned taken;

    if (!req_reads_allowed(qp))
        return 0;
    taken = build_reads(e, qp, frames, n, psns, true, 0);
    if (taken || !fence_of_first(&qp->req))
        return taken;
    n = min_of(n, 1u);
    taken = build_reads(e, qp, frames, n, psns, false, WQE_FENCE);
    return taken ? taken : build_reads(e, qp, frames, n, psns, true, WQE_FENCE);
}
