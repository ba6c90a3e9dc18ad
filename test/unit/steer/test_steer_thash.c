/* SPDX-License-Identifier: BSD-3-Clause */
/* Toeplitz hashes of random keys and packets equal DPDK's. */
#include <rte_thash.h>
#include <string.h>

#include "random.h"
#include "toeplitz.h"
#include "unit.h"

#define ROUNDS 20000

static void random_bytes(struct random *r, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)random_next(r);
}

/* The same packet in DPDK's form; returns its length in words. */
static uint32_t load(union rte_thash_tuple *out, const struct rss_tuple *t, bool ports)
{
    if (rss_is_ipv4(t)) {
        memcpy(&out->v4.src_addr, t->src.raw + 12, 4);
        memcpy(&out->v4.dst_addr, t->dst.raw + 12, 4);
        out->v4.src_addr = rte_be_to_cpu_32(out->v4.src_addr);
        out->v4.dst_addr = rte_be_to_cpu_32(out->v4.dst_addr);
        out->v4.sport = t->sport;
        out->v4.dport = t->dport;
        return ports ? RTE_THASH_V4_L4_LEN : RTE_THASH_V4_L3_LEN;
    } else {
        struct rte_ipv6_hdr header;

        memcpy(&header.src_addr, t->src.raw, 16);
        memcpy(&header.dst_addr, t->dst.raw, 16);
        rte_thash_load_v6_addrs(&header, out);
        out->v6.sport = t->sport;
        out->v6.dport = t->dport;
        return ports ? RTE_THASH_V6_L4_LEN : RTE_THASH_V6_L3_LEN;
    }
}

static void check(const uint8_t key[TOEPLITZ_KEY_LEN], struct random *r)
{
    uint32_t words[TOEPLITZ_KEY_LEN / 4], converted[TOEPLITZ_KEY_LEN / 4];
    struct toeplitz t;

    memcpy(words, key, sizeof(words));
    rte_convert_rss_key(words, converted, sizeof(words));
    toeplitz_init(&t, key);
    for (int i = 0; i < ROUNDS; i++) {
        struct rss_tuple x;
        union rte_thash_tuple theirs;
        uint8_t input[RSS_INPUT_MAX];
        bool ports = i & 2;
        unsigned len;
        uint32_t n;

        random_bytes(r, (uint8_t *)&x, sizeof(x));
        if (i & 1) {
            x.src = gid_from_ipv4(x.src.raw);
            x.dst = gid_from_ipv4(x.dst.raw);
        }
        len = rss_input(input, &x, ports ? RSS_ALL : RSS_ADDRESSES);
        n = load(&theirs, &x, ports);
        assert_int_equal(len, 4 * n);
        assert_int_equal(toeplitz_hash(&t, input, len),
                         rte_softrss((uint32_t *)&theirs, n, (const uint8_t *)words));
        assert_int_equal(toeplitz_hash(&t, input, len),
                         rte_softrss_be((uint32_t *)&theirs, n, (const uint8_t *)converted));
    }
}

static void test_known_keys(void **state)
{
    struct random r = {11};

    check(toeplitz_key_microsoft, &r);
    check(toeplitz_key_symmetric, &r);
}

static void test_random_keys(void **state)
{
    struct random r = {12};

    for (int i = 0; i < 5; i++) {
        uint8_t key[TOEPLITZ_KEY_LEN];

        random_bytes(&r, key, sizeof(key));
        check(key, &r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_keys),
        cmocka_unit_test(test_random_keys),
    };

    return cmocka_run_group_tests_name("steer_thash", tests, NULL, NULL);
}
