/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frame against frame: which parts differ. And the rules: in which parts the specification leaves a
 * choice, so that a difference is none.
 */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define ETH_TCI 14

const char *replay_field_name(unsigned field)
{
    static const char *const names[] = {
#define X(name) #name,
        REPLAY_FIELDS(X)
#undef X
    };

    return names[field];
}

/* Two frames of the same shape, ours as a copy whose bits are made like the recorded ones' where a
 * field was compared. */
struct pair {
    uint8_t *ours;
    const uint8_t *rec;
    size_t l3, bth; /* offsets */
    uint64_t differs;
};

/* Takes `mask` of the byte at `at` as compared; notes whether it differs as `field`. */
static void bits(struct pair *p, unsigned field, size_t at, uint8_t mask)
{
    if ((p->ours[at] ^ p->rec[at]) & mask)
        p->differs |= UINT64_C(1) << field;
    p->ours[at] = (uint8_t)((p->ours[at] & ~mask) | (p->rec[at] & mask));
}

static void bytes(struct pair *p, unsigned field, size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bits(p, field, at + i, 0xFF);
}

static void follows(struct pair *p, size_t at, size_t len)
{
    memcpy(p->ours + at, p->rec + at, len);
}

static void compare_outer(struct pair *p, const struct encap_view *v)
{
    bytes(p, FIELD_mac, 0, 12);
    if (v->vlan_tci != VLAN_NONE) {
        bits(p, FIELD_priority, ETH_TCI, 0xF0);
        bits(p, FIELD_vlan, ETH_TCI, 0x0F);
        bytes(p, FIELD_vlan, ETH_TCI + 1, 1);
    }
    if (v->l3_kind == ICRC_IPV4) {
        bits(p, FIELD_dscp, p->l3 + 1, 0xFC);
        bits(p, FIELD_ecn, p->l3 + 1, 0x03);
        bytes(p, FIELD_ip_id, p->l3 + 4, 2);
        bytes(p, FIELD_hop_limit, p->l3 + 8, 1);
        follows(p, p->l3 + 10, 2); /* checksum */
        bytes(p, FIELD_address, p->l3 + 12, 8);
    } else {
        bits(p, FIELD_dscp, p->l3, 0x0F);
        bits(p, FIELD_dscp, p->l3 + 1, 0xC0);
        bits(p, FIELD_ecn, p->l3 + 1, 0x30);
        bits(p, FIELD_flow_label, p->l3 + 1, 0x0F);
        bytes(p, FIELD_flow_label, p->l3 + 2, 2);
        bytes(p, FIELD_hop_limit, p->l3 + 7, 1);
        bytes(p, FIELD_address, p->l3 + 8, 32);
    }
    if (v->l3_kind != ICRC_GRH) {
        bytes(p, FIELD_udp_sport, p->bth - 8, 2);
        bytes(p, FIELD_udp_checksum, p->bth - 2, 2);
    }
}

static void compare_bth(struct pair *p)
{
    bytes(p, FIELD_opcode, p->bth, 1);
    bits(p, FIELD_solicited, p->bth + 1, 0x80);
    bits(p, FIELD_mig_req, p->bth + 1, 0x40);
    bits(p, FIELD_length, p->bth + 1, 0x30);
    bytes(p, FIELD_pkey, p->bth + 2, 2);
    bits(p, FIELD_congestion_bits, p->bth + 4, 0xC0);
    bytes(p, FIELD_dest_qpn, p->bth + 5, 3);
    bits(p, FIELD_ack_req, p->bth + 8, 0x80);
    bytes(p, FIELD_psn, p->bth + 9, 3);
}

/* An ACK's class and code are what counts; credits and the timer are the responder's choice. */
static void compare_aeth(struct pair *p, size_t at)
{
    uint8_t class = p->rec[at] & AETH_CLASS_MASK;
    bool same_class = !((p->ours[at] ^ p->rec[at]) & AETH_CLASS_MASK);

    bits(p, FIELD_aeth, at, 0xE0);
    bits(p,
         same_class && class == AETH_ACK   ? FIELD_credit
         : same_class && class == AETH_RNR ? FIELD_rnr_timer
                                           : FIELD_aeth,
         at, AETH_VALUE_MASK);
    bytes(p, FIELD_msn, at + 1, 3);
}

static void compare_extensions(struct pair *p, uint16_t flags)
{
    static const struct {
        uint16_t flag;
        uint8_t field, len;
    } ext[] = {{PF_DETH, FIELD_deth, 8},
               {PF_XRCETH, FIELD_other_bytes, 4},
               {PF_FETH, FIELD_feth, 4},
               {PF_RETH, FIELD_reth, 16},
               {PF_ATOMICETH, FIELD_atomic, 28},
               {PF_AETH, FIELD_aeth, 4},
               {PF_ATOMICACKETH, FIELD_atomic_ack, 8},
               {PF_IMM, FIELD_imm, 4},
               {PF_IETH, FIELD_ieth, 4}};
    size_t at = p->bth + BTH_LEN;

    for (unsigned i = 0; i < ARRAY_SIZE(ext); i++) {
        if (!(flags & ext[i].flag))
            continue;
        if (ext[i].flag == PF_AETH)
            compare_aeth(p, at);
        else
            bytes(p, ext[i].field, at, ext[i].len);
        at += ext[i].len;
    }
}

/* Packets of the same shape: every bit belongs to a field, or to other_bytes. */
static uint64_t compare_alike(const struct sent *s, const struct rec *rec)
{
    uint32_t len = (uint32_t)(rec->view.l3 - rec->data) + rec->view.l3_len;
    struct pair p = {.ours = replay_grow(NULL, len),
                     .rec = rec->data,
                     .l3 = (size_t)(rec->view.l3 - rec->data),
                     .bth = (size_t)(rec->view.bth - rec->data)};

    memcpy(p.ours, s->data, len);
    compare_outer(&p, &rec->view);
    compare_bth(&p);
    compare_extensions(&p, pkt_info(&rec->pkt)->flags);
    bytes(&p, FIELD_payload, (size_t)(rec->pkt.payload - rec->data), rec->pkt.payload_len);
    follows(&p, len - ICRC_LEN, ICRC_LEN); /* both are right for what they cover */
    if (memcmp(p.ours, rec->data, len))
        p.differs |= FIELD_BIT(other_bytes);
    free(p.ours);
    return p.differs;
}

/* Of different shape: what can be said without going through the bytes. */
static uint64_t compare_unlike(const struct sent *s, const struct rec *rec)
{
    uint64_t differs = 0;

    if (s->view.l3_kind != rec->view.l3_kind)
        differs |= FIELD_BIT(l3);
    if ((s->view.vlan_tci == VLAN_NONE) != (rec->view.vlan_tci == VLAN_NONE))
        differs |= FIELD_BIT(vlan);
    if (s->pkt.opcode != rec->pkt.opcode)
        differs |= FIELD_BIT(opcode);
    if (s->pkt.payload_len != rec->pkt.payload_len)
        differs |= FIELD_BIT(length);
    else if (memcmp(s->pkt.payload, rec->pkt.payload, rec->pkt.payload_len))
        differs |= FIELD_BIT(payload);
    if (s->pkt.dest_qpn != rec->pkt.dest_qpn)
        differs |= FIELD_BIT(dest_qpn);
    if (!psn_eq(s->pkt.psn, rec->pkt.psn))
        differs |= FIELD_BIT(psn);
    return differs ? differs : FIELD_BIT(other_bytes);
}

uint64_t replay_compare(const struct sent *s, const struct rec *rec)
{
    bool alike = s->view.l3_kind == rec->view.l3_kind && s->view.l3_len == rec->view.l3_len &&
                 s->view.l3 - s->data == rec->view.l3 - rec->data &&
                 s->view.bth - s->data == rec->view.bth - rec->data &&
                 pkt_info(&s->pkt)->flags == pkt_info(&rec->pkt)->flags &&
                 s->pkt.payload_len == rec->pkt.payload_len;

    return alike ? compare_alike(s, rec) : compare_unlike(s, rec);
}

/* ---- rules ---- */

enum {
    RULE_numbering = RULE_first_field,
    RULE_entropy,
    RULE_flow_label,
    RULE_checksum,
    RULE_ecn,
    RULE_migration,
    RULE_ack_request,
    RULE_credits,
    RULE_rnr_timer,
    RULE_datagram_psn,
};

const struct replay_rule replay_rules[] = {
    [RULE_ack_coalescing] = {"ack_coalescing", "9.7.5.1",
                             "one acknowledge may stand for several; it was given sooner or later"},
    [RULE_ack_repeated] = {"ack_repeated", "9.7.5.1",
                           "duplicates may be acknowledged by one acknowledge"},
    [RULE_ack_unasked] = {"ack_unasked", "9.7.5.1",
                          "an acknowledge that nobody asked for is the responder's choice"},
    [RULE_lost] = {"lost", "9.7",
                   "lost on its way to where it was captured, as the peer's frames show"},
    [RULE_retransmission] = {"retransmission", "9.7.6.1",
                             "when to send again, and from where, is the requester's choice"},
    [RULE_refused] = {"refused", "9.9.2",
                      "packets on their way when the NAK came; the queue pair has stopped"},
    [RULE_numbering] = {"numbering", "A17.3.1", "any IPv4 identification"},
    [RULE_entropy] = {"entropy", "A17.3.2", "any UDP source port"},
    [RULE_flow_label] = {"flow_label", "A17.3.1", "any IPv6 flow label"},
    [RULE_checksum] = {"checksum", "A17.3.2", "a UDP checksum may be left out"},
    [RULE_ecn] = {"ecn", "A17.9", "marked while the frame was on its way, or ECN not in use"},
    [RULE_migration] = {"migration", "17.2.8", "MigReq, without automatic path migration"},
    [RULE_ack_request] = {"ack_request", "9.7.5.1",
                          "which packets ask for an acknowledge is the requester's choice"},
    [RULE_credits] = {"credits", "9.7.7.2", "end-to-end credits are optional"},
    [RULE_rnr_timer] = {"rnr_timer", "9.7.5.2.8", "how long to wait is the responder's choice"},
    [RULE_datagram_psn] = {"datagram_psn", "9.8.3", "nobody looks at a datagram's PSN"},
};
const unsigned replay_rule_count = ARRAY_SIZE(replay_rules);

int replay_field_rule(unsigned field, const struct sent *s, const struct rec *rec)
{
    switch (field) {
    case FIELD_ip_id:
        return RULE_numbering;
    case FIELD_udp_sport:
        return RULE_entropy;
    case FIELD_flow_label:
        return RULE_flow_label;
    case FIELD_udp_checksum:
        return RULE_checksum;
    case FIELD_ecn:
    case FIELD_congestion_bits:
        return RULE_ecn;
    case FIELD_mig_req:
        return RULE_migration;
    case FIELD_ack_req:
        return pkt_info(&rec->pkt)->flags & PF_REQUEST ? RULE_ack_request : -1;
    case FIELD_credit:
        return RULE_credits;
    case FIELD_rnr_timer:
        return RULE_rnr_timer;
    case FIELD_psn:
        return pkt_info(&s->pkt)->service == PKT_UD ? RULE_datagram_psn : -1;
    default:
        return -1;
    }
}
