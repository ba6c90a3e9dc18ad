/* SPDX-License-Identifier: BSD-3-Clause */
/* The hashes that choose queues and paths: Toeplitz, XOR, CRC. */
#include <string.h>

#include "common.h"
#include "crc_hash.h"
#include "random.h"
#include "toeplitz.h"
#include "unit.h"

static struct rss_tuple tuple(const char *src, uint16_t sport, const char *dst, uint16_t dport)
{
    struct rss_tuple t = {.sport = sport, .dport = dport};

    assert_int_equal(gid_parse(&t.src, src), 0);
    assert_int_equal(gid_parse(&t.dst, dst), 0);
    return t;
}

static void random_bytes(struct random *r, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)random_next(r);
}

/* Microsoft's "Verifying the RSS Hash Calculation", all of it. */
static const struct {
    const char *src, *dst;
    uint16_t sport, dport;
    uint32_t addresses, ports;
} published[] = {
    {"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
    {"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
    {"153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985,
     0x02d1feef},
};

static void test_toeplitz_published(void **state)
{
    struct toeplitz t;

    toeplitz_init(&t, toeplitz_key_microsoft);
    for (size_t i = 0; i < ARRAY_SIZE(published); i++) {
        struct rss_tuple x =
            tuple(published[i].src, published[i].sport, published[i].dst, published[i].dport);
        uint8_t input[RSS_INPUT_MAX];
        unsigned len = rss_input(input, &x, RSS_ADDRESSES);

        assert_int_equal(len, rss_is_ipv4(&x) ? 8 : 32);
        assert_int_equal(toeplitz_hash(&t, input, len), published[i].addresses);
        assert_int_equal(toeplitz_hash_bits(toeplitz_key_microsoft, input, len),
                         published[i].addresses);
        len = rss_input(input, &x, RSS_ALL);
        assert_int_equal(toeplitz_hash(&t, input, len), published[i].ports);
        assert_int_equal(toeplitz_hash_bits(toeplitz_key_microsoft, input, len),
                         published[i].ports);
    }
}

static void test_toeplitz_tables(void **state)
{
    struct random r = {1};

    for (int keys = 0; keys < 50; keys++) {
        uint8_t key[TOEPLITZ_KEY_LEN], input[RSS_INPUT_MAX];
        struct toeplitz t;

        random_bytes(&r, key, sizeof(key));
        toeplitz_init(&t, key);
        for (unsigned len = 0; len <= RSS_INPUT_MAX; len++) {
            random_bytes(&r, input, sizeof(input));
            assert_int_equal(toeplitz_hash(&t, input, len), toeplitz_hash_bits(key, input, len));
        }
    }
}

static struct rss_tuple reversed(const struct rss_tuple *t)
{
    return (struct rss_tuple){t->dst, t->src, t->dport, t->sport};
}

static void test_symmetric_hashes(void **state)
{
    struct toeplitz symmetric, microsoft;
    struct random r = {2};
    unsigned differ = 0;

    toeplitz_init(&symmetric, toeplitz_key_symmetric);
    toeplitz_init(&microsoft, toeplitz_key_microsoft);
    for (int i = 0; i < 1000; i++) {
        struct rss_tuple x, y;
        uint8_t a[RSS_INPUT_MAX], b[RSS_INPUT_MAX];
        unsigned len;

        random_bytes(&r, (uint8_t *)&x, sizeof(x));
        if (i & 1) {
            x.src = gid_from_ipv4(x.src.raw);
            x.dst = gid_from_ipv4(x.dst.raw);
        }
        y = reversed(&x);
        len = rss_input(a, &x, RSS_ALL);
        assert_int_equal(rss_input(b, &y, RSS_ALL), len);
        assert_int_equal(toeplitz_hash(&symmetric, a, len), toeplitz_hash(&symmetric, b, len));
        assert_int_equal(rss_xor(a, len), rss_xor(b, len));
        assert_int_equal(ecmp_hash(ECMP_XOR, 5, &x), ecmp_hash(ECMP_XOR, 5, &y));
        differ += toeplitz_hash(&microsoft, a, len) != toeplitz_hash(&microsoft, b, len);
    }
    assert_true(differ > 990);
}

static void test_input_fields(void **state)
{
    static const uint8_t both[] = {10, 1, 2, 3, 10, 9, 8, 7, 0xC1, 0x21, 0x12, 0xB7};
    struct rss_tuple t = tuple("10.1.2.3", 0xC121, "10.9.8.7", 4791);
    uint8_t input[RSS_INPUT_MAX];

    assert_int_equal(rss_input(input, &t, RSS_ALL), 12);
    assert_memory_equal(input, both, 12);
    assert_int_equal(rss_input(input, &t, RSS_DST_ADDRESS | RSS_SRC_PORT), 6);
    assert_memory_equal(input, both + 4, 6);
    assert_int_equal(rss_input(input, &t, RSS_SRC_ADDRESS), 4);
    assert_memory_equal(input, both, 4);
    assert_int_equal(rss_input(input, &t, RSS_DST_PORT), 2);
    assert_memory_equal(input, both + 10, 2);
    assert_int_equal(rss_input(input, &t, 0), 0);

    /* One address that is none of IPv4 makes the packet an IPv6 one. */
    t.dst.raw[0] = 0x20;
    assert_int_equal(rss_input(input, &t, RSS_ALL), 36);
    assert_memory_equal(input + 16, t.dst.raw, 16);
}

static void test_xor(void **state)
{
    struct rss_tuple t = tuple("10.1.2.3", 0xC121, "10.9.8.7", 4791);
    uint8_t input[RSS_INPUT_MAX];
    unsigned len = rss_input(input, &t, RSS_ALL);

    assert_int_equal(rss_xor(input, len), 0x0A01 ^ 0x0203 ^ 0x0A09 ^ 0x0807 ^ 0xC121 ^ 0x12B7);
    assert_int_equal(rss_xor(input, 0), 0);
    assert_int_equal(ecmp_hash(ECMP_XOR, 0x18765, &t),
                     0x0A01 ^ 0x0203 ^ 0x0A09 ^ 0x0807 ^ 0xC121 ^ 0x12B7 ^ 17 ^ 0x8765);
}

static void test_crc_check_values(void **state)
{
    const uint8_t *check = (const uint8_t *)"123456789";

    assert_int_equal(crc16_ccitt(0, check, 9), 0x31C3);      /* XMODEM */
    assert_int_equal(crc16_ccitt(0xFFFF, check, 9), 0x29B1); /* CCITT-FALSE */
    assert_int_equal(crc32_ethernet(0, check, 9), 0xCBF43926);
    assert_int_equal(crc32_ethernet(crc32_ethernet(0, check, 4), check + 4, 5), 0xCBF43926);
    assert_int_equal(crc16_ccitt(crc16_ccitt(0, check, 4), check + 4, 5), 0x31C3);
}

/* From binascii.crc_hqx and zlib.crc32 over address, address, port, port, protocol. */
static void test_ecmp_vectors(void **state)
{
    struct rss_tuple v4 = tuple("10.0.0.1", 0xC121, "10.0.0.2", 4791);
    struct rss_tuple v6 = tuple("2001:db8::1", 0xC3A8, "2001:db8::2", 4791);

    assert_int_equal(ecmp_hash(ECMP_CRC16, 0, &v4), 0xE707);
    assert_int_equal(ecmp_hash(ECMP_CRC16, 0x1234, &v4), 0xE943);
    assert_int_equal(ecmp_hash(ECMP_CRC32, 0, &v4), 0x341B61AA);
    assert_int_equal(ecmp_hash(ECMP_CRC32, 0x12345678, &v4), 0xA5F75404);
    assert_int_equal(ecmp_hash(ECMP_CRC16, 0, &v6), 0xA277);
    assert_int_equal(ecmp_hash(ECMP_CRC32, 0, &v6), 0xF1839FA0);
}

/* A seed moves all flows of a path to another path together: flows that collide still do. */
static void test_ecmp_seed_is_an_offset(void **state)
{
    struct random r = {3};

    for (int i = 0; i < 1000; i++) {
        enum ecmp_function f = (enum ecmp_function)(i % 3);
        uint32_t seed = (uint32_t)random_next(&r);
        struct rss_tuple x, y;

        random_bytes(&r, (uint8_t *)&x, sizeof(x));
        random_bytes(&r, (uint8_t *)&y, sizeof(y));
        assert_int_equal(ecmp_hash(f, 0, &x) ^ ecmp_hash(f, 0, &y),
                         ecmp_hash(f, seed, &x) ^ ecmp_hash(f, seed, &y));
    }
}

static void test_ecmp_paths(void **state)
{
    uint32_t count[7] = {0};

    assert_int_equal(ecmp_path_modulo(0xDEADBEEF, 1), 0);
    assert_int_equal(ecmp_path_modulo(0xDEADBEEF, 16), 0xF);
    assert_int_equal(ecmp_path_modulo(10, 7), 3);
    assert_int_equal(ecmp_path_high(0xDEADBEEF, 32, 16), 0xD);
    assert_int_equal(ecmp_path_high(0xBEEF, 16, 16), 0xB);
    assert_int_equal(ecmp_path_high(0xFFFFFFFF, 32, 65536), 65535);
    assert_int_equal(ecmp_path_high(0xFFFFFFFF, 32, 1), 0);
    for (uint32_t hash = 0; hash < 65536; hash++)
        count[ecmp_path_high(hash, 16, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(count[i], 65536 / 7, 65536 / 7 + 1);
    assert_int_equal(ecmp_width(ECMP_CRC16), 16);
    assert_int_equal(ecmp_width(ECMP_CRC32), 32);
    assert_int_equal(ecmp_width(ECMP_XOR), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_toeplitz_published),
        cmocka_unit_test(test_toeplitz_tables),
        cmocka_unit_test(test_symmetric_hashes),
        cmocka_unit_test(test_input_fields),
        cmocka_unit_test(test_xor),
        cmocka_unit_test(test_crc_check_values),
        cmocka_unit_test(test_ecmp_vectors),
        cmocka_unit_test(test_ecmp_seed_is_an_offset),
        cmocka_unit_test(test_ecmp_paths),
    };

    return cmocka_run_group_tests_name("steer_hash", tests, NULL, NULL);
}
