/* SPDX-License-Identifier: BSD-3-Clause */
/* Building transport headers: see pkt.h. */
#include "bytes.h"
#include "pkt.h"

static void build_bth(uint8_t *b, const struct pkt *p)
{
    b[0] = p->opcode;
    b[1] = (uint8_t)(p->solicited << 7 | p->mig_req << 6 | pkt_pad(p->payload_len) << 4);
    put_be16(b + 2, p->pkey);
    put_be32(b + 4, (uint32_t)p->fecn << 31 | (uint32_t)p->becn << 30 | (p->dest_qpn & 0xFFFFFF));
    put_be32(b + 8, (uint32_t)p->ack_req << 31 | p->psn.v);
}

size_t pkt_build_headers(uint8_t *bth, const struct pkt *p)
{
    unsigned flags = pkt_info(p)->flags;
    uint8_t *b = bth + BTH_LEN;

    build_bth(bth, p);
    if (flags & PF_DETH) {
        put_be32(b, p->deth.qkey);
        put_be32(b + 4, p->deth.src_qpn & 0xFFFFFF);
        b += 8;
    }
    if (flags & PF_XRCETH) {
        put_be32(b, p->xrc_srqn & 0xFFFFFF);
        b += 4;
    }
    if (flags & PF_FETH) {
        put_be32(b, (p->feth.selectivity & 0x3u) << 4 | (p->feth.placement & 0xFu));
        b += 4;
    }
    if (flags & PF_RETH) {
        put_be64(b, p->reth.va);
        put_be32(b + 8, p->reth.rkey);
        put_be32(b + 12, p->reth.len);
        b += 16;
    }
    if (flags & PF_ATOMICETH) {
        put_be64(b, p->atomic.va);
        put_be32(b + 8, p->atomic.rkey);
        put_be64(b + 12, p->atomic.swap_add);
        put_be64(b + 20, p->atomic.compare);
        b += 28;
    }
    if (flags & PF_AETH) {
        put_be32(b, (uint32_t)p->aeth.syndrome << 24 | (p->aeth.msn & 0xFFFFFF));
        b += 4;
    }
    if (flags & PF_ATOMICACKETH) {
        put_be64(b, p->atomic_ack);
        b += 8;
    }
    if (flags & PF_IMM) {
        put_be32(b, p->imm);
        b += 4;
    }
    if (flags & PF_IETH) {
        put_be32(b, p->ieth_rkey);
        b += 4;
    }
    return (size_t)(b - bth);
}

unsigned pkt_build_pad(uint8_t *payload, uint32_t payload_len)
{
    unsigned pad = pkt_pad(payload_len);

    memset(payload + payload_len, 0, pad);
    return pad;
}
