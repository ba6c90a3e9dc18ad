/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's packets: a message cut at the path MTU (volume 1, 9.4 and 9.7.3). */
#include "req_credit.h"
#include "req_sack.h"
#include "requester.h"
#include "sg.h"
#include "tx_header.h"

/* Which of the message's packets this is. */
static uint8_t packet_opcode(const struct req_op *op, const struct send_slot *s, uint32_t i)
{
    if ((op->traits & REQ_HAS_RESPONSE) || s->packets == 1)
        return op->only;
    if (i == 0)
        return op->first;
    return i == s->packets - 1 ? op->last : op->middle;
}

/* A READ whose responses further on are here asks for those that are missing, up to these. */
static uint32_t missing_part(const struct qp *qp, const struct send_slot *s, uint32_t left)
{
    uint32_t psns = s->packets - qp->req.pkt, n = req_sack_hole(qp, qp->req.next_psn, psns);

    return n < psns ? n * qp->mtu : left;
}

static void fill_packet(const struct qp *qp, const struct send_slot *s, struct pkt *p)
{
    const struct sqe *w = &s->wqe.h;
    uint32_t off = qp->req.pkt * qp->mtu;
    uint16_t flags = pkt_info(p)->flags;

    p->pkey = PKEY_DEFAULT;
    p->dest_qpn = qp->dest_qpn;
    p->psn = qp->req.next_psn;
    p->ack_req = qp_is_reliable(qp) &&
                 (req_asks_for_ack(&qp->req, qp->req.next_psn, qp->req.ack_asked_psn, flags) ||
                  unlikely(!qp->req.pkt && req_is_beyond_credit(&qp->req)));
    p->solicited = (flags & PF_END) && (w->flags & SQE_SOLICITED) && op_takes_receive(w->opcode);
    p->payload_len = flags & PF_PAYLOAD ? min_of(s->len - off, qp->mtu) : 0;
    if (flags & PF_IMM)
        p->imm = __builtin_bswap32(w->imm);
    if (flags & PF_IETH)
        p->ieth_rkey = w->imm;
    if (flags & PF_XRCETH)
        p->xrc_srqn = w->remote_srqn;
    if (flags & PF_RETH) { /* a READ that was cut short asks for the rest */
        p->reth.va = w->remote_addr + off;
        p->reth.rkey = w->rkey;
        p->reth.len = s->len - off;
        if (unlikely(qp->req.sack) && w->opcode == SQE_READ)
            p->reth.len = missing_part(qp, s, p->reth.len);
        if (req_asks_one(&qp->req, p->psn))
            p->reth.len = qp->mtu;
    }
    if (flags & PF_FETH) {
        p->reth.len = (uint32_t)w->flush.length;
        p->feth.placement = w->flush.placement;
        p->feth.selectivity = w->flush.selectivity;
    }
    if (flags & PF_ATOMICETH) {
        bool swap = w->opcode == SQE_CMP_SWP;

        p->atomic.va = w->remote_addr;
        p->atomic.rkey = w->rkey;
        p->atomic.swap_add = swap ? w->atomic.swap : w->atomic.compare_add;
        p->atomic.compare = swap ? w->atomic.compare_add : 0;
    }
}

bool req_gather(struct engine *e, struct qp *qp, struct send_slot *s, uint8_t *payload,
                uint32_t len)
{
    uint32_t off = qp->req.pkt * qp->mtu;

    if (s->wqe.h.flags & SQE_INLINE) {
        memcpy(payload, s->wqe.inline_data + off, len);
    } else if (sg_gather(e, qp->pd, s->wqe.sge, s->wqe.h.num_sge, off, payload, len, e->jobs) !=
               MR_OK) {
        counter_inc(&qp->counters.local_protection_err);
        s->status = WC_LOC_PROT_ERR; /* a bad key, or one that was revoked in mid-message */
        engine_touch(e, qp);
        return false;
    }
    return true;
}

bool req_payload(struct engine *e, struct qp *qp, struct send_slot *s, struct tx_job *job,
                 uint8_t *payload, uint32_t len)
{
    const struct sqe *w = &s->wqe.h;

    if (!len)
        return true;
    if (len >= TX_COPY_LATE_MIN && !(w->flags & SQE_INLINE)) {
        job->source = sg_source(e, qp->pd, s->wqe.sge, w->num_sge, qp->req.pkt * qp->mtu, len);
        job->source_len = len;
        if (job->source)
            return true;
    }
    if (!req_gather(e, qp, s, payload, len))
        return false;
    pkt_build_pad(payload, len);
    return true;
}

bool req_segment(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct requester *req = &qp->req;
    struct send_slot *s = slot_at(req, req->send);
    const struct req_op *op = &req_ops[s->wqe.h.opcode];
    struct pkt p = {.opcode = OPCODE(qp->service, packet_opcode(op, s, req->pkt))};
    uint8_t *bth = job->frame->data + qp->encap.len;

    req_start_slot(req, s);
    fill_packet(qp, s, &p);
    req_name_job(req, job, p.psn);
    if (!req_payload(e, qp, s, job, bth + pkt_build_headers(bth, &p), p.payload_len))
        return false;
    job->bth_len = (uint16_t)pkt_len(p.opcode, p.payload_len);
    encap_tx(job->frame->data, &qp->encap, job->bth_len, e->ip_id++);
    req_commit_packet(e, qp, s, p.ack_req);
    return true;
}
