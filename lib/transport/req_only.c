/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of one packet, which most are: a WRITE or SEND of at most a path MTU from one SGE, taken
 * from the send queue and sent in one go. The steps of take_slot, req_check and
 * req_segment in their order, but for those that find nothing in such a work request. The slot is
 * left as they leave it: a retransmission goes their way.
 */
#include "transport.h"

/* Looks at the entry without taking it. Its first word with flags, and all that depends on it, is
 * loaded once: the application may rewrite it meanwhile, and then gets what it deserves. */
static bool take_simple(const struct work_queue *sq, struct send_wqe *w)
{
    const volatile uint64_t *entry =
        (const volatile uint64_t *)(sq->ring + (size_t)(sq->cons & (sq->size - 1)) * sq->stride);
    uint64_t *h = (uint64_t *)(void *)&w->h;

    h[1] = entry[1];
    if ((w->h.opcode != SQE_WRITE && w->h.opcode != SQE_SEND) || w->h.num_sge != 1 ||
        (w->h.flags & ~(SQE_SIGNALED | SQE_SOLICITED)))
        return false;
    h[0] = entry[0];
    h[2] = entry[2];
    h[3] = entry[3];
    w->h.inline_len = 0;
    /* What the other words mean belongs to other operations. */
    ((uint64_t *)(void *)w->sge)[0] = entry[sizeof(struct sqe) / 8];
    ((uint64_t *)(void *)w->sge)[1] = entry[sizeof(struct sqe) / 8 + 1];
    return true;
}

static bool may_take(const struct engine *e, const struct qp *qp)
{
    const struct requester *req = &qp->req;

    return qp->service == PKT_RC && qp->state == QPS_RTS && !req->rnr_wait && !qp->fault &&
           req->send == req->head && req->head - req->tail != req->slot_count &&
           (uint32_t)psn_diff(req->next_psn, req->una) < e->cfg.max_inflight &&
           psn_eq(req->next_psn, req->max_psn) && work_queue_pending(&req->sq) > 0;
}

/* BTH, and of a WRITE the RETH. Returns where the payload goes. */
static uint8_t *put_headers(const struct qp *qp, const struct send_slot *s, uint8_t *bth)
{
    const struct sqe *w = &s->wqe.h;
    bool write = w->opcode == SQE_WRITE;
    uint32_t opcode = OPCODE(PKT_RC, write ? OP_WRITE_ONLY : OP_SEND_ONLY);

    put_be32(bth, opcode << 24 | (uint32_t)(w->flags & SQE_SOLICITED ? 1 << 23 : 0) |
                      pkt_pad(s->len) << 20 | PKEY_DEFAULT);
    put_be32(bth + 4, qp->dest_qpn);
    put_be32(bth + 8, UINT32_C(1) << 31 | s->first.v); /* asks for an ACK */
    if (!write)
        return bth + BTH_LEN;
    put_be64(bth + 12, w->remote_addr);
    put_be32(bth + 20, w->rkey);
    put_be32(bth + 24, s->len);
    return bth + BTH_LEN + 16;
}

static void move_on(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    req->sq.cons++;
    req->ack_req = req->next_psn;
    req->next_psn = req->max_psn = psn_add(req->next_psn, 1);
    req->head++;
    req->send++;
    req_arm_timer(e, qp);
}

bool req_only(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct requester *req = &qp->req;
    struct mem_region *mr = NULL;
    struct send_slot *s;
    const struct sge *sge;
    uint8_t *payload, *bth;

    if (!may_take(e, qp))
        return false;
    s = slot_at(req, req->head);
    sge = s->wqe.sge;
    if (!take_simple(&req->sq, &s->wqe) || sge->length > qp->mtu || mem_batch_full(&e->batch))
        return false;
    if (sge->length &&
        mr_check(&e->mrs, sge->lkey, qp->pd, sge->addr, sge->length, MEM_LOCAL_READ, &mr) != MR_OK)
        return false;
    s->index = req->sq.cons;
    s->len = sge->length;
    s->packets = 1;
    s->done = 0;
    s->status = WC_SUCCESS;
    s->started = true;
    s->first = req->next_psn;
    bth = job->frame->data + qp->encap.len;
    payload = put_headers(qp, s, bth);
    if (s->len) {
        mem_batch_in(&e->batch, mr, mr_host_addr(mr, sge->addr), payload, s->len, e->jobs);
        pkt_build_pad(payload, s->len);
    }
    job->slot = req->send;
    job->psn = s->first;
    job->bth_len = (uint16_t)(payload - bth + s->len + pkt_pad(s->len) + ICRC_LEN);
    encap_tx(job->frame->data, &qp->encap, job->bth_len, e->ip_id++);
    move_on(e, qp);
    return true;
}
