/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapped memory in several pieces, which the bytes of a packet fill from its start. */
#ifndef UROCE_MR_PIECES_H
#define UROCE_MR_PIECES_H

#include "mr_grant.h"
#include "rx_batch.h"

struct mr_piece {
    uint8_t *at;
    uint32_t len;
};

/*
 * Those of n SGEs that take len bytes, from byte `off` of the SGEs on, into p[n]. False: they have
 * no room, or one is not mapped.
 */
ALWAYS_INLINE bool mr_pieces_find(struct rx_batch *b, struct mr_grant *g, const struct sge *sge,
                                  unsigned n, uint32_t off, uint32_t len, struct mr_piece *p)
{
    for (unsigned i = 0; len && i < n; i++) {
        if (off >= sge[i].length) {
            off -= sge[i].length;
            continue;
        }
        p->len = min_of(len, sge[i].length - off);
        p->at = rx_batch_lookup(b, g, &b->qp->resp.recv_hint, sge[i].lkey, MEM_LOCAL_WRITE,
                                sge[i].addr + off, p->len);
        if (!p->at)
            return false;
        off = 0;
        len -= p->len;
        p++;
    }
    return !len;
}

/* len > 0, and there is room for it. Returns the piece that is filled next. */
ALWAYS_INLINE struct mr_piece *mr_pieces_put(struct mr_piece *p, const uint8_t *bytes, uint32_t len)
{
    for (; len > p->len; p++) {
        mr_grant_copy(p->at, bytes, p->len);
        bytes += p->len;
        len -= p->len;
    }
    mr_grant_copy(p->at, bytes, len);
    p->at += len;
    p->len -= len;
    return p;
}

#endif
