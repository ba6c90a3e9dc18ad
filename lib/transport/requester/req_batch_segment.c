/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of a long message, neither its first nor its last, as many at a time as may be sent:
 * req_segment builds them one by one from memory that is not mapped.
 */
#include "requester.h"
#include "sg.h"
#include "tx_header.h"

/* Such packets of the message at the sending position that were never sent. */
static uint32_t segments_left(const struct qp *qp, const struct send_slot *s)
{
    const struct requester *req = &qp->req;

    if (!req_has_batches(qp) || !req_takes_new(qp) || !psn_eq(req->next_psn, req->max_psn) ||
        qp->mtu < TX_COPY_LATE_MIN || s->status != WC_SUCCESS)
        return 0;
    return s->packets - 1 - req->pkt;
}

unsigned req_batch_segments(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    const struct requester *req = &qp->req;
    struct send_slot *s = slot_at(req, req->send);
    uint32_t word = bth_first_word(OPCODE(qp->service, req_ops[s->wqe.h.opcode & 15].middle), 0, 0);
    bool xrc = qp->service == PKT_XRC, acknowledged = qp_is_reliable(qp), asked = false;
    uint32_t bth_len = BTH_LEN + (xrc ? XRCETH_LEN : 0) + qp->mtu + ICRC_LEN;
    psn_t p = req->next_psn, ack_asked_psn = req->ack_asked_psn;
    unsigned i;

    n = e->sealed == e->jobs ? min_of(n, segments_left(qp, s)) : 0;
    for (i = 0; i < n; i++, p = psn_add(p, 1)) {
        const uint8_t *source =
            sg_source(e, qp->pd, s->wqe.sge, s->wqe.h.num_sge, (req->pkt + i) * qp->mtu, qp->mtu);
        uint8_t *frame = frames[i].data, *bth = frame + qp->encap.len;
        bool ack = acknowledged && req_asks_for_ack(req, p, ack_asked_psn, 0);

        if (!source)
            break;
        encap_tx(frame, &qp->encap, bth_len, e->ip_id++);
        bth_put_flow(bth, word, qp->dest_qpn);
        bth_put_last_word(bth, (ack ? BTH_ACK_REQ : 0) | p.v);
        if (unlikely(xrc))
            xrceth_put(bth + BTH_LEN, s->wqe.h.remote_srqn);
        frames[i].len = tx_seal_copy(&frames[i], &qp->encap, bth_len, source, qp->mtu);
        if (ack)
            ack_asked_psn = p;
        asked |= ack;
    }
    if (!i)
        return 0;
    e->sealed += i;
    tx_count(e, qp, qp->encap.priority, i, (uint64_t)i * frames->len);
    req_commit_segments(e, qp, i, ack_asked_psn, asked);
    return i;
}
