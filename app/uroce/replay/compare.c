/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frame against frame: which fields differ. And the rules: where the specification leaves a choice,
 * so that a difference is allowed.
 */
#include <stdlib.h>
#include <string.h>

#include "frame_field.h"
#include "judge.h"

const char *replay_field_name(unsigned field)
{
    static const char *const names[] = {
#define X(name) #name,
        REPLAY_FIELDS(X)
#undef X
    };

    return names[field];
}

/* Which difference a field of a frame is. A field without a row is one of other_bytes. */
static const struct {
    uint8_t frame, replay;
} compared[] = {
    {FRAME_ETH_dmac, FIELD_mac},
    {FRAME_ETH_smac, FIELD_mac},
    {FRAME_VLAN_pcp, FIELD_priority},
    {FRAME_VLAN_dei, FIELD_priority},
    {FRAME_VLAN_id, FIELD_vlan},
    {FRAME_IPV4_dscp, FIELD_dscp},
    {FRAME_IPV4_ecn, FIELD_ecn},
    {FRAME_IPV4_id, FIELD_ip_id},
    {FRAME_IPV4_ttl, FIELD_hop_limit},
    {FRAME_IPV4_src, FIELD_address},
    {FRAME_IPV4_dst, FIELD_address},
    {FRAME_IPV6_dscp, FIELD_dscp},
    {FRAME_IPV6_ecn, FIELD_ecn},
    {FRAME_IPV6_flow_label, FIELD_flow_label},
    {FRAME_IPV6_hop_limit, FIELD_hop_limit},
    {FRAME_IPV6_src, FIELD_address},
    {FRAME_IPV6_dst, FIELD_address},
    {FRAME_UDP_sport, FIELD_udp_sport},
    {FRAME_UDP_checksum, FIELD_udp_checksum},
    {FRAME_BTH_opcode, FIELD_opcode},
    {FRAME_BTH_solicited, FIELD_solicited},
    {FRAME_BTH_mig_req, FIELD_mig_req},
    {FRAME_BTH_pad, FIELD_length},
    {FRAME_BTH_pkey, FIELD_pkey},
    {FRAME_BTH_fecn, FIELD_congestion_bits},
    {FRAME_BTH_becn, FIELD_congestion_bits},
    {FRAME_BTH_dest_qpn, FIELD_dest_qpn},
    {FRAME_BTH_ack_req, FIELD_ack_req},
    {FRAME_BTH_psn, FIELD_psn},
    {FRAME_DETH_qkey, FIELD_deth},
    {FRAME_DETH_reserved, FIELD_deth},
    {FRAME_DETH_src_qpn, FIELD_deth},
    {FRAME_FETH_reserved, FIELD_feth},
    {FRAME_FETH_selectivity, FIELD_feth},
    {FRAME_FETH_placement, FIELD_feth},
    {FRAME_RETH_va, FIELD_reth},
    {FRAME_RETH_rkey, FIELD_reth},
    {FRAME_RETH_len, FIELD_reth},
    {FRAME_ATOMICETH_va, FIELD_atomic},
    {FRAME_ATOMICETH_rkey, FIELD_atomic},
    {FRAME_ATOMICETH_swap_add, FIELD_atomic},
    {FRAME_ATOMICETH_compare, FIELD_atomic},
    {FRAME_AETH_class, FIELD_aeth},
    {FRAME_AETH_msn, FIELD_msn},
    {FRAME_ATOMICACKETH_original, FIELD_atomic_ack},
    {FRAME_IMM_data, FIELD_imm},
    {FRAME_IETH_rkey, FIELD_ieth},
};

/* Two frames of the same shape. A field that was compared becomes the recorded one in our copy, so
 * that what still differs in the end belongs to no field. */
struct pair {
    uint8_t *ours;
    const uint8_t *rec;
    struct frame_layout layout;
    uint64_t differs;
};

static void compare_bits(struct pair *p, unsigned field, size_t at, uint8_t mask)
{
    if ((p->ours[at] ^ p->rec[at]) & mask)
        p->differs |= UINT64_C(1) << field;
    p->ours[at] = (uint8_t)((p->ours[at] & ~mask) | (p->rec[at] & mask));
}

static void compare_field(struct pair *p, enum frame_field frame_field, unsigned field)
{
    struct frame_bits at;

    if (!frame_field_at(&p->layout, frame_field, &at))
        return;
    for (unsigned bit = at.bit; bit < at.bit + at.bits;) {
        unsigned end = min_of((bit | 7) + 1, (unsigned)at.bit + at.bits);
        uint8_t mask = (uint8_t)((0xFF >> bit % 8) & (0xFF << (-end & 7)));

        compare_bits(p, field, at.byte + bit / 8, mask);
        bit = end;
    }
}

/* A checksum is right for what it covers in both frames: it is taken from the recorded one. */
static void ignore(struct pair *p, size_t at, size_t len)
{
    memcpy(p->ours + at, p->rec + at, len);
}

static void ignore_ip_checksum(struct pair *p)
{
    struct frame_bits at;

    if (frame_field_at(&p->layout, FRAME_IPV4_checksum, &at))
        ignore(p, at.byte, at.bits / 8);
}

/* Credits of an ACK and the timer of an RNR NAK are the responder's choice. */
static unsigned aeth_value_field(const struct sent *s, const struct rec *rec)
{
    uint8_t class = rec->pkt.aeth.syndrome & AETH_CLASS_MASK;

    if ((s->pkt.aeth.syndrome & AETH_CLASS_MASK) != class)
        return FIELD_aeth;
    return class == AETH_ACK ? FIELD_credit : class == AETH_RNR ? FIELD_rnr_timer : FIELD_aeth;
}

/* Packets of the same shape: every bit belongs to a field, or to other_bytes. */
static uint64_t compare_alike(const struct sent *s, const struct rec *rec)
{
    uint32_t len = (uint32_t)(rec->view.l3 - rec->data) + rec->view.l3_len;
    struct pair p = {.ours = replay_grow(NULL, len), .rec = rec->data};
    const uint8_t *payload = p.ours + (rec->pkt.payload - rec->data);

    memcpy(p.ours, s->data, len);
    frame_layout(&p.layout, rec->data, &rec->view, &rec->pkt);
    for (unsigned i = 0; i < ARRAY_SIZE(compared); i++)
        compare_field(&p, compared[i].frame, compared[i].replay);
    compare_field(&p, FRAME_AETH_value, aeth_value_field(s, rec));
    if (memcmp(payload, rec->pkt.payload, rec->pkt.payload_len))
        p.differs |= FIELD_BIT(payload);
    ignore(&p, (size_t)(rec->pkt.payload - rec->data), rec->pkt.payload_len);
    ignore_ip_checksum(&p);
    ignore(&p, len - ICRC_LEN, ICRC_LEN);
    if (memcmp(p.ours, rec->data, len))
        p.differs |= FIELD_BIT(other_bytes);
    free(p.ours);
    return p.differs;
}

/* Packets of different shape: only properties of whole headers are compared. */
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
    RULE_read_resumed,
    RULE_duplicate_msn,
};

const struct replay_rule replay_rules[] = {
    [RULE_ack_coalescing] = {"ack_coalescing", "9.7.5.1",
                             "one ACK may stand for several; it was given sooner or later"},
    [RULE_ack_repeated] = {"ack_repeated", "9.7.5.1", "duplicates may be acknowledged by one ACK"},
    [RULE_ack_unasked] = {"ack_unasked", "9.7.5.1",
                          "an ACK that no request asked for is the responder's choice"},
    [RULE_lost] = {"lost", "9.7", "lost before it was captured, as the peer's frames show"},
    [RULE_retransmission] =
        {"retransmission", "9.7.6.1",
         "when to retransmit, and from which packet, is the requester's choice"},
    [RULE_refused] = {"refused", "9.9.2",
                      "sent before the NAK arrived; the queue pair has stopped"},
    [RULE_nak_after_rnr] = {"nak_after_rnr", "9.7.5.2.8",
                            "requests behind one that got an RNR NAK: a sequence error NAK is the "
                            "responder's choice"},
    [RULE_numbering] = {"numbering", "A17.3.1", "any IPv4 identification"},
    [RULE_entropy] = {"entropy", "A17.3.2", "any UDP source port"},
    [RULE_flow_label] = {"flow_label", "A17.3.1", "any IPv6 flow label"},
    [RULE_checksum] = {"checksum", "A17.3.2", "a UDP checksum may be left out"},
    [RULE_ecn] = {"ecn", "A17.9", "marked in the network, or ECN not in use"},
    [RULE_migration] = {"migration", "17.2.8", "MigReq, without automatic path migration"},
    [RULE_ack_request] = {"ack_request", "9.7.5.1",
                          "which packets ask for an ACK is the requester's choice"},
    [RULE_credits] = {"credits", "9.7.7.2", "end-to-end credits are optional"},
    [RULE_rnr_timer] = {"rnr_timer", "9.7.5.2.8", "how long to wait is the responder's choice"},
    [RULE_datagram_psn] = {"datagram_psn", "9.8.3", "receivers ignore a datagram's PSN"},
    [RULE_read_resumed] = {"read_resumed", "9.4.4",
                           "a READ that is repeated from its middle: the response may begin anew, "
                           "or go on"},
    [RULE_duplicate_msn] = {"duplicate_msn", "9.7.7.1",
                            "the MSN in the response to a duplicate request is left open"},
};
const unsigned replay_rule_count = ARRAY_SIZE(replay_rules);

/* The recorded requests with the PSN of an answer, before that answer. */
static unsigned requests_before(const struct rec *ans)
{
    const struct stream *s = &ans->conn->stream[!ans->side];
    unsigned n, before = 0, at = judge_find_psn(s->req, s->reqs, ans->psn, &n);

    for (unsigned i = at; i < at + n; i++)
        before += s->req[i]->number < ans->number;
    return before;
}

/* The engine begins anew with FIRST or ONLY where the recorded responder goes on. */
static bool resumes_read(const struct sent *s, const struct rec *rec)
{
    uint16_t ours = pkt_info(&s->pkt)->flags, theirs = pkt_info(&rec->pkt)->flags;
    const struct message *m =
        rec->conn ? stream_message(&rec->conn->stream[!rec->side], rec->psn) : NULL;

    return pkt_info(&rec->pkt)->kind == KIND_READ_RESPONSE &&
           pkt_info(&s->pkt)->kind == KIND_READ_RESPONSE && m != NULL && rec->psn > m->first &&
           (ours & PF_START) && !(theirs & PF_START) && (ours & PF_END) == (theirs & PF_END);
}

static bool answers_duplicate(const struct rec *rec)
{
    return rec->conn != NULL && pkt_info(&rec->pkt)->kind == KIND_ATOMIC_ACK &&
           requests_before(rec) > 1;
}

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
    case FIELD_opcode:
        return resumes_read(s, rec) ? RULE_read_resumed : -1;
    case FIELD_msn:
        return answers_duplicate(rec) ? RULE_duplicate_msn : -1;
    default:
        return -1;
    }
}
