/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose keys and WQEs the packets of a batch use: with XRC those of the SRQ that they name. */
#include "rx.h"
#include "rx_batch.h"

bool rx_batch_begin_xrc(struct rx_batch *b, const uint8_t *bth)
{
    if (!(opcode_table[bth_opcode(bth)].flags & PF_XRCETH))
        return true; /* an answer */
    b->eth_at = BTH_LEN + XRCETH_LEN;
    b->xrceth = xrceth_word(bth + BTH_LEN);
    b->xrc_hint.mr = NULL;
    b->xrc_srq = xrc_srq_find(b->e, b->qp, xrceth_srqn(bth + BTH_LEN));
    return b->xrc_srq;
}

struct mr_grant rx_batch_grant(struct rx_batch *b, struct mr_hint *hint, uint32_t key,
                               uint32_t access)
{
    return mr_grant_find(b->e, rx_batch_pd(b), b->xrc_srq ? &b->xrc_hint : hint, key, access);
}
