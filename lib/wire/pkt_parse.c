/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing transport headers: see pkt.h. */
#include "bytes.h"
#include "common.h"
#include "kept_map.h"
#include "pkt.h"

static void parse_bth(struct pkt *p, const uint8_t *b)
{
    uint32_t w1 = get_be32(b + 4), w2 = get_be32(b + 8);

    p->opcode = b[0];
    p->solicited = b[1] >> 7;
    p->mig_req = b[1] >> 6 & 1;
    p->pad = b[1] >> 4 & 3;
    p->pkey = get_be16(b + 2);
    p->fecn = w1 >> 31;
    p->becn = w1 >> 30 & 1;
    p->dest_qpn = w1 & 0xFFFFFF;
    p->ack_req = w2 >> 31;
    p->psn = psn(w2 & 0xFFFFFF);
}

static void parse_reth(struct pkt *p, const uint8_t *b)
{
    p->reth.va = get_be64(b);
    p->reth.rkey = get_be32(b + 8);
    p->reth.len = get_be32(b + 12);
}

static void parse_aeth(struct pkt *p, const uint8_t *b)
{
    p->aeth.syndrome = b[0];
    p->aeth.msn = get_be24(b + 1);
}

/* Parses the extension headers in their order on the wire. The caller has checked the length. */
static void parse_extensions(struct pkt *p, unsigned flags, const uint8_t *b)
{
    flags &= PF_EXTENSIONS;
    if (!flags)
        return;
    if (flags == PF_RETH) { /* the two most frequent sets, each a single header */
        parse_reth(p, b);
        return;
    }
    if (flags == PF_AETH) {
        parse_aeth(p, b);
        return;
    }
    if (flags & PF_DETH) {
        p->deth.qkey = get_be32(b);
        p->deth.src_qpn = get_be24(b + 5);
        b += 8;
    }
    if (flags & PF_XRCETH) {
        p->xrc_srqn = get_be24(b + 1);
        b += 4;
    }
    if (flags & PF_FETH) {
        p->feth.selectivity = b[3] >> 4 & 0x3;
        p->feth.placement = b[3] & 0xF;
        b += 4;
    }
    if (flags & PF_RETH) {
        parse_reth(p, b);
        b += 16;
    }
    if (flags & PF_ATOMICETH) {
        p->atomic.va = get_be64(b);
        p->atomic.rkey = get_be32(b + 8);
        p->atomic.swap_add = get_be64(b + 12);
        p->atomic.compare = get_be64(b + 20);
        b += 28;
    }
    if (flags & PF_AETH) {
        parse_aeth(p, b);
        b += 4;
    }
    if (flags & PF_ATOMICACKETH) {
        p->atomic_ack = get_be64(b);
        b += 8;
    }
    if (flags & PF_IMM) {
        p->imm = get_be32(b);
        b += 4;
    }
    if (flags & PF_IETH)
        p->ieth_rkey = get_be32(b);
}

/* Whether the opcode allows `rest` bytes between the headers and the ICRC, `pad` of them padding.
 */
static bool length_suits(const struct opcode_info *info, size_t rest, unsigned pad)
{
    /* A sender pads to a multiple of four, so anything else contradicts the pad count. */
    if (rest & 3 || pad > rest)
        return false;
    if (!(info->flags & PF_PAYLOAD))
        return !rest || (info->kind == KIND_ACK && !pad && kept_map_len_ok(rest));
    if (info->payload_fix)
        return rest - pad == info->payload_fix;
    /* Every packet of a message but the last carries a full MTU. */
    return (info->flags & PF_END) || !pad;
}

enum drop pkt_parse(struct pkt *p, const uint8_t *bth, size_t len)
{
    const struct opcode_info *info;
    size_t rest;

    if (unlikely(len < BTH_LEN + ICRC_LEN))
        return DROP_truncated;
    parse_bth(p, bth);
    info = &opcode_table[p->opcode];
    if (unlikely(!info->name))
        return DROP_unknown_opcode;
    if (unlikely(bth[1] & 0x0F))
        return DROP_transport_version;
    if (unlikely(len < (size_t)info->header_len + ICRC_LEN))
        return DROP_truncated;
    rest = len - info->header_len - ICRC_LEN;
    if (unlikely(!length_suits(info, rest, p->pad)))
        return DROP_pad_length;
    parse_extensions(p, info->flags, bth + BTH_LEN);
    p->payload = bth + info->header_len;
    p->payload_len = (uint32_t)(rest - p->pad);
    return DROP_NONE;
}
