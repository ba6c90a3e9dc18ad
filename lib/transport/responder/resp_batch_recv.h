/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a batch that take receive WQEs: what resp_batch_recv.c and resp_batch_pieces.c share.
 */
#ifndef UROCE_RESP_BATCH_RECV_H
#define UROCE_RESP_BATCH_RECV_H

#include "count.h"
#include "recv_cqe.h"
#include "resp_datagram.h"
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"
#include "srq.h"
#include "wqe.h"

/* Which messages. Inlined where they are constants. */
enum messages { SENDS, SENDS_IMM, WRITES_IMM, DATAGRAMS, DATAGRAMS_IMM };

ALWAYS_INLINE bool are_datagrams(enum messages what)
{
    return what >= DATAGRAMS;
}

ALWAYS_INLINE bool have_imm(enum messages what)
{
    return what != SENDS && what != DATAGRAMS;
}

ALWAYS_INLINE const uint8_t *imm_of(enum messages what, const struct rx_batch *b,
                                    const struct icrc_span *s)
{
    if (are_datagrams(what))
        return s->bth + BTH_LEN + DETH_LEN;
    return rx_batch_eth(b, s) + (what == WRITES_IMM ? RETH_LEN : 0);
}

ALWAYS_INLINE const uint8_t *payload_of(enum messages what, const struct rx_batch *b,
                                        const struct icrc_span *s)
{
    return imm_of(what, b, s) + (have_imm(what) ? IMM_LEN : 0);
}

/* Bytes that a message writes: a datagram has its network header before its payload. */
ALWAYS_INLINE uint32_t bytes_of(enum messages what, const struct icrc_span *s)
{
    return s->payload + (are_datagrams(what) ? ENCAP_GRH_LEN : 0);
}

ALWAYS_INLINE bool find_write(const struct rx_batch *b, const struct icrc_span *s,
                              const struct work_queue *rq, uint32_t index, struct recv_buffer *to)
{
    const uint8_t *reth = rx_batch_eth(b, s);

    to->addr = reth_va(reth);
    to->lkey = reth_rkey(reth);
    return recv_wqe_peek_id(rq, index, &to->wr_id) &&
           resp_write_len_ok(PF_START | PF_END, reth_len(reth), s->payload);
}

/* A datagram of another Q_Key is dropped (10.2.5). */
ALWAYS_INLINE bool qkey_ok(enum messages what, const struct rx_batch *b, const struct icrc_span *s)
{
    return !are_datagrams(what) || deth_qkey(s->bth + BTH_LEN) == b->qp->qkey;
}

/* The WQE that a message takes, and the memory that it names, or that a WRITE names by an R_Key.
 * False: not that simple. */
ALWAYS_INLINE bool find_target(enum messages what, const struct rx_batch *b,
                               const struct icrc_span *s, const struct work_queue *rq,
                               uint32_t index, struct recv_buffer *to)
{
    if (what == WRITES_IMM)
        return find_write(b, s, rq, index, to);
    if (unlikely(!qkey_ok(what, b, s)))
        return false;
    return likely(recv_wqe_peek(rq, index, to) && resp_room_ok(to->length, 0, bytes_of(what, s)));
}

/* The target in mapped memory; NULL: it is empty, or not mapped, or refused. */
ALWAYS_INLINE uint8_t *find_mapped(enum messages what, struct rx_batch *b, struct mr_grant *g,
                                   const struct recv_buffer *to, uint32_t len)
{
    struct responder *resp = &b->qp->resp;

    if (what != WRITES_IMM)
        return rx_batch_lookup(b, g, &resp->recv_hint, to->lkey, MEM_LOCAL_WRITE, to->addr, len);
    return len ? rx_batch_lookup(b, g, &resp->write_hint, to->lkey, MEM_REMOTE_WRITE, to->addr, len)
               : NULL;
}

ALWAYS_INLINE struct cqe common_cqe(enum messages what, const struct rx_batch *b)
{
    struct cqe c = recv_cqe(b->e, b->qp);

    if (what == WRITES_IMM)
        c.opcode = WC_RECV_RDMA_WITH_IMM;
    if (have_imm(what))
        c.wc_flags = WC_WITH_IMM;
    if (are_datagrams(what))
        resp_datagram_cqe(&c, hdr_is_ipv6(b->form) ? ICRC_IPV6 : ICRC_IPV4,
                          hdr_vlan_tci(b->form, b->span->bth - hdr_bth_at(b->form)));
    return c;
}

/* A datagram's network header, and what its CQE says of its sender. */
ALWAYS_INLINE void put_sender(enum hdr_form form, const struct icrc_span *s, uint8_t *to,
                              struct cqe *c)
{
    const uint8_t *frame = s->bth - hdr_bth_at(form);

    encap_grh(to, hdr_is_ipv6(form) ? ICRC_IPV6 : ICRC_IPV4, frame + hdr_l3_at(form));
    c->src_qpn = deth_src_qpn(s->bth + BTH_LEN);
    memcpy(c->smac, frame + MAC_LEN, sizeof(c->smac));
}

/* What the CQE says of this message alone. grh: where a datagram's network header goes. */
ALWAYS_INLINE void put_cqe(enum messages what, const struct rx_batch *b, const struct icrc_span *s,
                           uint64_t wr_id, uint32_t wqe, uint8_t *grh, struct cqe *c)
{
    c->wr_id = wr_id;
    c->byte_len = bytes_of(what, s);
    c->wqe = wqe;
    if (have_imm(what))
        memcpy(&c->imm, imm_of(what, b, s), sizeof(c->imm));
    if (!are_datagrams(what))
        return;
    if (likely(b->form == HDR_IPV4))
        put_sender(HDR_IPV4, s, grh, c);
    else
        put_sender(b->form, s, grh, c);
}

/* Whether a counter counts messages of the batch. */
ALWAYS_INLINE bool counts_messages(const struct rx_batch *b)
{
    return counts(b->qp, QP_COUNT_RECV | QP_COUNT_PEER_WRITE);
}

/* The CQE of a message that has its bytes. If messages are counted, the program must not find it
 * before the count. */
ALWAYS_INLINE void give_message(bool counted, struct cq_batch *cqes, struct cqe *c)
{
    if (unlikely(counted))
        cq_batch_keep(cqes);
    else
        cq_batch_give(cqes, c);
}

/* The batch's first n messages are counted, and have the last CQEs. */
ALWAYS_INLINE void count_and_give(enum messages what, const struct rx_batch *b, unsigned n,
                                  const struct cq_batch *cqes)
{
    count_received(b->e, b->qp, b->span, n, what == WRITES_IMM);
    cq_batch_give_kept(cqes, n);
}

/* The next n WQEs of an SRQ, which srq_begin has locked, are taken, and others may take those
 * behind them. */
static inline void resp_srq_taken(struct engine *e, struct srq *srq, unsigned pending, unsigned n)
{
    if (srq_end(srq, pending, n) && e->cfg.host.srq_event)
        e->cfg.host.srq_event(e->cfg.host.ctx, srq, QP_EVENT_SRQ_LIMIT_REACHED);
}

/* resp_batch_pieces.c: places up to n messages whose receive WQEs, the queue pair's own or an
 * SRQ's, have several SGEs; how many. */
unsigned resp_place_pieces(enum messages what, struct rx_batch *b, unsigned n);

#endif
