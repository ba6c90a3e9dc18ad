/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs: frames in a row that are the next requests of one connection, all WRITE ONLY or all SEND
 * ONLY, which most frames are. A frame is recognised by comparing it with what its queue pair
 * expects, headers as a whole; then the ICRCs are verified; then the checks of resp_check.c that
 * this leaves open are made for each, and it is executed. What that means for the queue pair, its
 * acknowledge and the counters is written once, at the end. Whatever is out of the ordinary
 * (another PSN, memory that is not mapped, something wrong) ends the run before anything was done
 * about it, and goes the general way.
 */
#include "transport.h"

#define BTH        ENCAP_EXPECT_BTH
#define RETH_LEN   16
#define L3_HEADERS (BTH - 14 + BTH_LEN + ICRC_LEN) /* and the ICRC: bytes beside RETH, payload */
#define NEXT_MASK  UINT64_C(0x00FFFFFF00FFFFFF)    /* QPN and PSN in bytes 4 to 11 of the BTH */

#define WRITE_ONLY OPCODE(PKT_RC, OP_WRITE_ONLY)
#define SEND_ONLY  OPCODE(PKT_RC, OP_SEND_ONLY)

/* Verified as a whole before they are executed, which is to find them in the first cache. */
#define RUN_BYTES 12288

#define INLINE static inline __attribute__((always_inline))

struct run {
    struct engine *e;
    struct qp *qp;
    struct icrc_span span[FRAME_BURST]; /* what was recognised; own: bytes of payload */
};

/* A queue pair of e's that may get such requests now. */
static bool may_run(const struct engine *e, const struct qp *qp)
{
    return qp && qp_engine(qp) == e && qp->service == PKT_RC && qp_can_receive(qp) &&
           (qp->state != QPS_RTR || qp->comm_est_told) && !qp->fault && qp->resp.op == RESP_IDLE &&
           encap_expect_is_ours(&qp->expect, e->cfg.port->gids);
}

/* How many frames from f on are the next ones with this opcode. `reth` is constant where it is
 * called. */
INLINE unsigned recognise(struct run *r, const struct frame *f, unsigned n, uint8_t opcode,
                          uint32_t reth)
{
    const struct encap_expect *x = &r->qp->expect;
    uint64_t next = (uint64_t)r->qp->qpn << 32 | r->qp->resp.epsn.v;
    uint32_t mtu = r->qp->mtu, bytes = 0;
    unsigned i;

    for (i = 0; i < n && bytes < RUN_BYTES; i++) {
        const uint8_t *b = f[i].data;
        uint32_t total, rest, len;

        if (f[i].len < 14 + L3_HEADERS + reth || b[BTH] != opcode ||
            (get_be64(b + BTH + 4) & NEXT_MASK) != next || !encap_alike(x, b))
            break;
        total = get_be16(b + 16);
        rest = total - L3_HEADERS - reth;
        len = rest - (b[BTH + 1] >> 4 & 3); /* without its pad */
        /* As unsigned numbers, lengths below 0 and 1 are too long. */
        if (!encap_alike_sound(x, b, f[i].len, total) || (rest & 3) || len - 1 >= mtu)
            break;
        r->span[i] = (struct icrc_span){b + 14, total, len};
        next = (next + 1) & NEXT_MASK;
        bytes += total;
    }
    return i;
}

static unsigned verify(const struct run *r, unsigned n)
{
    return r->e->cfg.any_icrc ? n : icrc_verify_run(ICRC_IPV4, r->span, n);
}

/* Few bytes in two moves that may overlap. */
INLINE void put(uint8_t *to, const uint8_t *from, uint32_t len)
{
    uint64_t head, tail;

    if (len < sizeof(head) || len > 2 * sizeof(head)) {
        memcpy(to, from, len);
        return;
    }
    memcpy(&head, from, sizeof(head));
    memcpy(&tail, from + len - sizeof(tail), sizeof(tail));
    memcpy(to, &head, sizeof(head));
    memcpy(to + len - sizeof(tail), &tail, sizeof(tail));
}

/* Where [va, va + len) is that the key is for; NULL: somebody else must find out, or refuse. */
INLINE uint8_t *place(struct engine *e, const struct qp *qp, struct mr_hint *hint, uint32_t key,
                      uint64_t va, uint32_t len, uint32_t access)
{
    uint8_t *to = mr_hint_direct(hint, e->cfg.mrs, key, va, len);

    if (likely(to) || !mr_hint_note(hint, &e->mrs, key, qp->pd, access))
        return to;
    return mr_hint_direct(hint, e->cfg.mrs, key, va, len);
}

/* Executes n WRITEs; how many of them could be. */
static unsigned run_writes(struct run *r, unsigned n)
{
    struct qp *qp = r->qp;
    unsigned i;

    if (!(qp->access & MEM_REMOTE_WRITE))
        return 0;
    for (i = 0; i < n; i++) {
        const uint8_t *reth = r->span[i].l3 + (BTH - 14 + BTH_LEN);
        uint32_t len = r->span[i].own;
        uint8_t *to;

        if (get_be32(reth + 12) != len)
            break;
        to = place(r->e, qp, &qp->resp.write_hint, get_be32(reth + 8), get_be64(reth), len,
                   MEM_REMOTE_WRITE);
        if (unlikely(!to))
            break;
        put(to, reth + RETH_LEN, len);
    }
    return i;
}

/* Looks at the receive entry at `index`, each word once; it is taken only if all is good. */
INLINE uint8_t *recv_place(struct engine *e, struct qp *qp, uint32_t index, uint32_t len,
                           uint64_t *wr_id)
{
    const struct work_queue *rq = &qp->resp.rq;
    const volatile uint64_t *entry =
        (const volatile uint64_t *)(rq->ring + (size_t)(index & (rq->size - 1)) * rq->stride);
    uint64_t num_sge, addr, sge;

    *wr_id = entry[0];
    num_sge = entry[1];
    addr = entry[2];
    sge = entry[3]; /* length and key */
    if ((uint32_t)num_sge != 1 || (uint32_t)sge < len || (uint32_t)sge > UINT32_C(1) << 31)
        return NULL;
    return place(e, qp, &qp->resp.recv_hint, (uint32_t)(sge >> 32), addr, len, MEM_LOCAL_WRITE);
}

/* Executes n SENDs; how many of them could be. */
static unsigned run_sends(struct run *r, unsigned n)
{
    struct engine *e = r->e;
    struct qp *qp = r->qp;
    struct work_queue *rq = &qp->resp.rq;
    struct comp_queue *cq = qp->recv_cq;
    uint32_t lane = e->cfg.lane, index;
    int pending;

    /* What waits for its bytes to be written completes before. */
    if (qp->srq || qp->resp.recv_busy || !rq->max_sge || e->completions || e->batch.n)
        return 0;
    pending = work_queue_pending(rq);
    n = pending > 0 ? min_of(n, (unsigned)pending) : 0;
    for (index = rq->cons; index != rq->cons + n; index++) {
        const struct icrc_span *s = &r->span[index - rq->cons];
        const uint8_t *bth = s->l3 + (BTH - 14);
        uint64_t wr_id;
        uint8_t *to = recv_place(e, qp, index, s->own, &wr_id);
        struct cqe *c = cq_next(cq, lane);

        if (unlikely(!to || !c))
            break;
        put(to, bth + BTH_LEN, s->own);
        c->wr_id = wr_id;
        c->timestamp = e->now;
        c->qpn = qp->qpn;
        c->src_qpn = qp->dest_qpn;
        c->byte_len = s->own;
        c->imm = 0;
        c->uidx = qp->uidx;
        c->vendor_err = 0;
        c->pkey_index = 0;
        c->wqe = index;
        c->status = WC_SUCCESS;
        c->opcode = WC_RECV;
        c->wc_flags = 0;
        c->sl = qp->av.sl;
        c->vlan = VLAN_NONE;
        memset(c->smac, 0, sizeof(c->smac));
        engine_touch_cq(e, cq);
        cq_publish(cq, lane, c, bth[1] >> 7);
    }
    n = index - rq->cons;
    rq->cons = index;
    return n;
}

/* Of n frames, which all have the same traffic class. */
static void count(const struct run *r, const struct frame *f, unsigned n)
{
    struct engine_counters *c = &r->e->counters;
    uint8_t priority = qos_frame_priority(VLAN_NONE, f->data[15]);
    uint32_t bytes = 0, payload = 0;

    for (unsigned i = 0; i < n; i++) {
        bytes += f[i].len;
        payload += r->span[i].own;
    }
    counter_add(&c->rx_packets[priority], n);
    counter_add(&c->rx_bytes[priority], bytes);
    counter_add(&c->rx_delivered, n);
    counter_add(&r->qp->counters.rx_packets, n);
    counter_add(&r->qp->counters.rx_bytes, payload);
}

/* The last one that asks for an acknowledge gets it: all before it are acknowledged thereby. */
static void acknowledge(struct run *r, unsigned n)
{
    struct responder *resp = &r->qp->resp;

    if (resp->syndrome != AETH_ACK_PLAIN) /* a NAK that was not sent yet is void */
        resp->ack_pending = false;
    while (n-- > 0) {
        const uint8_t *bth = r->span[n].l3 + (BTH - 14);

        if (!(bth[8] & 0x80))
            continue;
        resp->ack_pending = true;
        resp->syndrome = AETH_ACK_PLAIN;
        resp->ack_psn = psn(get_be24(bth + 9));
        engine_tx_ready(r->e, r->qp);
        return;
    }
}

/* n of the frames were executed. */
static void finish(struct run *r, const struct frame *f, unsigned n)
{
    struct responder *resp = &r->qp->resp;

    if (unlikely(r->qp->stray_run)) /* they come here by themselves */
        r->qp->stray_run = 0;
    resp->epsn = psn_add(resp->epsn, n);
    resp->msn += n;
    resp->nak_sent = false;
    count(r, f, n);
    acknowledge(r, n);
}

unsigned rx_run(struct engine *e, const struct frame *f, unsigned n, unsigned *general)
{
    struct run r;
    unsigned found, done;
    bool write;

    *general = 0;
    if (f->len < 14 + L3_HEADERS)
        return 0;
    write = f->data[BTH] == WRITE_ONLY;
    if (!write && f->data[BTH] != SEND_ONLY)
        return 0;
    r.e = e;
    r.qp = qp_table_lookup(e->cfg.qps, get_be24(f->data + BTH + 5));
    if (!may_run(e, r.qp))
        return 0;
    found = write ? recognise(&r, f, n, WRITE_ONLY, RETH_LEN) : recognise(&r, f, n, SEND_ONLY, 0);
    if (!found)
        return 0;
    done = verify(&r, found);
    done = write ? run_writes(&r, done) : run_sends(&r, done);
    if (done)
        finish(&r, f, done);
    *general = found - done;
    return done;
}
