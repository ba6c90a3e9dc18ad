/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of a packet's fields, which `in` sets and `out` checks. */
#include <stdio.h>
#include <string.h>

#include "script.h"

#define F(name, member)                                                       \
    {                                                                         \
        name, offsetof(struct pkt, member), sizeof(((struct pkt *)0)->member) \
    }

const struct field packet_fields[] = {
    F("psn", psn.v),
    F("pkey", pkey),
    F("dqpn", dest_qpn),
    F("dma", reth.len),
    F("swap", atomic.swap_add),
    F("add", atomic.swap_add),
    F("compare", atomic.compare),
    F("msn", aeth.msn),
    F("orig", atomic_ack),
    F("imm", imm),
    F("inv", ieth_rkey),
    F("qkey", deth.qkey),
    F("sqpn", deth.src_qpn),
    F("srq", xrc_srqn),
    F("placement", feth.placement),
    F("selectivity", feth.selectivity),
    {0},
};

const struct field packet_flags[] = {
    F("ack", ack_req), F("se", solicited), F("mig", mig_req), F("fecn", fecn), F("becn", becn), {0},
};

const struct field *packet_remote(const struct pkt *p, const char *name)
{
    static const struct field reth[] = {F("va", reth.va), F("rkey", reth.rkey), {0}};
    static const struct field atomic[] = {F("va", atomic.va), F("rkey", atomic.rkey), {0}};

    return find_field(pkt_info(p)->flags & PF_ATOMICETH ? atomic : reth, name);
}

uint8_t need_opcode(struct script *s)
{
    const char *name = need(s, "an opcode");

    for (unsigned i = 0; i < 256; i++)
        if (opcode_table[i].name && !strcmp(opcode_table[i].name, name))
            return (uint8_t)i;
    fail(s, "script: '%s' is no opcode", name);
}

/* kept none|PSN[-PSN],... [again N] [first PSN]: the map of kept packets of an ACK whose PSN is
 * known. Its first PSN follows from that, unless it is given. */
struct kept_map need_map(struct script *s, psn_t first)
{
    const char *text = need(s, "what is kept");
    struct kept_map m = {.first = first, .words = 1};
    unsigned from, to;
    int used;

    while (strcmp(text, "none") && *text) {
        if (sscanf(text, "%u%n", &from, &used) != 1)
            fail(s, "script: kept none|PSN[-PSN],...");
        text += used;
        to = from;
        if (sscanf(text, "-%u%n", &to, &used) == 1)
            text += used;
        for (unsigned i = from - first.v; i <= to - first.v; i++) {
            if (i >= KEPT_MAP_PACKETS)
                fail(s, "script: no map is about PSN %u", first.v + i);
            m.bits[i / 64] |= UINT64_C(1) << i % 64;
            m.words = max_of(m.words, i / 64 + 1);
        }
        text += *text == ',';
    }
    if (accept(s, "again"))
        m.duplicates = (uint8_t)need_number(s, "a number");
    if (accept(s, "first"))
        m.first.v = (uint32_t)need_number(s, "a PSN") & PSN_MASK;
    return m;
}

bool packet_syndrome(struct script *s, const char *name, uint8_t *syndrome)
{
    static const struct name naks[] = {
        {"psn_sequence", NAK_PSN_SEQUENCE},
        {"invalid_request", NAK_INVALID_REQUEST},
        {"remote_access", NAK_REMOTE_ACCESS},
        {"remote_operational", NAK_REMOTE_OPERATIONAL},
        {"invalid_rd_request", NAK_INVALID_RD_REQUEST},
        {"losses", NAK_LOSSES},
        {0},
    };

    if (!strcmp(name, "credit"))
        *syndrome = (uint8_t)(AETH_ACK | need_number(s, "credits"));
    else if (!strcmp(name, "rnr"))
        *syndrome = (uint8_t)(AETH_RNR | need_number(s, "a timer code"));
    else if (!strcmp(name, "nak"))
        *syndrome = (uint8_t)(AETH_NAK | named(s, naks, need(s, "a NAK code"), "NAK code"));
    else if (!strcmp(name, "syndrome"))
        *syndrome = (uint8_t)need_number(s, "a syndrome");
    else
        return false;
    return true;
}
