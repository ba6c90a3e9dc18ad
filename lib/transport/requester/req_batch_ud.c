/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams of one SGE or inline, as many at a time as may be sent, by the steps of req_ud.c.
 * Consecutive datagrams of one shape to one destination have the same headers, apart from the PSN
 * and immediate data. The general path takes the rest: address handles that are unknown or have a
 * rate, and the rule `spray`, by which each datagram has a source port of its own.
 */
#include "id_tables.h"
#include "mem_memcpy.h"
#include "req_batch.h"
#include "sport.h"

/* The headers of datagrams to one destination. */
struct datagram_header {
    struct tx_header tx;
    const struct encap_template *encap;
    uint64_t shape; /* of send_wqe_copy_datagram; MESSAGE_NONE: no header yet */
    uint64_t to;    /* address handle and queue pair, as in the WQE */
    uint32_t qkey;  /* as in the WQE */
    uint8_t pcp;    /* the priority that chooses a traffic class */
    uint8_t deth[DETH_LEN];
};

ALWAYS_INLINE uint64_t destination(const struct sqe *w)
{
    return (uint64_t)w->ud.ah << 32 | w->ud.remote_qpn;
}

ALWAYS_INLINE bool header_fits(const struct datagram_header *h, const struct sqe *w, uint64_t shape)
{
    return shape == h->shape && destination(w) == h->to && w->ud.remote_qkey == h->qkey;
}

/* The port of all datagrams to a destination. */
static uint16_t port_to(const struct engine *e, const struct qp *qp,
                        const struct address_handle *ah, uint32_t dest_qpn)
{
    struct entropy_flow flow = {qp->qpn, dest_qpn, .flow_label = ah->av.flow_label};

    return entropy_port(sport_policy(e, qp), &flow);
}

/* False: the general path takes the WQE, or a turn of another traffic class. */
static bool datagram_headers(struct engine *e, const struct qp *qp, const struct sqe *w,
                             uint64_t shape, struct datagram_header *h)
{
    const struct address_handle *ah;
    uint32_t len = MESSAGE_LEN(shape), dest_qpn = w->ud.remote_qpn & PSN_MASK, bth_len;
    bool imm = MESSAGE_OP(shape) == SQE_SEND_IMM;
    uint8_t op = imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY;

    if (shape == MESSAGE_NOT_SIMPLE || !(shape & SQE_SEND) || len > qp->mtu)
        return false;
    ah = ah_find(e->cfg.ahs, w->ud.ah, qp->pd);
    if (!ah || (h->encap && h->pcp != ah->av.pcp))
        return false;
    bth_len = BTH_LEN + DETH_LEN + (imm ? IMM_LEN : 0) + len + pkt_pad(len) + ICRC_LEN;
    tx_header_make(e, &ah->encap, dest_qpn, &h->tx,
                   bth_first_word(OPCODE(PKT_UD, op), shape & MESSAGE_SOLICITED ? BTH_SOLICITED : 0,
                                  pkt_pad(len)),
                   bth_len);
    if (encap_template_has_udp(&ah->encap))
        encap_packet_set_sport(h->tx.bytes + ah->encap.len, port_to(e, qp, ah, dest_qpn));
    h->encap = &ah->encap;
    h->shape = shape;
    h->to = destination(w);
    h->qkey = w->ud.remote_qkey;
    h->pcp = ah->av.pcp;
    deth_put(h->deth, req_ud_qkey(qp, w), qp->qpn);
    return true;
}

/* Writes all headers. Returns where the payload goes. */
static inline uint8_t *headers_put(const struct datagram_header *h, const struct send_slot *s,
                                   struct frame *frame)
{
    uint8_t *next = tx_header_put(&h->tx, h->encap->len, frame, s->first.v);

    memcpy(next, h->deth, DETH_LEN);
    next += DETH_LEN;
    if (MESSAGE_OP(h->shape) == SQE_SEND_IMM) {
        memcpy(next, &s->wqe.h.imm, IMM_LEN);
        next += IMM_LEN;
    }
    return next;
}

/* Takes and builds up to n datagrams. One whose memory is not mapped is queued, and all behind it
 * wait for that: deferred says whether these are such ones. Inlined once for each. */
ALWAYS_INLINE unsigned build_datagrams(struct engine *e, struct qp *qp, struct frame *frames,
                                       unsigned n, bool deferred)
{
    const struct requester *req = &qp->req;
    struct ring_cursor wqe = new_wqes(req), slot = slots_from(req, req->head);
    struct datagram_header header = {.shape = MESSAGE_NONE};
    struct sge_region from = {0};
    psn_t p = req->next_psn;
    unsigned i;

    for (i = 0; i < n; i++, ring_cursor_next(&wqe), ring_cursor_next(&slot), p = psn_add(p, 1)) {
        struct send_slot *s = (struct send_slot *)slot.at;
        uint64_t shape = send_wqe_copy_datagram(wqe.at, req->sq.max_inline, &s->wqe);
        const uint8_t *bytes = s->wqe.inline_data;
        uint32_t len = MESSAGE_LEN(shape);
        uint8_t *payload;

        if (unlikely(!header_fits(&header, &s->wqe.h, shape))) {
            if (!deferred)
                tx_header_seal(e, qp, header.encap, &header.tx, frames, i);
            header.tx.first = i;
            if (!datagram_headers(e, qp, &s->wqe.h, shape, &header))
                break;
        }
        if (len && !(shape & MESSAGE_INLINE)) {
            if (!sge_region_find(e, qp, s->wqe.sge, MEM_LOCAL_READ, &from))
                break;
            if (from.mr->direct)
                bytes = mr_direct(from.mr, s->wqe.sge->addr);
            else if (deferred && !mem_batch_full(&e->batch))
                bytes = NULL;
            else
                break;
        }
        slot_start(s, req->sq.cons + i, len, 1, p);
        payload = headers_put(&header, s, &frames[i]);
        if (deferred)
            defer_seal(e, qp, header.encap, e->jobs + i, &frames[i], req->head + i, p);
        else if (unlikely(len >= TX_COPY_LATE_MIN && !(shape & MESSAGE_INLINE))) {
            tx_header_seal_copy(e, qp, header.encap, &header.tx, &frames[i], bytes, len);
            continue;
        }
        memset(payload + len, 0, ICRC_LEN); /* the pad, and more */
        if (deferred && !bytes)
            mem_batch_in(&e->batch, from.mr, mr_host_addr(from.mr, s->wqe.sge->addr), payload, len,
                         e->jobs + i);
        else if (mem_memcpy_is_few(len))
            mem_memcpy_few(payload, bytes, len);
        else
            mem_memcpy(payload, bytes, len);
    }
    if (!i)
        return 0;
    if (!deferred) {
        tx_header_seal(e, qp, header.encap, &header.tx, frames, i);
        e->sealed += i;
    }
    req_commit_messages(e, qp, i, psn_prev(p), p, false);
    return i;
}

static __attribute__((noinline)) unsigned build_deferred(struct engine *e, struct qp *qp,
                                                         struct frame *frames, unsigned n)
{
    return build_datagrams(e, qp, frames, n, true);
}

unsigned req_batch_datagrams(struct engine *e, struct qp *qp, struct frame *frames, unsigned n)
{
    unsigned taken = 0;

    if (sport_policy(e, qp)->rule == ENTROPY_SPRAY)
        return 0;
    n = wqes_to_take(qp, n);
    if (likely(n && e->sealed == e->jobs))
        taken = build_datagrams(e, qp, frames, n, false);
    return taken || !n ? taken : build_deferred(e, qp, frames, n);
}
