/* SPDX-License-Identifier: BSD-3-Clause */
/* A packet as one line of text: see pkt.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common.h"
#include "kept_map.h"
#include "pkt.h"

/* Text that is appended to in a buffer that may be too small; len counts all of the text, as
 * snprintf does. */
struct text {
    char *out;
    size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) append(struct text *t, const char *fmt, ...)
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

static void append_syndrome(struct text *t, uint8_t syndrome, uint32_t msn)
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
        append(t, " credit %u", value);
        break;
    case AETH_RNR:
        append(t, " rnr %u", value);
        break;
    case AETH_NAK:
        if (value < ARRAY_SIZE(nak))
            append(t, " nak %s", nak[value]);
        else if (value == NAK_LOSSES)
            append(t, " nak losses");
        else
            append(t, " nak %u", value);
        break;
    default:
        append(t, " syndrome 0x%02x", syndrome);
    }
    append(t, " msn %u", msn);
}

static void append_extensions(struct text *t, const struct pkt *p, unsigned flags)
{
    if (flags & PF_DETH)
        append(t, " qkey 0x%08x src 0x%06x", p->deth.qkey, p->deth.src_qpn);
    if (flags & PF_XRCETH)
        append(t, " srq 0x%06x", p->xrc_srqn);
    if (flags & PF_FETH)
        append(t, " placement 0x%x selectivity %u", p->feth.placement, p->feth.selectivity);
    if (flags & PF_RETH)
        append(t, " va 0x%" PRIx64 " rkey 0x%x dma %u", p->reth.va, p->reth.rkey, p->reth.len);
    if (flags & PF_ATOMICETH) {
        append(t, " va 0x%" PRIx64 " rkey 0x%x", p->atomic.va, p->atomic.rkey);
        append(t, pkt_info(p)->kind == KIND_CMP_SWP ? " swap 0x%" PRIx64 : " add 0x%" PRIx64,
               p->atomic.swap_add);
        /* FETCH_ADD carries the field too, but responders ignore it. */
        if (pkt_info(p)->kind == KIND_CMP_SWP)
            append(t, " compare 0x%" PRIx64, p->atomic.compare);
    }
    if (flags & PF_AETH)
        append_syndrome(t, p->aeth.syndrome, p->aeth.msn);
    if (flags & PF_ATOMICACKETH)
        append(t, " orig 0x%" PRIx64, p->atomic_ack);
    if (flags & PF_IMM)
        append(t, " imm 0x%08x", p->imm);
    if (flags & PF_IETH)
        append(t, " inv 0x%x", p->ieth_rkey);
}

#define RANGES_MAX 8

/* What is kept, as ranges of PSNs: the first ones. */
static void append_map(struct text *t, const struct pkt *p)
{
    struct kept_map m;
    unsigned from = 0, ranges = 0;

    kept_map_parse(&m, p->payload, p->payload_len);
    append(t, " duplicates %u kept", m.duplicates);
    for (unsigned i = 0; i <= 64 * m.words; i++) {
        bool kept = i < 64 * m.words && m.bits[i / 64] >> i % 64 & 1;
        bool before = i && m.bits[(i - 1) / 64] >> (i - 1) % 64 & 1;

        if (kept && !before)
            from = i;
        if (kept || !before)
            continue;
        if (ranges++ == RANGES_MAX) {
            append(t, " ...");
            return;
        }
        append(t, " %u", psn_add(m.first, from).v);
        if (i - from > 1)
            append(t, "-%u", psn_add(m.first, i - 1).v);
    }
}

int pkt_format(char *out, size_t size, const struct pkt *p)
{
    const struct opcode_info *info = pkt_info(p);
    struct text t = {.out = out, .size = size};

    if (size)
        *out = '\0';
    if (!info->name) {
        append(&t, "undefined opcode 0x%02x", p->opcode);
        return (int)t.len;
    }
    append(&t, "%s qp 0x%06x psn %u", info->name, p->dest_qpn, p->psn.v);
    append(&t, "%s%s%s%s%s", p->ack_req ? " ack" : "", p->solicited ? " se" : "",
           p->mig_req ? " mig" : "", p->fecn ? " fecn" : "", p->becn ? " becn" : "");
    if (p->pkey != PKEY_DEFAULT)
        append(&t, " pkey 0x%04x", p->pkey);
    append_extensions(&t, p, info->flags);
    if (info->flags & PF_PAYLOAD)
        append(&t, " len %u", p->payload_len);
    else if (p->payload_len && p->payload)
        append_map(&t, p);
    return (int)t.len;
}
