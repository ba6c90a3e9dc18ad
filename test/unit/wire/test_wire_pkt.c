/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport packets: built, parsed, built again; and every way to be malformed. */
#include <string.h>

#include "bytes.h"
#include "common.h"
#include "kept_map.h"
#include "pkt.h"
#include "random.h"
#include "unit.h"

/* Builds p with a payload of bytes from r; returns the length through the (zero) ICRC. */
static size_t build(uint8_t *out, const struct pkt *p, struct random *r)
{
    size_t at = pkt_build_headers(out, p);

    for (uint32_t i = 0; i < p->payload_len; i++)
        out[at + i] = (uint8_t)random_next(r);
    at += p->payload_len;
    at += pkt_build_pad(out + at - p->payload_len, p->payload_len);
    memset(out + at, 0, ICRC_LEN);
    return at + ICRC_LEN;
}

static void fill(struct pkt *p, uint8_t opcode, struct random *r)
{
    memset(p, 0, sizeof(*p));
    p->opcode = opcode;
    p->solicited = random_below(r, 2);
    p->mig_req = random_below(r, 2);
    p->ack_req = random_below(r, 2);
    p->fecn = random_below(r, 2);
    p->becn = random_below(r, 2);
    p->pkey = (uint16_t)random_next(r);
    p->dest_qpn = (uint32_t)random_next(r) & 0xFFFFFF;
    p->psn = psn((uint32_t)random_next(r));
    p->reth.va = random_next(r);
    p->reth.rkey = (uint32_t)random_next(r);
    p->reth.len = (uint32_t)random_next(r);
    p->atomic.va = random_next(r);
    p->atomic.swap_add = random_next(r);
    p->atomic.compare = random_next(r);
    p->atomic.rkey = (uint32_t)random_next(r);
    p->aeth.syndrome = (uint8_t)random_next(r);
    p->aeth.msn = (uint32_t)random_next(r) & 0xFFFFFF;
    p->atomic_ack = random_next(r);
    p->imm = (uint32_t)random_next(r);
    p->ieth_rkey = (uint32_t)random_next(r);
    p->deth.qkey = (uint32_t)random_next(r);
    p->deth.src_qpn = (uint32_t)random_next(r) & 0xFFFFFF;
    p->xrc_srqn = (uint32_t)random_next(r) & 0xFFFFFF;
    p->feth.placement = random_below(r, 16);
    p->feth.selectivity = random_below(r, 4);
}

static uint32_t any_payload_len(uint8_t opcode, struct random *r)
{
    const struct opcode_info *info = &opcode_table[opcode];

    if (!(info->flags & PF_PAYLOAD))
        return 0;
    if (info->payload_fix)
        return info->payload_fix;
    if (info->flags & PF_END)
        return random_below(r, PKT_MTU_MAX + 1);
    return PKT_MTU_MIN << random_below(r, 5);
}

static void assert_same_extensions(const struct pkt *a, const struct pkt *b)
{
    unsigned flags = pkt_info(a)->flags;

    if (flags & PF_DETH)
        assert_memory_equal(&a->deth, &b->deth, sizeof(a->deth));
    if (flags & PF_XRCETH)
        assert_int_equal(a->xrc_srqn, b->xrc_srqn);
    if (flags & PF_FETH)
        assert_memory_equal(&a->feth, &b->feth, sizeof(a->feth));
    if (flags & PF_RETH)
        assert_memory_equal(&a->reth, &b->reth, sizeof(a->reth));
    if (flags & PF_ATOMICETH) {
        assert_int_equal(a->atomic.va, b->atomic.va);
        assert_int_equal(a->atomic.swap_add, b->atomic.swap_add);
        assert_int_equal(a->atomic.compare, b->atomic.compare);
        assert_int_equal(a->atomic.rkey, b->atomic.rkey);
    }
    if (flags & PF_AETH) {
        assert_int_equal(a->aeth.syndrome, b->aeth.syndrome);
        assert_int_equal(a->aeth.msn, b->aeth.msn);
    }
    if (flags & PF_ATOMICACKETH)
        assert_int_equal(a->atomic_ack, b->atomic_ack);
    if (flags & PF_IMM)
        assert_int_equal(a->imm, b->imm);
    if (flags & PF_IETH)
        assert_int_equal(a->ieth_rkey, b->ieth_rkey);
}

static void round_trip(uint8_t opcode, struct random *r)
{
    uint8_t bytes[PKT_MAX_HEADER + PKT_MTU_MAX + 3 + ICRC_LEN];
    struct pkt in, out;
    size_t len;

    fill(&in, opcode, r);
    in.payload_len = any_payload_len(opcode, r);
    len = build(bytes, &in, r);
    assert_int_equal(len, pkt_len(opcode, in.payload_len));
    assert_int_equal(len % 4, 0);
    memset(&out, 0xA5, sizeof(out));
    assert_int_equal(pkt_parse(&out, bytes, len), DROP_NONE);
    assert_int_equal(out.opcode, opcode);
    assert_int_equal(out.pad, pkt_pad(in.payload_len));
    assert_int_equal(out.solicited, in.solicited);
    assert_int_equal(out.mig_req, in.mig_req);
    assert_int_equal(out.ack_req, in.ack_req);
    assert_int_equal(out.fecn, in.fecn);
    assert_int_equal(out.becn, in.becn);
    assert_int_equal(out.pkey, in.pkey);
    assert_int_equal(out.dest_qpn, in.dest_qpn);
    assert_true(psn_eq(out.psn, in.psn));
    assert_int_equal(out.payload_len, in.payload_len);
    assert_ptr_equal(out.payload, bytes + opcode_table[opcode].header_len);
    assert_same_extensions(&in, &out);
}

static void test_round_trip_of_every_opcode(void **state)
{
    struct random r = {2};

    for (unsigned op = 0; op < 256; op++)
        for (int i = 0; opcode_is_defined((uint8_t)op) && i < 200; i++)
            round_trip((uint8_t)op, &r);
}

/* Headers that no capture has, byte by byte. */
static void test_layout(void **state)
{
    static const uint8_t xrc[] = {
        0xAB, 0xA0, 0x12, 0x34, 0x40, 0, 0,    0x11, 0x80, 0xFF, 0xFF, 0xFE, /* BTH */
        0x00, 0x0A, 0xBC, 0xDE,                                              /* XRCETH */
        0,    0,    0x7F, 0,    0,    0, 0x10, 0,    0,    0,    0x3A, 0xB9, 0, 0, 0, 2, /* RETH */
        0xCA, 0xFE, 0xBA, 0xBE, /* immediate */
    };
    static const uint8_t flush[] = {
        0x1C, 0x00, 0xFF, 0xFF, 0, 0, 0, 0x12, 0x80, 0, 0, 5,             /* BTH */
        0,    0,    0,    0x12,                                           /* FETH */
        0,    0,    0,    0,    0, 0, 2, 0,    0,    0, 0, 7, 0, 0, 1, 0, /* RETH */
    };
    struct pkt p = {.opcode = 0xAB,
                    .solicited = true,
                    .becn = true,
                    .ack_req = true,
                    .pkey = 0x1234,
                    .dest_qpn = 0x11,
                    .psn = psn(0xFFFFFE),
                    .xrc_srqn = 0x0ABCDE,
                    .reth = {.va = UINT64_C(0x00007F0000001000), .rkey = 0x3AB9, .len = 2},
                    .imm = 0xCAFEBABE,
                    .payload_len = 2};
    struct pkt f = {.opcode = OPCODE(PKT_RC, OP_FLUSH),
                    .ack_req = true,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = 0x12,
                    .psn = psn(5),
                    .feth = {.placement = 2, .selectivity = 1},
                    .reth = {.va = 0x200, .rkey = 7, .len = 256}};
    uint8_t out[PKT_MAX_HEADER];

    assert_int_equal(pkt_build_headers(out, &p), sizeof(xrc));
    assert_memory_equal(out, xrc, sizeof(xrc));
    assert_int_equal(pkt_build_headers(out, &f), sizeof(flush));
    assert_memory_equal(out, flush, sizeof(flush));
}

/* A packet of len bytes, all zero but opcode and the byte with pad count and version. */
static enum drop parse_bare(uint8_t opcode, uint8_t pad, uint8_t version, size_t len)
{
    uint8_t bytes[PKT_MAX_HEADER + 64 + ICRC_LEN] = {opcode, (uint8_t)(pad << 4 | version)};
    struct pkt p;

    return pkt_parse(&p, bytes, len);
}

static void test_truncated(void **state)
{
    assert_int_equal(parse_bare(0, 0, 0, 0), DROP_truncated);
    assert_int_equal(parse_bare(0, 0, 0, BTH_LEN + ICRC_LEN - 1), DROP_truncated);
    for (unsigned op = 0; op < 256; op++) {
        size_t least = opcode_table[op].header_len + ICRC_LEN;

        for (size_t len = 0; opcode_is_defined((uint8_t)op) && len < least; len++)
            assert_int_equal(parse_bare((uint8_t)op, 0, 0, len), DROP_truncated);
    }
}

static void test_unknown_opcode(void **state)
{
    for (unsigned op = 0; op < 256; op++)
        if (!opcode_is_defined((uint8_t)op))
            assert_int_equal(parse_bare((uint8_t)op, 0, 0, 60), DROP_unknown_opcode);
}

/* A packet that crashed a kernel: 48 bytes of UDP, opcode 0xFF, to QPN 0xFFFFFF. */
static void test_undefined_opcode_to_all_ones(void **state)
{
    uint8_t bytes[48 - 8];
    struct pkt p;

    memset(bytes, 0xFF, sizeof(bytes));
    bytes[1] = 0;
    assert_int_equal(pkt_parse(&p, bytes, sizeof(bytes)), DROP_unknown_opcode);
}

static void test_transport_version(void **state)
{
    for (uint8_t version = 1; version < 16; version++)
        assert_int_equal(parse_bare(OPCODE(PKT_RC, OP_SEND_ONLY), 0, version, 16),
                         DROP_transport_version);
}

/* The expected verdict on rest bytes between headers and ICRC, from the words of the header file.
 */
static enum drop judge(const struct opcode_info *info, unsigned pad, size_t rest)
{
    bool last = info->flags & PF_END;
    bool bad = rest % 4 || pad > rest;

    bad |= !(info->flags & PF_PAYLOAD) && rest &&
           (info->kind != KIND_ACK || pad || rest < 12 || rest > 68 || (rest - 4) % 8);
    bad |= info->payload_fix && (rest != info->payload_fix || pad);
    bad |= !last && pad;
    return bad ? DROP_pad_length : DROP_NONE;
}

static void test_pad_and_length_of_every_opcode(void **state)
{
    for (unsigned op = 0; op < 256; op++) {
        const struct opcode_info *info = &opcode_table[op];

        for (size_t rest = 0; info->name && rest <= 84; rest++)
            for (uint8_t pad = 0; pad < 4; pad++)
                assert_int_equal(
                    parse_bare((uint8_t)op, pad, 0, info->header_len + rest + ICRC_LEN),
                    judge(info, pad, rest));
    }
}

static void test_pad_larger_than_payload(void **state)
{
    assert_int_equal(parse_bare(OPCODE(PKT_RC, OP_SEND_ONLY), 3, 0, 16), DROP_pad_length);
    assert_int_equal(parse_bare(OPCODE(PKT_RC, OP_WRITE_ONLY), 1, 0, 32), DROP_pad_length);
}

static void test_atomic_write_of_another_length(void **state)
{
    uint8_t op = OPCODE(PKT_RC, OP_ATOMIC_WRITE);

    for (size_t payload = 0; payload <= 32; payload++)
        for (uint8_t pad = 0; pad < 4; pad++)
            assert_int_equal(parse_bare(op, pad, 0, 28 + payload + ICRC_LEN),
                             payload == 8 && !pad ? DROP_NONE : DROP_pad_length);
}

/* Parsing judges the form only: a range that wraps around is for the memory checks. */
static void test_range_that_wraps_is_carried(void **state)
{
    struct pkt p = {.opcode = OPCODE(PKT_RC, OP_READ_REQUEST),
                    .reth = {.va = UINT64_MAX - 7, .len = 16}};
    uint8_t bytes[64];
    struct random r = {3};
    struct pkt out;

    assert_int_equal(pkt_parse(&out, bytes, build(bytes, &p, &r)), DROP_NONE);
    assert_int_equal(out.reth.va, UINT64_MAX - 7);
    assert_int_equal(out.reth.len, 16);
}

static void assert_text(const struct pkt *p, const char *text)
{
    char out[256];

    assert_int_equal(pkt_format(out, sizeof(out), p), strlen(text));
    assert_string_equal(out, text);
}

/* The map behind the AETH; of many ranges the first eight. */
static void format_map(struct pkt *p)
{
    struct kept_map m = {.first = psn(PSN_MASK), .words = 2, .duplicates = 3};
    uint8_t bytes[KEPT_MAP_MAX_LEN];

    p->pkey = PKEY_DEFAULT;
    p->payload = bytes;
    m.bits[0] = 0x8000000000000002;
    m.bits[1] = 5;
    p->payload_len = (uint32_t)kept_map_build(bytes, &m);
    assert_text(p, "RC_ACK qp 0x000000 psn 0 nak psn_sequence msn 0 duplicates 3 kept 0 62-63 65");
    m.bits[0] = 0x5555555555555555;
    kept_map_build(bytes, &m);
    assert_text(p, "RC_ACK qp 0x000000 psn 0 nak psn_sequence msn 0 duplicates 3 kept 16777215 1 3 "
                   "5 7 9 11 13 ...");
}

static void test_format(void **state)
{
    struct pkt p = {.opcode = OPCODE(PKT_RC, OP_WRITE_ONLY),
                    .ack_req = true,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = 0x11,
                    .psn = psn(1193046),
                    .reth = {.va = 0x7F0000001000, .rkey = 0x3AB9, .len = 64},
                    .aeth = {.syndrome = AETH_RNR | 12, .msn = 9},
                    .atomic = {.va = 0x1000, .rkey = 2, .swap_add = 5, .compare = 6},
                    .payload_len = 64};

    assert_text(&p,
                "RC_WRITE_ONLY qp 0x000011 psn 1193046 ack va 0x7f0000001000 rkey 0x3ab9 dma 64 "
                "len 64");
    p.opcode = OPCODE(PKT_RC, OP_ACK);
    p.ack_req = false;
    assert_text(&p, "RC_ACK qp 0x000011 psn 1193046 rnr 12 msn 9");
    p.aeth.syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
    assert_text(&p, "RC_ACK qp 0x000011 psn 1193046 nak remote_access msn 9");
    p.aeth.syndrome = AETH_NAK | 0x1D;
    assert_text(&p, "RC_ACK qp 0x000011 psn 1193046 nak 29 msn 9");
    p.aeth.syndrome = AETH_NAK | NAK_LOSSES;
    assert_text(&p, "RC_ACK qp 0x000011 psn 1193046 nak losses msn 9");
    p.aeth.syndrome = 0x40;
    assert_text(&p, "RC_ACK qp 0x000011 psn 1193046 syndrome 0x40 msn 9");
    p.aeth.syndrome = AETH_ACK | AETH_CREDIT_NONE;
    p.pkey = 0x8001;
    p.solicited = p.mig_req = p.fecn = p.becn = true;
    assert_text(&p, "RC_ACK qp 0x000011 psn 1193046 se mig fecn becn pkey 0x8001 credit 31 msn 9");
    p = (struct pkt){.opcode = OPCODE(PKT_RC, OP_ACK), .aeth = {.syndrome = AETH_NAK}};
    format_map(&p);
    p = (struct pkt){.opcode = OPCODE(PKT_XRC, OP_CMP_SWP),
                     .pkey = PKEY_DEFAULT,
                     .xrc_srqn = 4,
                     .atomic = {.va = 0x1000, .rkey = 2, .swap_add = 5, .compare = 6}};
    assert_text(&p, "XRC_CMP_SWP qp 0x000000 psn 0 srq 0x000004 va 0x1000 rkey 0x2 swap 0x5 "
                    "compare 0x6");
    p.opcode = 0xFF;
    assert_text(&p, "undefined opcode 0xff");
}

/* Too small a buffer: cut, terminated, nothing written behind, the whole length returned. */
static void test_format_in_any_room(void **state)
{
    struct random r = {4};

    for (unsigned op = 0; op < 256; op++) {
        char whole[256], part[257];
        struct pkt p;
        int len;

        fill(&p, (uint8_t)op, &r);
        len = pkt_format(whole, sizeof(whole), &p);
        assert_in_range(len, 1, sizeof(whole) - 1);
        for (size_t room = 0; room <= (size_t)len + 1; room++) {
            memset(part, 'x', sizeof(part));
            assert_int_equal(pkt_format(part, room, &p), len);
            assert_int_equal(part[room], 'x');
            if (room) {
                assert_int_equal(strlen(part), min_of(room - 1, (size_t)len));
                assert_memory_equal(part, whole, room - 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_of_every_opcode),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_unknown_opcode),
        cmocka_unit_test(test_undefined_opcode_to_all_ones),
        cmocka_unit_test(test_transport_version),
        cmocka_unit_test(test_pad_and_length_of_every_opcode),
        cmocka_unit_test(test_pad_larger_than_payload),
        cmocka_unit_test(test_atomic_write_of_another_length),
        cmocka_unit_test(test_range_that_wraps_is_carried),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_format_in_any_room),
    };

    return cmocka_run_group_tests_name("wire_pkt", tests, NULL, NULL);
}
