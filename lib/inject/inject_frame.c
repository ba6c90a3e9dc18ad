/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame that rules look at and damage: see inject.h. */
#include "bth.h"
#include "encap.h"
#include "inject.h"
#include "pkt.h"

/* The byte of the BTH that the ICRC does not cover: FECN, BECN and reserved bits. */
#define BTH_UNCOVERED 4

static bool find_packet(struct encap_view *v, struct pkt *p, const struct frame *f)
{
    static const struct encap_port any = {.promiscuous = true};

    return encap_rx(v, f->data, f->len, &any) == DROP_NONE &&
           pkt_parse(p, v->bth, v->bth_len) == DROP_NONE;
}

/* Acknowledges are ACKs or NAKs. One with a payload is a report of selective repeat, which refuses
 * nothing whatever its syndrome is. */
static bool is_ack(const struct pkt *p)
{
    return (p->opcode & PKT_OP_MASK) == OP_ACK && !p->payload_len &&
           (p->aeth.syndrome & AETH_CLASS_MASK) == AETH_ACK;
}

bool inject_read(struct inject_packet *p, const struct frame *f)
{
    struct encap_view v;
    struct pkt pkt;

    if (!find_packet(&v, &pkt, f))
        return false;
    p->opcode = pkt.opcode;
    p->sport = v.udp_sport;
    p->dest_qpn = pkt.dest_qpn;
    p->psn = pkt.psn.v;
    p->is_ack = is_ack(&pkt);
    p->peer = p->direction == INJECT_RX ? v.sgid : v.dgid;
    return true;
}

/* A byte of the frame; NULL: it has none of this kind. */
static uint8_t *choose_byte(const struct inject_rule *rule, uint64_t index, const struct frame *f,
                            const struct encap_view *v, const struct pkt *p)
{
    uint8_t *bth = f->data + (v->bth - f->data);
    uint32_t at;

    if (!rule->header)
        return p->payload_len
                   ? bth + (p->payload - v->bth) + inject_below(rule, index, p->payload_len)
                   : NULL;
    at = inject_below(rule, index, pkt_info(p)->header_len - 1u);
    return bth + at + (at >= BTH_UNCOVERED);
}

bool inject_corrupt(const struct inject_rule *rule, uint64_t index, struct frame *f)
{
    struct encap_view v;
    struct pkt p;
    uint8_t *byte, *l3;

    if (!find_packet(&v, &p, f))
        return false;
    byte = choose_byte(rule, index, f, &v, &p);
    if (!byte)
        return false;
    l3 = f->data + (v.l3 - f->data);
    if (f->icrc_omitted && !rule->sealed) {
        icrc_seal(v.l3_kind, l3, v.l3_len - ICRC_LEN);
        f->icrc_omitted = false;
    }
    *byte ^= 0xFF;
    if (!f->icrc_omitted && rule->sealed)
        icrc_seal(v.l3_kind, l3, v.l3_len - ICRC_LEN);
    return true;
}

bool inject_nak(const struct inject_rule *rule, struct frame *f)
{
    struct encap_view v;
    struct pkt p;
    uint8_t *aeth;

    if (!find_packet(&v, &p, f) || !is_ack(&p))
        return false;
    aeth = f->data + (v.bth - f->data) + BTH_LEN;
    aeth_put(aeth, rule->syndrome, aeth_msn(aeth));
    if (!f->icrc_omitted)
        icrc_seal(v.l3_kind, f->data + (v.l3 - f->data), v.l3_len - ICRC_LEN);
    return true;
}
