/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What packets in a row have in common: outer headers and the begin of the BTH are written once,
 * copied, and the ICRC's begin is computed once. Of such packets it is also the identification that
 * is the same. They are never fragmented, so it means nothing (RFC 6864, 4.1).
 */
#ifndef UROCE_TX_HEAD_H
#define UROCE_TX_HEAD_H

#include "transport.h"

struct tx_head {
    uint8_t bytes[80]; /* outer headers, BTH; what follows is overwritten */
    uint32_t frame_len;
    unsigned first; /* frame that has them, of those that are not sealed */
};
_Static_assert(ENCAP_MAX_LEN + BTH_LEN <= 80, "room in struct tx_head");

/* word: the BTH's first. bth_len: from it through the ICRC. */
static inline void tx_head_make(struct engine *e, const struct qp *qp, struct tx_head *h,
                                uint32_t word, uint32_t bth_len)
{
    uint8_t *bth = h->bytes + encap_tx(h->bytes, &qp->encap, bth_len, e->ip_id++);

    put_be32(bth, word);
    put_be32(bth + 4, qp->dest_qpn);
    h->frame_len = qp->encap.len + bth_len;
}

/* Into a frame, with the last word of the BTH. Returns what follows the BTH. */
static inline uint8_t *tx_head_put(const struct tx_head *h, const struct qp *qp,
                                   struct frame *frame, uint32_t word)
{
    uint8_t *next = frame->data + qp->encap.len + BTH_LEN;

    frame->len = h->frame_len;
    memcpy(frame->data, h->bytes, sizeof(h->bytes));
    put_be32(next - 4, word);
    return next;
}

/* The frames with this head, up to `end`, are ready. */
static inline void tx_head_seal(struct engine *e, struct qp *qp, const struct tx_head *h,
                                const struct frame *frames, unsigned end)
{
    unsigned n = end - h->first;

    if (!n)
        return;
    if (!frames[h->first].icrc_omitted)
        encap_seal_batch(&qp->encap, &frames[h->first], n);
    tx_count(e, qp, qp->encap.priority, n, (uint64_t)n * h->frame_len);
}

/* The next one is, but for its payload, which is mapped and so long that it is copied while it is
 * summed up. */
static inline void tx_head_seal_copy(struct engine *e, struct qp *qp, struct tx_head *h,
                                     const struct frame *f, const uint8_t *from, uint32_t len)
{
    (f->icrc_omitted ? encap_copy : encap_seal_copy)(f->data, &qp->encap,
                                                     h->frame_len - qp->encap.len, from, len);
    tx_count(e, qp, qp->encap.priority, 1, h->frame_len);
    h->first++;
}

#endif
