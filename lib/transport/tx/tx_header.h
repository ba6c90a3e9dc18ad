/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers that consecutive packets of a queue pair have in common: outer headers and the start
 * of the BTH are written once and copied into each frame, and the start of the ICRC is computed
 * once. Such packets have the same IP identification, too: they are never fragmented, so the field
 * has no meaning (RFC 6864, 4.1).
 */
#ifndef UROCE_TX_HEADER_H
#define UROCE_TX_HEADER_H

#include "bth.h"
#include "engine_private.h"

/* From this payload length on a mapped payload is copied and added to the ICRC in one pass, when
 * its packet is sealed. */
#define TX_COPY_LATE_MIN 512

struct tx_header {
    uint8_t bytes[80]; /* outer headers, BTH; the packet's own bytes overwrite what follows */
    uint32_t frame_len;
    unsigned first; /* the first frame with this header that is not sealed */
};
_Static_assert(ENCAP_MAX_LEN + BTH_LEN <= 80, "room in struct tx_header");

/* By these outer headers, here and below the same ones. word: the BTH's first. bth_len: bytes from
 * the BTH through the ICRC. */
static inline void tx_header_make(struct engine *e, const struct encap_template *encap,
                                  uint32_t dest_qpn, struct tx_header *h, uint32_t word,
                                  uint32_t bth_len)
{
    uint8_t *bth = h->bytes + encap_tx(h->bytes, encap, bth_len, e->ip_id++);

    bth_put_flow(bth, word, dest_qpn);
    h->frame_len = encap->len + bth_len;
}

/* Copies the header, with as many outer bytes, into a frame and adds the BTH's last word. Returns
 * what follows the BTH. */
static inline uint8_t *tx_header_put(const struct tx_header *h, uint32_t outer, struct frame *frame,
                                     uint32_t word)
{
    uint8_t *bth = frame->data + outer;

    frame->len = h->frame_len;
    memcpy(frame->data, h->bytes, sizeof(h->bytes));
    bth_put_last_word(bth, word);
    return bth + BTH_LEN;
}

/* Seals the frames with this header up to `end`. */
static inline void tx_header_seal(struct engine *e, struct qp *qp,
                                  const struct encap_template *encap, const struct tx_header *h,
                                  const struct frame *frames, unsigned end)
{
    unsigned n = end - h->first;

    if (!n)
        return;
    if (!frames[h->first].icrc_omitted)
        encap_seal_batch(encap, &frames[h->first], n);
    tx_count(e, qp, encap->priority, n, (uint64_t)n * h->frame_len);
}

/* Copies the payload, len mapped bytes at `from`, behind the headers in the frame and seals the
 * packet in the same pass. Returns the frame's length. */
static inline uint32_t tx_seal_copy(const struct frame *f, const struct encap_template *t,
                                    uint32_t bth_len, const uint8_t *from, uint32_t len)
{
    return (uint32_t)(f->icrc_omitted ? encap_copy : encap_seal_copy)(f->data, t, bth_len, from,
                                                                      len);
}

/* The same for the next frame with this header, which is the first that is not sealed. */
static inline void tx_header_seal_copy(struct engine *e, struct qp *qp,
                                       const struct encap_template *encap, struct tx_header *h,
                                       const struct frame *f, const uint8_t *from, uint32_t len)
{
    tx_seal_copy(f, encap, h->frame_len - encap->len, from, len);
    tx_count(e, qp, encap->priority, 1, h->frame_len);
    h->first++;
}

#endif
