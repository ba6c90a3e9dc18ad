/* SPDX-License-Identifier: BSD-3-Clause */
/* Trimmed frames: what is left of every kind of frame, and what is no frame to trim. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "encap_layout.h"
#include "frame_trim.h"
#include "unit.h"

#define DSCP 50
#define ROOM 400

static const struct encap_port any = {.promiscuous = true};

struct kind {
    bool ipv6, tagged;
};
static const struct kind kinds[] = {{false, false}, {true, false}, {false, true}, {true, true}};

static union gid gid(const char *text)
{
    union gid g;

    assert_int_equal(gid_parse(&g, text), 0);
    return g;
}

static uint32_t make(uint8_t *frame, const struct kind *k, uint8_t opcode, uint32_t payload)
{
    struct address_vector av = {
        .sgid = gid(k->ipv6 ? "fd00::2" : "10.0.0.2"),
        .dgid = gid(k->ipv6 ? "fd00::1" : "10.0.0.1"),
        .gid_type = GID_TYPE_ROCE_V2,
        .vlan = k->tagged ? 100 : VLAN_NONE,
        .traffic_class = 26 << 2,
        .hop_limit = 64,
        .flow_label = 0xABCDE,
        .udp_sport = 0xC123,
    };
    struct pkt p = {.opcode = opcode, .pkey = PKEY_DEFAULT, .dest_qpn = 17, .payload_len = payload};
    struct encap_template t;
    size_t bth_len = pkt_len(opcode, payload), at;

    assert_int_equal(encap_template_make(&t, &av), 0);
    encap_template_set_ect(&t);
    p.psn = psn(0x123456);
    at = encap_tx(frame, &t, bth_len, 7);
    at += pkt_build_headers(frame + at, &p);
    memset(frame + at, 'x', payload);
    pkt_build_pad(frame + at, payload);
    return (uint32_t)encap_seal(frame, &t, bth_len);
}

static uint32_t headers_of(const struct kind *k, uint8_t opcode)
{
    return ETH_LEN + (k->tagged ? VLAN_LEN : 0) + (k->ipv6 ? IPV6_LEN : IPV4_LEN) + UDP_LEN +
           opcode_table[opcode].header_len;
}

/* The frame is one of IP and UDP, its packet ends behind its headers, and so it is no packet. */
static void check_trimmed(const uint8_t *frame, uint32_t len, const struct kind *k, uint8_t opcode)
{
    struct encap_view v;
    struct pkt p;

    assert_int_equal(len, headers_of(k, opcode));
    assert_int_equal(encap_rx(&v, frame, len, &any), DROP_NONE);
    assert_int_equal(v.traffic_class, DSCP << 2 | ECN_ECT0);
    assert_int_equal(frame_dscp(frame, len), DSCP);
    assert_int_equal(v.bth_len, opcode_table[opcode].header_len);
    assert_int_equal(v.flow_label, k->ipv6 ? 0xABCDE : 0);
    assert_int_equal(v.udp_sport, 0xC123);
    assert_int_equal(v.bth[0], opcode);
    assert_int_equal(get_be24(v.bth + 9), 0x123456);
    assert_int_equal(pkt_parse(&p, v.bth, v.bth_len), DROP_truncated);
    assert_false(frame_may_be_trimmed(&v));
}

/* Trims a copy that ends behind the first `len` bytes. */
static uint32_t trim_copy(uint8_t *out, const uint8_t *frame, uint32_t len)
{
    uint8_t *copy = malloc(len + 1);
    uint32_t left;

    assert_non_null(copy);
    memcpy(copy, frame, len);
    copy[len] = 0xA5;
    left = frame_trim(copy, len, DSCP);
    assert_int_equal(copy[len], 0xA5);
    assert_true(left <= len && left <= FRAME_TRIM_MAX);
    if (!left)
        assert_memory_equal(copy, frame, len);
    memcpy(out, copy, left);
    free(copy);
    return left;
}

static void every_opcode_keeps_its_headers(void **state)
{
    uint8_t frame[ROOM], left[ROOM];

    for (unsigned k = 0; k < ARRAY_SIZE(kinds); k++)
        for (unsigned op = 0; op < 256; op++) {
            const struct opcode_info *info = &opcode_table[op];
            uint32_t payload = info->payload_fix ? info->payload_fix : 200, len;
            struct encap_view v;

            if (!info->name)
                continue;
            len = make(frame, &kinds[k], (uint8_t)op, info->flags & PF_PAYLOAD ? payload : 0);
            assert_int_equal(encap_rx(&v, frame, len, &any), DROP_NONE);
            assert_int_equal(frame_may_be_trimmed(&v),
                             (info->flags & PF_PAYLOAD) && !info->payload_fix);
            len = trim_copy(left, frame, len);
            check_trimmed(left, len, &kinds[k], (uint8_t)op);
            assert_int_equal(trim_copy(left, left, len), len); /* once more */
            check_trimmed(left, len, &kinds[k], (uint8_t)op);
        }
}

/* A frame that was cut anywhere, with the lengths that it had, has one form as long as its headers
 * are there. */
static void cut_frames_have_one_form(void **state)
{
    const uint8_t op = OPCODE(PKT_XRC, OP_WRITE_ONLY_IMM);
    uint8_t frame[ROOM], left[ROOM];

    for (unsigned k = 0; k < ARRAY_SIZE(kinds); k++) {
        uint32_t whole = make(frame, &kinds[k], op, 201), headers = headers_of(&kinds[k], op);

        for (uint32_t len = 0; len <= whole; len++) {
            uint32_t n = trim_copy(left, frame, len);

            if (len < headers)
                assert_int_equal(n, 0);
            else
                check_trimmed(left, n, &kinds[k], op);
        }
    }
}

/* Lengths that announce less than the headers are not believed. */
static void short_announcements_are_refused(void **state)
{
    const uint8_t op = OPCODE(PKT_RC, OP_WRITE_FIRST);
    const struct kind *k = &kinds[1];
    uint8_t frame[ROOM], left[ROOM];
    uint32_t len = make(frame, k, op, 256);

    for (unsigned udp = 0; udp < UDP_LEN + 40; udp++) {
        put_be16(frame + ETH_LEN + 4, (uint16_t)udp);
        put_be16(frame + ETH_LEN + IPV6_LEN + 4, (uint16_t)udp);
        assert_int_equal(trim_copy(left, frame, len) != 0,
                         udp >= UDP_LEN + (unsigned)opcode_table[op].header_len);
    }
    put_be16(frame + ETH_LEN + 4, 100);
    put_be16(frame + ETH_LEN + IPV6_LEN + 4, 101);
    assert_int_equal(trim_copy(left, frame, len), 0);
}

static void put_sum(uint8_t *ip)
{
    put_be16(ip + 10, 0);
    put_be16(ip + 10, (uint16_t)~ipv4_sum(ip));
}

static void other_frames_are_left_alone(void **state)
{
    const uint8_t op = OPCODE(PKT_RC, OP_SEND_ONLY);
    uint8_t frame[ROOM], left[ROOM], *ip = frame + ETH_LEN;
    static const struct {
        unsigned at;
        uint8_t value;
        bool keeps_sum;
    } broken[] = {
        {12, 0x89, true},  /* another ethertype */
        {14, 0x46, false}, /* options */
        {14, 0x55, false}, /* another version */
        {20, 0x20, false}, /* a fragment */
        {23, 6, false},    /* TCP */
        {24, 0x77, true},  /* a wrong checksum */
        {36, 0x13, true},  /* another port */
        {38, 0x7F, true},  /* the length of UDP */
        {42, 0xFF, true},  /* an undefined opcode */
    };

    for (unsigned i = 0; i < ARRAY_SIZE(broken); i++) {
        uint32_t len = make(frame, &kinds[0], op, 100);

        assert_int_not_equal(trim_copy(left, frame, len), 0);
        frame[broken[i].at] = broken[i].value;
        if (!broken[i].keeps_sum)
            put_sum(ip);
        assert_int_equal(trim_copy(left, frame, len), 0);
    }
    assert_int_equal(frame_dscp(frame, ETH_LEN), -1);
    frame[12] = 0x89;
    assert_int_equal(frame_dscp(frame, ROOM), -1);
}

/* RoCEv1 has no code point of IP; an empty packet has nothing to cut. */
static void what_has_nothing_to_cut(void **state)
{
    uint8_t frame[ROOM];
    struct encap_view v;
    uint32_t len = make(frame, &kinds[0], OPCODE(PKT_RC, OP_SEND_ONLY), 0);

    assert_int_equal(encap_rx(&v, frame, len, &any), DROP_NONE);
    assert_false(frame_may_be_trimmed(&v));
    len = make(frame, &kinds[0], OPCODE(PKT_RC, OP_SEND_ONLY), 1);
    assert_int_equal(encap_rx(&v, frame, len, &any), DROP_NONE);
    assert_true(frame_may_be_trimmed(&v));
    v.l3_kind = ICRC_GRH;
    assert_false(frame_may_be_trimmed(&v));
    v.l3_kind = ICRC_IPV4;
    v.bth_len = BTH_LEN - 1;
    assert_false(frame_may_be_trimmed(&v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_opcode_keeps_its_headers),
        cmocka_unit_test(cut_frames_have_one_form),
        cmocka_unit_test(short_announcements_are_refused),
        cmocka_unit_test(other_frames_are_left_alone),
        cmocka_unit_test(what_has_nothing_to_cut),
    };

    return cmocka_run_group_tests_name("encap_trim", tests, NULL, NULL);
}
