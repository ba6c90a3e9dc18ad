/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames as rules see and damage them. */
#include <string.h>

#include "encap.h"
#include "inject.h"
#include "kept_map.h"
#include "pkt.h"
#include "unit.h"

#define PAYLOAD 21
#define REPORT  (KEPT_MAP_HEAD + 8) /* of an ACK that tells of losses */

static struct frame make(uint8_t bytes[256], uint8_t opcode, uint32_t payload, bool omitted)
{
    struct address_vector av = {
        .gid_type = GID_TYPE_ROCE_V2, .vlan = VLAN_NONE, .hop_limit = 64, .udp_sport = 0xC000};
    struct pkt p = {.opcode = opcode,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = 0x1234,
                    .psn = psn(77),
                    .payload_len = payload};
    struct encap_template t;
    size_t bth_len = pkt_len(opcode, payload), at;

    memset(bytes, 0x5A, 256);
    gid_parse(&av.sgid, "10.0.0.1");
    gid_parse(&av.dgid, "10.0.0.2");
    assert_int_equal(encap_template_make(&t, &av), 0);
    at = encap_tx(bytes, &t, bth_len, 1);
    at += pkt_build_headers(bytes + at, &p);
    pkt_build_pad(bytes + at, payload);
    if (!omitted)
        encap_seal(bytes, &t, bth_len);
    return (struct frame){
        .data = bytes, .len = (uint32_t)(t.len + bth_len), .icrc_omitted = omitted};
}

static bool icrc_is_right(const struct frame *f)
{
    const struct encap_port any = {.promiscuous = true};
    struct encap_view v;

    assert_int_equal(encap_rx(&v, f->data, f->len, &any), DROP_NONE);
    return icrc_verify(v.l3_kind, v.l3, v.l3_len);
}

static struct inject_rule rule_of(const char *text)
{
    char error[INJECT_ERROR_MAX];
    struct inject_rule r;

    assert_int_equal(inject_parse(&r, text, error), 0);
    return r;
}

static void test_read(void **state)
{
    uint8_t bytes[256];
    struct frame f = make(bytes, OPCODE(PKT_RC, OP_SEND_ONLY), PAYLOAD, false);
    struct inject_packet p = {.direction = INJECT_RX};
    union gid other;

    assert_true(inject_read(&p, &f));
    gid_parse(&other, "10.0.0.1");
    assert_true(gid_eq(&p.peer, &other));
    p.direction = INJECT_TX;
    assert_true(inject_read(&p, &f));
    gid_parse(&other, "10.0.0.2");
    assert_true(gid_eq(&p.peer, &other));
    assert_int_equal(p.opcode, OPCODE(PKT_RC, OP_SEND_ONLY));
    assert_int_equal(p.dest_qpn, 0x1234);
    assert_int_equal(p.psn, 77);
    /* Every shorter frame is none. */
    for (uint32_t len = f.len; len--;) {
        f.len = len;
        assert_false(inject_read(&p, &f));
    }
}

/* One byte differs, in its region; and the ICRC. */
static void test_corrupt(void **state)
{
    static const struct {
        const char *text;
        bool omitted, header, right; /* right: the ICRC fits, or is still left out */
    } row[] = {
        {"corrupt", false, false, false},       {"corrupt", true, false, false},
        {"corrupt header", false, true, false}, {"corrupt sealed", false, false, true},
        {"corrupt sealed", true, false, true},  {"corrupt header sealed", true, true, true},
    };
    uint8_t before[256], bytes[256];
    const uint32_t bth = 14 + 20 + 8, payload = bth + BTH_LEN;

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct inject_rule r = rule_of(row[i].text);

        for (uint64_t index = 0; index < 100; index++) {
            struct frame f = make(before, OPCODE(PKT_RC, OP_SEND_ONLY), PAYLOAD, row[i].omitted);
            unsigned changed = 0;

            f = make(bytes, OPCODE(PKT_RC, OP_SEND_ONLY), PAYLOAD, row[i].omitted);
            assert_true(inject_corrupt(&r, index, &f));
            for (uint32_t at = 0; at < f.len - ICRC_LEN; at++) {
                if (bytes[at] == before[at])
                    continue;
                changed++;
                if (row[i].header)
                    assert_true(at >= bth && at < payload && at != bth + 4);
                else
                    assert_true(at >= payload && at < payload + PAYLOAD);
            }
            assert_int_equal(changed, 1);
            if (f.icrc_omitted)
                assert_true(row[i].omitted && row[i].right);
            else
                assert_int_equal(icrc_is_right(&f), row[i].right);
        }
    }
}

static void test_nothing_to_corrupt(void **state)
{
    struct inject_rule payload = rule_of("corrupt"), header = rule_of("corrupt header");
    uint8_t bytes[256], before[256];
    struct frame f = make(bytes, OPCODE(PKT_RC, OP_ACK), 0, true);

    memcpy(before, bytes, sizeof(bytes));
    assert_false(inject_corrupt(&payload, 0, &f));
    assert_true(f.icrc_omitted);
    assert_memory_equal(before, bytes, sizeof(bytes));
    assert_true(inject_corrupt(&header, 0, &f));
    assert_false(f.icrc_omitted);
    f.len = 40;
    assert_false(inject_corrupt(&header, 0, &f));
}

/* Of an ACK only the syndrome and the ICRC change; other packets do not. */
static void test_nak(void **state)
{
    struct inject_rule rule = rule_of("nak remote_access");
    uint8_t bytes[256], before[256], aeth_at;

    for (unsigned omitted = 0; omitted < 2; omitted++) {
        struct frame f = make(bytes, OPCODE(PKT_RC, OP_ACK), 0, omitted);
        struct inject_packet p = {.direction = INJECT_TX};

        aeth_at = (uint8_t)(f.len - ICRC_LEN - 4);
        memcpy(before, bytes, sizeof(bytes));
        assert_true(inject_read(&p, &f) && p.is_ack);
        assert_true(inject_nak(&rule, &f));
        assert_int_equal(bytes[aeth_at], AETH_NAK | NAK_REMOTE_ACCESS);
        bytes[aeth_at] = before[aeth_at];
        assert_memory_equal(before, bytes, f.len - ICRC_LEN);
        bytes[aeth_at] = AETH_NAK | NAK_REMOTE_ACCESS;
        assert_true(f.icrc_omitted == omitted);
        if (!omitted)
            assert_true(icrc_is_right(&f));
        assert_true(inject_read(&p, &f) && !p.is_ack);
        assert_false(inject_nak(&rule, &f)); /* it is a NAK by now */
    }
    for (unsigned i = 0; i < 3; i++) {
        static const uint8_t other[] = {OPCODE(PKT_RC, OP_READ_RESP_ONLY),
                                        OPCODE(PKT_UD, OP_SEND_ONLY), OPCODE(PKT_RC, OP_ACK)};
        struct frame f = make(bytes, other[i], i < 2 ? PAYLOAD : REPORT, false);
        struct inject_packet p = {.direction = INJECT_TX};

        assert_true(inject_read(&p, &f) && !p.is_ack);
        memcpy(before, bytes, sizeof(bytes));
        assert_false(inject_nak(&rule, &f));
        assert_memory_equal(before, bytes, sizeof(bytes));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_nothing_to_corrupt),
        cmocka_unit_test(test_nak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
