/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common.h"
#include "pkt.h"

/* Text that grows in a buffer that may be too small; len counts what there would be. */
struct text {
    char *out;
    size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
    size_t used = min_of(t->len, t->size);
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(used < t->size ? t->out + used : NULL, t->size - used, fmt, args);
    va_end(args);
    if (n > 0)
        t->len += (size_t)n;
}

static void add_syndrome(struct text *t, uint8_t syndrome, uint32_t msn)
{
    static const char *const nak[] = {
        [NAK_PSN_SEQUENCE] = "psn_sequence",
        [NAK_INVALID_REQUEST] = "invalid_request",
        [NAK_REMOTE_ACCESS] = "remote_access",
        [NAK_REMOTE_OPERATIONAL] = "remote_operational",
        [NAK_INVALID_RD_REQUEST] = "invalid_rd_request",
    };
    unsigned value = syndrome & AETH_VALUE_MASK;

    switch (syndrome & AETH_CLASS_MASK) {
    case AETH_ACK:
        add(t, " credit %u", value);
        break;
    case AETH_RNR:
        add(t, " rnr %u", value);
        break;
    case AETH_NAK:
        if (value < ARRAY_SIZE(nak))
            add(t, " nak %s", nak[value]);
        else
            add(t, " nak %u", value);
        break;
    default:
        add(t, " syndrome 0x%02x", syndrome);
    }
    add(t, " msn %u", msn);
}

static void add_extensions(struct text *t, const struct pkt *p, unsigned flags)
{
    if (flags & PF_DETH)
        add(t, " qkey 0x%08x src 0x%06x", p->deth.qkey, p->deth.src_qpn);
    if (flags & PF_XRCETH)
        add(t, " srq 0x%06x", p->xrc_srqn);
    if (flags & PF_FETH)
        add(t, " placement 0x%x selectivity %u", p->feth.placement, p->feth.selectivity);
    if (flags & PF_RETH)
        add(t, " va 0x%" PRIx64 " rkey 0x%x dma %u", p->reth.va, p->reth.rkey, p->reth.len);
    if (flags & PF_ATOMICETH) {
        add(t, " va 0x%" PRIx64 " rkey 0x%x", p->atomic.va, p->atomic.rkey);
        add(t, pkt_info(p)->kind == KIND_CMP_SWP ? " swap 0x%" PRIx64 : " add 0x%" PRIx64,
            p->atomic.swap_add);
        /* FETCH_ADD carries the field too, and nobody looks at it. */
        if (pkt_info(p)->kind == KIND_CMP_SWP)
            add(t, " compare 0x%" PRIx64, p->atomic.compare);
    }
    if (flags & PF_AETH)
        add_syndrome(t, p->aeth.syndrome, p->aeth.msn);
    if (flags & PF_ATOMICACKETH)
        add(t, " orig 0x%" PRIx64, p->atomic_ack);
    if (flags & PF_IMM)
        add(t, " imm 0x%08x", p->imm);
    if (flags & PF_IETH)
        add(t, " inv 0x%x", p->ieth_rkey);
}

int pkt_format(char *out, size_t size, const struct pkt *p)
{
    const struct opcode_info *info = pkt_info(p);
    struct text t = {.out = out, .size = size};

    if (size)
        *out = '\0';
    if (!info->name) {
        add(&t, "undefined opcode 0x%02x", p->opcode);
        return (int)t.len;
    }
    add(&t, "%s qp 0x%06x psn %u", info->name, p->dest_qpn, p->psn.v);
    add(&t, "%s%s%s%s%s", p->ack_req ? " ack" : "", p->solicited ? " se" : "",
        p->mig_req ? " mig" : "", p->fecn ? " fecn" : "", p->becn ? " becn" : "");
    if (p->pkey != PKEY_DEFAULT)
        add(&t, " pkey 0x%04x", p->pkey);
    add_extensions(&t, p, info->flags);
    if (info->flags & PF_PAYLOAD)
        add(&t, " len %u", p->payload_len);
    return (int)t.len;
}
