/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariant CRC: fast and slow implementation, known values, and the bits that it covers. */
#include <string.h>

#include "common.h"
#include "icrc_short.h"
#include "random.h"
#include "unit.h"

static const enum icrc_l3 kinds[] = {ICRC_IPV4, ICRC_IPV6, ICRC_GRH};
static const size_t least[] = {[ICRC_IPV4] = 40, [ICRC_IPV6] = 60, [ICRC_GRH] = 52};

static void fill(uint8_t *p, size_t len, struct random *r)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)random_next(r);
}

/* Against values that zlib.crc32 gave for the same bytes, masked by hand. */
static void test_known_values(void **state)
{
    uint8_t bytes[64];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(7 * i + 1);
    assert_int_equal(icrc_compute(ICRC_IPV4, bytes, 64), 0x2f984db2);
    assert_int_equal(icrc_compute(ICRC_IPV6, bytes, 64), 0x2127a44c);
    assert_int_equal(icrc_compute(ICRC_GRH, bytes, 64), 0x1e780f8b);
}

static void test_against_reference(void **state)
{
    struct random r = {5};
    uint8_t bytes[60 + 700];

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t len = least[kinds[k]]; len <= sizeof(bytes); len++) {
            fill(bytes, len, &r);
            assert_int_equal(icrc_compute(kinds[k], bytes, len),
                             icrc_reference(kinds[k], bytes, len));
        }
}

static void test_seal_and_verify(void **state)
{
    struct random r = {6};
    uint8_t bytes[200 + 4];

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t len = least[kinds[k]]; len <= 200; len++) {
            uint32_t crc;

            fill(bytes, len, &r);
            icrc_seal(kinds[k], bytes, len);
            crc = icrc_compute(kinds[k], bytes, len);
            assert_int_equal(bytes[len], crc & 0xFF);
            assert_int_equal(bytes[len + 3], crc >> 24);
            assert_true(icrc_verify(kinds[k], bytes, len + 4));
        }
}

/* Frames of one flow, equal up to the PSN: each gets the ICRC that it has alone. */
static void test_alike(void **state)
{
    static const size_t bth[] = {[ICRC_IPV4] = 28, [ICRC_IPV6] = 48, [ICRC_GRH] = 40};
    struct random r = {8};
    uint8_t bytes[3][18 + 400 + 4];

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t len = least[kinds[k]]; len <= 400; len += 4) {
            struct frame f[3];
            size_t off = len % 19;

            for (size_t i = 0; i < 3; i++) {
                f[i] = (struct frame){.data = bytes[i], .len = (uint32_t)(off + len + 4)};
                fill(bytes[i], sizeof(bytes[i]), &r);
                memcpy(bytes[i] + off, bytes[0] + off, bth[kinds[k]] + 8);
            }
            icrc_seal_batch(kinds[k], off, f, 3);
            for (size_t i = 0; i < 3; i++) {
                uint32_t crc = icrc_reference(kinds[k], bytes[i] + off, len);

                assert_memory_equal(bytes[i] + off + len, &crc, sizeof(crc));
            }
        }
}

typedef void copy_fn(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                     size_t len);

/* The payload is copied unchanged, padded and summed up; no byte beside it changes. */
static void check_copy(copy_fn *copy, enum icrc_l3 kind, size_t head_len, size_t len,
                       struct random *r)
{
    static uint8_t packet[96 + 5000 + 16], before[sizeof(packet)], payload[5000];
    size_t all = head_len + len + (-len & 3);
    uint32_t crc;

    fill(packet, sizeof(packet), r);
    fill(payload, sizeof(payload), r);
    memcpy(before, packet, sizeof(packet));
    copy(kind, packet, head_len, payload + 1, len);
    assert_memory_equal(packet, before, head_len);
    assert_memory_equal(packet + head_len, payload + 1, len);
    for (size_t i = head_len + len; i < all; i++)
        assert_int_equal(packet[i], 0);
    crc = icrc_reference(kind, packet, all);
    assert_memory_equal(packet + all, &crc, sizeof(crc));
    assert_memory_equal(packet + all + 4, before + all + 4, sizeof(packet) - all - 4);
}

static void test_copy(void **state)
{
    static const size_t lengths[] = {1,   8,   256,  508,  509,  510,  511,  512,  513,  516,
                                     764, 768, 1020, 1024, 1028, 2048, 4092, 4095, 4096, 4980};
    static const size_t headers[] = {0, 4, 16, 20, 28};
    struct random r = {9};

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t h = 0; h < ARRAY_SIZE(headers); h++)
            for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
                size_t head_len = least[kinds[k]] + headers[h];

                check_copy(icrc_seal_copy, kinds[k], head_len, lengths[i], &r);
                check_copy(icrc_seal_copy_narrow, kinds[k], head_len, lengths[i], &r);
            }
}

/* What was received is copied as it is, right or wrong. */
static void test_verify_copy(void **state)
{
    static uint8_t packet[96 + 5000], copy[sizeof(packet)];
    struct random r = {10};

    for (unsigned n = 0; n < 3000; n++) {
        enum icrc_l3 kind = kinds[n % ARRAY_SIZE(kinds)];
        size_t head = least[kind], len = 4 * random_below(&r, 1200), flip;

        fill(packet, head + len, &r);
        icrc_seal(kind, packet, head + len);
        memset(copy, 0, sizeof(copy));
        memcpy(copy, packet, head);
        assert_true(icrc_verify_copy(kind, copy, head, packet + head, len + 4));
        assert_memory_equal(copy, packet, head + len + 4);
        flip = random_below(&r, (uint32_t)len + 4);
        packet[head + flip] ^= 0x40;
        assert_false(icrc_verify_copy(kind, copy, head, packet + head, len + 4));
        assert_memory_equal(copy, packet, head + len + 4);
    }
}

static void test_too_short_is_false(void **state)
{
    uint8_t bytes[64] = {0};

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t len = 0; len < least[kinds[k]] + 4; len++)
            assert_false(icrc_verify(kinds[k], bytes, len));
}

/* Bytes that routers and switches may change, as the specification lists them. */
static const uint8_t masked[][8] = {
    [ICRC_IPV4] = {1, 8, 10, 11, 26, 27, 32},
    [ICRC_IPV6] = {1, 2, 3, 7, 46, 47, 52},
    [ICRC_GRH] = {1, 2, 3, 7, 44},
};

static bool covered(enum icrc_l3 kind, size_t byte, unsigned bit)
{
    if (!byte)
        return kind == ICRC_IPV4 || bit >= 4;
    return !memchr(masked[kind], (int)byte, sizeof(masked[kind]));
}

static void test_every_bit(void **state)
{
    struct random r = {7};
    uint8_t bytes[60 + 40 + 4];

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        fill(bytes, 100, &r);
        icrc_seal(kinds[k], bytes, 100);
        for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(icrc_verify(kinds[k], bytes, sizeof(bytes)),
                             !covered(kinds[k], bit / 8, bit % 8));
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

/* A batch of packets, some with the header of the one before: all packets before the first wrong
 * one verify. */
static void test_run(void **state)
{
    static uint8_t bytes[32][1100];
    struct random r = {9};

    for (unsigned round = 0; round < 3000; round++) {
        struct icrc_span span[32];
        unsigned n = 1 + random_below(&r, 32), wrong = random_below(&r, 40);
        enum icrc_l3 kind = kinds[random_below(&r, 3)];
        uint16_t len = 0;

        for (unsigned i = 0; i < n; i++) {
            bool alike = i && random_below(&r, 4);

            if (!alike)
                len = (uint16_t)(round_up(least[kind], 4) +
                                 4 * random_below(&r, round % 2 ? 20 : 250));
            fill(bytes[i], len, &r);
            if (alike)
                memcpy(bytes[i], bytes[i - 1], kind == ICRC_IPV4 ? 32 : least[kind] - 8);
            icrc_seal(kind, bytes[i], len);
            if (i == wrong)
                bytes[i][len - 1 - random_below(&r, 4)] ^= 1;
            span[i] = (struct icrc_span){
                .bth = bytes[i] + icrc_headers(kind), .len = (uint16_t)(len + 4), .alike = alike};
        }
        assert_int_equal(icrc_verify_batch(kind, span, n), min_of(n, wrong));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_seal_and_verify),
        cmocka_unit_test(test_too_short_is_false),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_verify_copy),
    };

    return cmocka_run_group_tests_name("wire_icrc", tests, NULL, NULL);
}
