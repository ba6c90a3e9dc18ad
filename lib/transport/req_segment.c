/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's packets: a work request cut at the path MTU (volume 1, 9.4 and 9.7.3). */
#include "raw_internal.h"
#include "transport.h"

enum req_trait {
    HAS_REMOTE = 1 << 0,   /* names remote memory */
    HAS_RESPONSE = 1 << 1, /* answered by a response, not an ACK: takes a READ/atomic resource */
    RETURNS_DATA = 1 << 2, /* which is scattered to the SGEs */
    EIGHT_BYTES = 1 << 3,  /* the message is 8 bytes */
    IS_LOCAL = 1 << 4,     /* nothing is sent */
};

/* Which services offer the operation (volume 1, table 38; A14.3; A19). */
enum { ON_RC = 1, ON_UC = 2, ON_UD = 4, ON_RAW = 8, ON_RELIABLE = ON_RC };

static const struct req_op {
    uint8_t services, traits, wc;
    uint8_t first, middle, last, only;
} req_ops[16] = {
    [SQE_WRITE] = {ON_RC | ON_UC, HAS_REMOTE, WC_RDMA_WRITE, OP_WRITE_FIRST, OP_WRITE_MIDDLE,
                   OP_WRITE_LAST, OP_WRITE_ONLY},
    [SQE_WRITE_IMM] = {ON_RC | ON_UC, HAS_REMOTE, WC_RDMA_WRITE, OP_WRITE_FIRST, OP_WRITE_MIDDLE,
                       OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM},
    [SQE_SEND] = {ON_RC | ON_UC | ON_UD | ON_RAW, 0, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE,
                  OP_SEND_LAST, OP_SEND_ONLY},
    [SQE_SEND_IMM] = {ON_RC | ON_UC | ON_UD, 0, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE,
                      OP_SEND_LAST_IMM, OP_SEND_ONLY_IMM},
    [SQE_SEND_INV] = {ON_RC, 0, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_INV,
                      OP_SEND_ONLY_INV},
    [SQE_READ] = {ON_RC, HAS_REMOTE | HAS_RESPONSE | RETURNS_DATA, WC_RDMA_READ,
                  .only = OP_READ_REQUEST},
    [SQE_CMP_SWP] = {ON_RC, HAS_REMOTE | HAS_RESPONSE | RETURNS_DATA | EIGHT_BYTES, WC_COMP_SWAP,
                     .only = OP_CMP_SWP},
    [SQE_FETCH_ADD] = {ON_RC, HAS_REMOTE | HAS_RESPONSE | RETURNS_DATA | EIGHT_BYTES, WC_FETCH_ADD,
                       .only = OP_FETCH_ADD},
    [SQE_ATOMIC_WRITE] = {ON_RC, HAS_REMOTE | HAS_RESPONSE | EIGHT_BYTES, WC_ATOMIC_WRITE,
                          .only = OP_ATOMIC_WRITE},
    [SQE_FLUSH] = {ON_RC, HAS_REMOTE | HAS_RESPONSE, WC_FLUSH, .only = OP_FLUSH},
    [SQE_LOCAL_INV] = {ON_RC | ON_UC, IS_LOCAL, WC_LOCAL_INV},
    [SQE_BIND_MW] = {ON_RC | ON_UC, IS_LOCAL, WC_BIND_MW},
};

uint8_t req_wc_opcode(uint8_t sqe_op)
{
    return req_ops[sqe_op & 15].wc;
}

bool op_is_local(uint8_t sqe_op)
{
    return req_ops[sqe_op & 15].traits & IS_LOCAL;
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

static bool service_offers(const struct qp *qp, const struct req_op *op)
{
    return op->services & (qp->service == PKT_UD        ? ON_UD
                           : qp->service == PKT_UC      ? ON_UC
                           : qp->service == SERVICE_RAW ? ON_RAW
                                                        : ON_RELIABLE);
}

uint8_t req_check(struct engine *e, struct qp *qp, struct send_slot *s)
{
    const struct send_wqe *w = &s->wqe;
    const struct req_op *op = &req_ops[w->h.opcode & 15];
    uint64_t len = message_len(w);
    bool returns = op->traits & RETURNS_DATA;

    s->len = s->packets = 0;
    if (!service_offers(qp, op) || (returns && (w->h.flags & SQE_INLINE)) ||
        ((op->traits & HAS_RESPONSE) && !qp->attr.max_rd_atomic))
        return WC_LOC_QP_OP_ERR;
    if (op->traits & IS_LOCAL)
        return WC_SUCCESS;
    if (len > MESSAGE_MAX || ((op->traits & EIGHT_BYTES) && len != sizeof(uint64_t)) ||
        (qp->service == PKT_UD && len > qp->mtu) ||
        (w->h.opcode == SQE_FLUSH && w->h.flush.length > UINT32_MAX))
        return WC_LOC_LEN_ERR;
    s->len = (uint32_t)len;
    s->packets = op->traits & EIGHT_BYTES || w->h.opcode == SQE_FLUSH || qp->service == SERVICE_RAW
                     ? 1
                     : packets_for(s->len, qp->mtu);
    /* The one packet of a short message is checked when its payload is fetched. */
    if (!(w->h.flags & SQE_INLINE) && (s->packets > 1 || returns) &&
        sg_check(e, qp->pd, w->sge, w->h.num_sge, returns ? MEM_LOCAL_WRITE : MEM_LOCAL_READ) !=
            MR_OK) {
        counter_inc(&qp->counters.local_protection_err);
        return WC_LOC_PROT_ERR;
    }
    return WC_SUCCESS;
}

/* Which of the message's packets this is. */
static uint8_t packet_opcode(const struct req_op *op, const struct send_slot *s, uint32_t i)
{
    if ((op->traits & HAS_RESPONSE) || s->packets == 1)
        return op->only;
    if (i == 0)
        return op->first;
    return i == s->packets - 1 ? op->last : op->middle;
}

/* Ask for an acknowledge at each message's end, and often enough in between to keep the window
 * moving. */
static bool wants_ack(struct engine *e, struct requester *req, uint16_t pkt_flags)
{
    if (!(pkt_flags & PF_END) && (uint32_t)psn_diff(req->next_psn, req->ack_req) < req->window / 4)
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
    p->ack_req = qp_is_reliable(qp) && wants_ack(e, &qp->req, flags);
    p->solicited = (flags & PF_END) && (w->flags & SQE_SOLICITED);
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

/* What is unreliable is done with when it is sent (9.8.2, 9.8.3). */
static void sent_unreliable(struct engine *e, struct qp *qp)
{
    qp->req.una = qp->req.max_psn = qp->req.next_psn;
    engine_touch(e, qp);
}

/* The sending position moves past the packet: for a READ past all its responses' PSNs. */
void req_advance(struct engine *e, struct qp *qp, struct send_slot *s)
{
    struct requester *req = &qp->req;
    bool asked = psn_eq(req->ack_req, req->next_psn);

    if (!psn_eq(req->next_psn, req->max_psn))
        counter_inc(&qp->counters.retransmits);
    if (op_is_read_or_atomic(s->wqe.h.opcode)) {
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
    if (!qp_is_reliable(qp))
        sent_unreliable(e, qp);
    else if (asked || qp->timer.deadline == NS_NEVER) /* the wait starts with the question */
        req_arm_timer(e, qp);
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
    if (len >= SOURCE_MIN && !(w->flags & SQE_INLINE)) {
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
    fill_packet(e, qp, s, &p);
    if (!req_payload(e, qp, s, job, bth + pkt_build_headers(bth, &p), p.payload_len))
        return false;
    job->slot = req->send;
    job->psn = p.psn;
    job->bth_len = (uint16_t)pkt_len(p.opcode, p.payload_len);
    encap_tx(job->frame->data, &qp->encap, job->bth_len, e->ip_id++);
    req_advance(e, qp, s);
    return true;
}

/* How many middle packets of the message at the sending position may go now. */
static uint32_t middles(const struct qp *qp, const struct send_slot *s)
{
    const struct requester *req = &qp->req;
    uint32_t inflight = (uint32_t)psn_diff(req->next_psn, req->una);

    if (qp->service != PKT_RC || qp->state != QPS_RTS || req->rnr_wait || qp->fault ||
        !psn_eq(req->next_psn, req->max_psn) || inflight >= req->window || qp->mtu < SOURCE_MIN ||
        s->status != WC_SUCCESS)
        return 0;
    return min_of(req->window - inflight, s->packets - 1 - req->pkt);
}

unsigned req_middle(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    struct requester *req = &qp->req;
    struct send_slot *s = slot_at(req, req->send);
    uint32_t opcode = OPCODE(PKT_RC, req_ops[s->wqe.h.opcode & 15].middle);
    uint32_t bth_len = BTH_LEN + qp->mtu + ICRC_LEN;
    bool asked = qp->timer.deadline == NS_NEVER;
    unsigned i;

    n = e->sealed == e->jobs ? min_of(n, middles(qp, s)) : 0;
    for (i = 0; i < n; i++) {
        const uint8_t *source =
            sg_source(e, qp->pd, s->wqe.sge, s->wqe.h.num_sge, req->pkt * qp->mtu, qp->mtu);
        uint8_t *frame = frames[i].data, *bth = frame + qp->encap.len;
        bool ack;

        if (!source)
            break;
        ack = wants_ack(e, req, 0);
        encap_tx(frame, &qp->encap, bth_len, e->ip_id++);
        put_be32(bth, opcode << 24 | PKEY_DEFAULT);
        put_be32(bth + 4, qp->dest_qpn);
        put_be32(bth + 8, (uint32_t)ack << 31 | req->next_psn.v);
        frames[i].len = (uint32_t)(frames[i].icrc_omitted ? encap_copy : encap_seal_copy)(
            frame, &qp->encap, bth_len, source, qp->mtu);
        asked |= ack;
        req->pkt++;
        req->next_psn = req->max_psn = psn_add(req->next_psn, 1);
    }
    if (!i)
        return 0;
    e->sealed += i;
    tx_count(e, qp, qp->encap.priority, i, (uint64_t)i * frames->len);
    if (asked)
        req_arm_timer(e, qp);
    return i;
}
