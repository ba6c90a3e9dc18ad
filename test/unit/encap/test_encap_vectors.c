/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that the Linux kernel sent: each captured frame parses and verifies, and is the same byte
 * for byte when it is built again from the parsed values.
 */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "common.h"
#include "encap.h"
#include "pkt.h"
#include "random.h"
#include "unit.h"

#define FILES  106
#define FRAMES 2449

static const struct encap_port any = {.promiscuous = true};

struct walk {
    unsigned frames, by_opcode[256], flips;
    struct random random;
};

/* Names the frame in the message of a failing assertion. */
#define CHECK(file, number, condition)                             \
    do {                                                           \
        if (!(condition))                                          \
            fail_msg("%s frame %u: %s", file, number, #condition); \
    } while (0)

static void check_parses(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    struct walk *w = ctx;
    struct encap_view v;
    char text[256];
    struct pkt p;

    CHECK(file, number, encap_rx(&v, bytes, len, &any) == DROP_NONE);
    CHECK(file, number, icrc_verify(v.l3_kind, v.l3, v.l3_len));
    CHECK(file, number,
          icrc_compute(v.l3_kind, v.l3, v.l3_len - 4) ==
              icrc_reference(v.l3_kind, v.l3, v.l3_len - 4));
    CHECK(file, number, pkt_parse(&p, v.bth, v.bth_len) == DROP_NONE);
    CHECK(file, number, v.bth + v.bth_len == bytes + len);
    CHECK(file, number, pkt_len(p.opcode, p.payload_len) == v.bth_len);
    CHECK(file, number, pkt_format(text, sizeof(text), &p) < (int)sizeof(text));
    w->frames++;
    w->by_opcode[p.opcode]++;
}

/* Totals of SUMMARY.txt, which other tools counted. */
static const struct {
    const char *name;
    unsigned count;
} totals[] = {
    {"RC_ACK", 510},           {"RC_ATOMIC_ACK", 68},        {"RC_CMP_SWP", 4},
    {"RC_FETCH_ADD", 71},      {"RC_READ_REQUEST", 102},     {"RC_READ_RESP_FIRST", 64},
    {"RC_READ_RESP_LAST", 75}, {"RC_READ_RESP_MIDDLE", 240}, {"RC_READ_RESP_ONLY", 16},
    {"RC_SEND_FIRST", 94},     {"RC_SEND_LAST", 113},        {"RC_SEND_LAST_IMM", 2},
    {"RC_SEND_LAST_INV", 2},   {"RC_SEND_MIDDLE", 360},      {"RC_SEND_ONLY", 114},
    {"RC_SEND_ONLY_IMM", 4},   {"RC_SEND_ONLY_INV", 4},      {"RC_WRITE_FIRST", 55},
    {"RC_WRITE_LAST", 73},     {"RC_WRITE_LAST_IMM", 2},     {"RC_WRITE_MIDDLE", 239},
    {"RC_WRITE_ONLY", 50},     {"RC_WRITE_ONLY_IMM", 50},    {"UC_SEND_FIRST", 4},
    {"UC_SEND_LAST", 2},       {"UC_SEND_LAST_IMM", 2},      {"UC_SEND_MIDDLE", 4},
    {"UC_SEND_ONLY", 6},       {"UC_SEND_ONLY_IMM", 2},      {"UC_WRITE_FIRST", 4},
    {"UC_WRITE_LAST", 2},      {"UC_WRITE_LAST_IMM", 2},     {"UC_WRITE_MIDDLE", 4},
    {"UC_WRITE_ONLY", 4},      {"UC_WRITE_ONLY_IMM", 4},     {"UD_SEND_ONLY", 84},
    {"UD_SEND_ONLY_IMM", 13},
};

static void test_every_frame_parses_and_verifies(void **state)
{
    struct walk w = {.frames = 0};
    unsigned counted = 0;

    assert_int_equal(capture_walk(TEST_VECTORS "/rxe-6.1", check_parses, &w), FILES);
    assert_int_equal(w.frames, FRAMES);
    for (size_t i = 0; i < ARRAY_SIZE(totals); i++)
        for (unsigned op = 0; op < 256; op++)
            if (opcode_is_defined((uint8_t)op) && !strcmp(opcode_table[op].name, totals[i].name)) {
                assert_int_equal(w.by_opcode[op], totals[i].count);
                counted += w.by_opcode[op];
            }
    assert_int_equal(counted, FRAMES);
}

static struct address_vector address_of(const struct encap_view *v)
{
    struct address_vector av = {.sgid = v->sgid,
                                .dgid = v->dgid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .traffic_class = v->traffic_class,
                                .hop_limit = v->hop_limit,
                                .flow_label = v->flow_label,
                                .udp_sport = v->udp_sport};

    memcpy(av.smac, v->smac, 6);
    memcpy(av.dmac, v->dmac, 6);
    return av;
}

static void check_rebuilds(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    struct encap_template t;
    struct address_vector av;
    struct encap_view v;
    uint8_t *out, *at;
    struct pkt p;

    CHECK(file, number, encap_rx(&v, bytes, len, &any) == DROP_NONE);
    CHECK(file, number, pkt_parse(&p, v.bth, v.bth_len) == DROP_NONE);
    av = address_of(&v);
    CHECK(file, number, encap_template_make(&t, &av) == 0);
    out = test_malloc(len); /* exactly as large as the frame: cmocka checks its ends */
    at = out + encap_tx(out, &t, v.bth_len, v.ip_id);
    at += pkt_build_headers(at, &p);
    memcpy(at, p.payload, p.payload_len);
    pkt_build_pad(at, p.payload_len);
    CHECK(file, number, encap_seal(out, &t, v.bth_len) == len);
    CHECK(file, number, !memcmp(out, bytes, len));
    test_free(out);
}

static void test_every_frame_rebuilds(void **state)
{
    assert_int_equal(capture_walk(TEST_VECTORS "/rxe-6.1", check_rebuilds, NULL), FILES);
}

/* Whether the ICRC covers the byte at this offset from the IP header (IPv6: all but byte 0). */
static bool byte_covered(enum icrc_l3 kind, size_t at)
{
    static const uint8_t v4[] = {1, 8, 10, 11, 26, 27, 32}, v6[] = {0, 1, 2, 3, 7, 46, 47, 52};

    return kind == ICRC_IPV4 ? at > 32 || !memchr(v4, (int)at, sizeof(v4))
                             : at > 52 || !memchr(v6, (int)at, sizeof(v6));
}

static void check_flip(const char *file, unsigned number, const struct encap_view *v, uint8_t *l3,
                       size_t bit, struct walk *w)
{
    if (!byte_covered(v->l3_kind, bit / 8))
        return;
    l3[bit / 8] ^= (uint8_t)(1 << bit % 8);
    CHECK(file, number, !icrc_verify(v->l3_kind, l3, v->l3_len));
    l3[bit / 8] ^= (uint8_t)(1 << bit % 8);
    w->flips++;
}

/* Every bit of each file's first frame, 64 random ones of the others. */
static void check_flips(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    struct walk *w = ctx;
    struct encap_view v;
    uint8_t *l3;

    CHECK(file, number, encap_rx(&v, bytes, len, &any) == DROP_NONE);
    l3 = bytes + (v.l3 - bytes);
    if (number == 1) {
        for (size_t bit = 0; bit < v.l3_len * 8; bit++)
            check_flip(file, number, &v, l3, bit, w);
        return;
    }
    for (int i = 0; i < 64; i++)
        check_flip(file, number, &v, l3, random_below(&w->random, v.l3_len * 8), w);
}

static void test_every_flip_is_caught(void **state)
{
    struct walk w = {.random = {9}};

    assert_int_equal(capture_walk(TEST_VECTORS "/rxe-6.1", check_flips, &w), FILES);
    assert_true(w.flips > 200000);
}

/* A value from another source: the ICRC of rc-write-only-v4's first frame. */
static void check_first_vector(const char *file, unsigned number, uint8_t *bytes, size_t len,
                               void *ctx)
{
    static const uint8_t icrc[] = {0xC8, 0x36, 0x99, 0xC6};
    struct encap_view v;
    unsigned *seen = ctx;

    if (strcmp(file, "rc-write-only-v4.pcap") || number != 1)
        return;
    CHECK(file, number, encap_rx(&v, bytes, len, &any) == DROP_NONE);
    icrc_seal(v.l3_kind, bytes + (v.l3 - bytes), v.l3_len - 4);
    assert_memory_equal(bytes + len - 4, icrc, 4);
    ++*seen;
}

static void test_first_vector(void **state)
{
    unsigned seen = 0;

    assert_int_equal(capture_walk(TEST_VECTORS "/rxe-6.1", check_first_vector, &seen), FILES);
    assert_int_equal(seen, 1);
}

/* A prefix of a real frame is dropped with a reason, and no byte behind it is read. */
static void check_prefixes(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    if (number > 2)
        return;
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        struct encap_view v;

        memcpy(copy, bytes, cut);
        CHECK(file, number, encap_rx(&v, copy, cut, &any) == DROP_truncated);
        free(copy);
    }
}

static void test_prefixes(void **state)
{
    assert_int_equal(capture_walk(TEST_VECTORS "/rxe-6.1", check_prefixes, NULL), FILES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_frame_parses_and_verifies),
        cmocka_unit_test(test_every_frame_rebuilds),
        cmocka_unit_test(test_every_flip_is_caught),
        cmocka_unit_test(test_first_vector),
        cmocka_unit_test(test_prefixes),
    };

    return cmocka_run_group_tests_name("encap_vectors", tests, NULL, NULL);
}
