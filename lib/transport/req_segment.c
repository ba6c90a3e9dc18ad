/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's packets: a work request cut at the path MTU (volume 1, 9.4 and 9.7.3). */
#include "transport.h"

enum req_trait { HAS_PAYLOAD = 1, HAS_REMOTE = 2, RETURNS_DATA = 4, IS_ATOMIC = 8 };

static const struct req_op {
    bool valid;
    uint8_t traits, wc;
    uint8_t first, middle, last, only;
} req_ops[16] = {
    [SQE_WRITE] = {true, HAS_PAYLOAD | HAS_REMOTE, WC_RDMA_WRITE, OP_WRITE_FIRST, OP_WRITE_MIDDLE,
                   OP_WRITE_LAST, OP_WRITE_ONLY},
    [SQE_WRITE_IMM] = {true, HAS_PAYLOAD | HAS_REMOTE, WC_RDMA_WRITE, OP_WRITE_FIRST,
                       OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM},
    [SQE_SEND] = {true, HAS_PAYLOAD, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST,
                  OP_SEND_ONLY},
    [SQE_SEND_IMM] = {true, HAS_PAYLOAD, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_IMM,
                      OP_SEND_ONLY_IMM},
    [SQE_READ] = {true, HAS_REMOTE | RETURNS_DATA, WC_RDMA_READ, .only = OP_READ_REQUEST},
    [SQE_CMP_SWP] = {true, HAS_REMOTE | RETURNS_DATA | IS_ATOMIC, WC_COMP_SWAP, .only = OP_CMP_SWP},
    [SQE_FETCH_ADD] = {true, HAS_REMOTE | RETURNS_DATA | IS_ATOMIC, WC_FETCH_ADD,
                       .only = OP_FETCH_ADD},
    [SQE_LOCAL_INV] = {false, 0, WC_LOCAL_INV},
    [SQE_BIND_MW] = {false, 0, WC_BIND_MW},
    [SQE_SEND_INV] = {false, 0, WC_SEND},
    [SQE_FLUSH] = {false, 0, WC_FLUSH},
    [SQE_ATOMIC_WRITE] = {false, 0, WC_ATOMIC_WRITE},
};

uint8_t req_wc_opcode(uint8_t sqe_op)
{
    return req_ops[sqe_op & 15].wc;
}

static uint64_t message_len(const struct send_wqe *w)
{
    uint64_t len = 0;

    if (w->h.flags & SQE_INLINE)
        return w->h.inline_len;
    for (unsigned i = 0; i < w->h.num_sge; i++)
        len += w->sge[i].length;
    return len;
}

uint8_t req_check(struct engine *e, struct qp *qp, struct send_slot *s)
{
    const struct send_wqe *w = &s->wqe;
    const struct req_op *op = &req_ops[w->h.opcode & 15];
    uint64_t len = message_len(w);
    bool returns = op->traits & RETURNS_DATA;

    if (!op->valid || (returns && (w->h.flags & SQE_INLINE)) ||
        (returns && !qp->attr.max_rd_atomic))
        return WC_LOC_QP_OP_ERR;
    if (len > MESSAGE_MAX || ((op->traits & IS_ATOMIC) && len != sizeof(uint64_t)))
        return WC_LOC_LEN_ERR;
    s->len = (uint32_t)len;
    s->packets = op->traits & IS_ATOMIC ? 1 : packets_for(s->len, qp->mtu);
    if (!(w->h.flags & SQE_INLINE) &&
        sg_check(e, qp, w->sge, w->h.num_sge, returns ? MEM_LOCAL_WRITE : MEM_LOCAL_READ) !=
            MR_OK) {
        counter_inc(&qp->counters.local_protection_err);
        return WC_LOC_PROT_ERR;
    }
    return WC_SUCCESS;
}

/* Which of the message's packets this is. */
static uint8_t packet_opcode(const struct req_op *op, const struct send_slot *s, uint32_t i)
{
    if ((op->traits & RETURNS_DATA) || s->packets == 1)
        return op->only;
    if (i == 0)
        return op->first;
    return i == s->packets - 1 ? op->last : op->middle;
}

/* Ask for an acknowledge at each message's end, and often enough in between to keep the window
 * moving. */
static bool wants_ack(struct engine *e, struct requester *req, uint16_t pkt_flags)
{
    if (!(pkt_flags & PF_END) &&
        (uint32_t)psn_diff(req->next_psn, req->ack_req) < e->cfg.max_inflight / 4)
        return false;
    req->ack_req = req->next_psn;
    return true;
}

static void fill_packet(struct engine *e, struct qp *qp, const struct send_slot *s, struct pkt *p)
{
    const struct sqe *w = &s->wqe.h;
    uint32_t off = qp->req.pkt * qp->mtu;
    uint16_t flags = pkt_info(p)->flags;

    p->pkey = PKEY_DEFAULT;
    p->dest_qpn = qp->dest_qpn;
    p->psn = qp->req.next_psn;
    p->ack_req = wants_ack(e, &qp->req, flags);
    p->solicited = (flags & PF_END) && (w->flags & SQE_SOLICITED);
    p->payload_len = flags & PF_PAYLOAD ? min_of(s->len - off, qp->mtu) : 0;
    if (flags & PF_IMM)
        p->imm = __builtin_bswap32(w->imm);
    if (flags & PF_RETH) { /* a READ that was cut short asks for the rest */
        p->reth.va = w->remote_addr + off;
        p->reth.rkey = w->rkey;
        p->reth.len = s->len - off;
    }
    if (flags & PF_ATOMICETH) {
        bool swap = w->opcode == SQE_CMP_SWP;

        p->atomic.va = w->remote_addr;
        p->atomic.rkey = w->rkey;
        p->atomic.swap_add = swap ? w->atomic.swap : w->atomic.compare_add;
        p->atomic.compare = swap ? w->atomic.compare_add : 0;
    }
}

/* The sending position moves past the packet: for a READ past all its responses' PSNs. */
static void advance(struct engine *e, struct qp *qp, struct send_slot *s, bool returns)
{
    struct requester *req = &qp->req;
    bool fresh = psn_eq(req->next_psn, req->max_psn);

    if (!fresh)
        counter_inc(&qp->counters.retransmits);
    if (returns) {
        req->rd_outstanding++;
        req->pkt = s->packets;
    } else {
        req->pkt++;
    }
    req->next_psn = psn_add(s->first, req->pkt);
    if (req->pkt == s->packets) {
        req->send++;
        req->pkt = 0;
    }
    if (psn_before(req->max_psn, req->next_psn))
        req->max_psn = req->next_psn;
    if (qp->timer.deadline == NS_NEVER)
        req_arm_timer(e, qp);
}

bool req_segment(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct requester *req = &qp->req;
    struct send_slot *s = slot_at(req, req->send);
    const struct req_op *op = &req_ops[s->wqe.h.opcode];
    struct pkt p = {.opcode = OPCODE(PKT_RC, packet_opcode(op, s, req->pkt))};
    uint8_t *bth = job->frame->data + qp->encap.len, *payload;

    if (!s->started) {
        s->started = true;
        s->first = req->next_psn;
    }
    fill_packet(e, qp, s, &p);
    payload = bth + pkt_build_headers(bth, &p);
    if (p.payload_len) {
        uint32_t off = req->pkt * qp->mtu;

        if (s->wqe.h.flags & SQE_INLINE)
            memcpy(payload, s->wqe.inline_data + off, p.payload_len);
        else if (sg_gather(e, qp, s->wqe.sge, s->wqe.h.num_sge, off, payload, p.payload_len,
                           e->jobs) != MR_OK) {
            s->status = WC_LOC_PROT_ERR; /* the key was revoked in mid-message */
            engine_touch(e, qp);
            return false;
        }
        pkt_build_pad(payload, p.payload_len);
    }
    job->slot = req->send;
    job->psn = p.psn;
    job->bth_len = (uint16_t)pkt_len(p.opcode, p.payload_len);
    encap_tx(job->frame->data, &qp->encap, job->bth_len, e->ip_id++);
    advance(e, qp, s, op->traits & RETURNS_DATA);
    return true;
}
