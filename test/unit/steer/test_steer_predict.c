/* SPDX-License-Identifier: BSD-3-Clause */
/* Indirection tables, and which queue a flow will land on. */
#include <errno.h>
#include <string.h>

#include "common.h"
#include "encap.h"
#include "predict.h"
#include "random.h"
#include "unit.h"

static const struct entropy_policy kernel = {ENTROPY_KERNEL}, rfc = {ENTROPY_RFC};

static union gid gid(const char *text)
{
    union gid g;

    assert_int_equal(gid_parse(&g, text), 0);
    return g;
}

/* ---- tables ---- */

static void test_equal_spread(void **state)
{
    struct indirection t;

    for (uint32_t size = 1; size <= INDIRECTION_MAX; size *= 2)
        for (uint32_t queues = 1; queues <= size; queues += 1 + queues / 8) {
            uint32_t sum = 0;

            assert_int_equal(indirection_init(&t, size, queues), 0);
            for (uint32_t q = 0; q < queues; q++) {
                uint32_t share = indirection_share(&t, (uint16_t)q);

                assert_in_range(share, size / queues, size / queues + !!(size % queues));
                sum += share;
            }
            assert_int_equal(sum, size);
        }
}

static void test_table_errors(void **state)
{
    struct indirection t;

    assert_int_equal(indirection_init(&t, 0, 1), -EINVAL);
    assert_int_equal(indirection_init(&t, 3, 1), -EINVAL);
    assert_int_equal(indirection_init(&t, 2 * INDIRECTION_MAX, 1), -EINVAL);
    assert_int_equal(indirection_init(&t, 8, 0), -EINVAL);
    assert_int_equal(indirection_init(&t, 8, 9), -EINVAL);
    assert_int_equal(indirection_init(&t, 8, 8), 0);
    assert_int_equal(indirection_set(&t, 8, 0), -EINVAL);
    assert_int_equal(indirection_set(&t, UINT32_MAX, 0), -EINVAL);
}

static void test_lookup(void **state)
{
    struct indirection t;

    assert_int_equal(indirection_init(&t, 128, 5), 0);
    for (uint32_t i = 0; i < 128; i++) {
        assert_int_equal(indirection_lookup(&t, i), i % 5);
        assert_int_equal(indirection_lookup(&t, 0xABCDEF80u ^ i), i % 5);
    }
    assert_int_equal(indirection_set(&t, 77, 4), 0);
    assert_int_equal(indirection_lookup(&t, 0x80 | 77), 4);
    assert_int_equal(indirection_lookup(&t, 76), 76 % 5);
    assert_int_equal(indirection_lookup(&t, 78), 78 % 5);
}

/* ---- prediction ---- */

/* By the published definitions, step by step, without tables. */
static uint16_t slow_queue(const struct rss *rss, const uint8_t *key, const struct rss_tuple *t)
{
    uint8_t input[RSS_INPUT_MAX];
    unsigned len = rss_input(input, t, rss->fields);
    uint32_t hash = toeplitz_hash_bits(key, input, len);

    return rss->table.queue[hash % rss->table.size];
}

static void test_predicted_queue(void **state)
{
    union gid src = gid("10.0.0.2"), dst = gid("10.0.0.1");
    union gid src6 = gid("2001:db8::2"), dst6 = gid("2001:db8::1");
    unsigned differ = 0;
    struct rss rss;

    rss_init_toeplitz(&rss, toeplitz_key_microsoft, RSS_ALL);
    assert_int_equal(indirection_init(&rss.table, 128, 7), 0);
    for (uint32_t qpn = 0x10; qpn < 0x200; qpn++) {
        struct entropy_flow flow = {.src_qpn = qpn, .dest_qpn = 0x900 + 3 * qpn};
        struct rss_tuple t = {src, dst, entropy_port_kernel(0, qpn, 0x900 + 3 * qpn), 4791};
        struct rss_tuple t6 = {src6, dst6, entropy_port_rfc_rc(qpn, 0x900 + 3 * qpn), 4791};
        uint16_t queue = predict_queue(&rss, &src, &dst, &kernel, &flow);

        assert_int_equal(queue, slow_queue(&rss, toeplitz_key_microsoft, &t));
        assert_int_equal(queue, rss_queue(&rss, &t));
        assert_int_equal(predict_queue(&rss, &src6, &dst6, &rfc, &flow),
                         slow_queue(&rss, toeplitz_key_microsoft, &t6));
        differ += queue != predict_queue(&rss, &src, &dst, &rfc, &flow);
    }
    assert_true(differ > 100); /* the policy matters */
}

/* All steps once by hand: Microsoft's first vector, whose hash with ports is 0x51ccc178. */
static void test_published_queue(void **state)
{
    struct rss_tuple t = {gid("66.9.149.187"), gid("161.142.100.80"), 2794, 1766};
    struct rss rss;

    rss_init_toeplitz(&rss, toeplitz_key_microsoft, RSS_ALL);
    assert_int_equal(rss_hash(&rss, &t), 0x51ccc178);
    assert_int_equal(indirection_init(&rss.table, 128, 16), 0);
    assert_int_equal(rss_queue(&rss, &t), 0x78 % 16);
    assert_int_equal(indirection_set(&rss.table, 0x78, 3), 0);
    assert_int_equal(rss_queue(&rss, &t), 3);
    rss_init_toeplitz(&rss, toeplitz_key_microsoft, RSS_ADDRESSES);
    assert_int_equal(rss_hash(&rss, &t), 0x323e8fc2);
}

static void test_xor_queue(void **state)
{
    struct rss_tuple t = {gid("10.1.2.3"), gid("10.9.8.7"), 0xC121, 4791};
    struct rss rss;

    rss_init_xor(&rss, RSS_ALL);
    assert_int_equal(indirection_init(&rss.table, 512, 512), 0);
    assert_int_equal(rss_hash(&rss, &t), 0x0A01 ^ 0x0203 ^ 0x0A09 ^ 0x0807 ^ 0xC121 ^ 0x12B7);
    assert_int_equal(rss_queue(&rss, &t), rss_hash(&rss, &t) % 512);
}

/* ---- the other way round ---- */

static void check_port(const struct rss *rss, const union gid *src, const union gid *dst,
                       uint16_t queue, uint16_t first)
{
    struct rss_tuple t = {*src, *dst, 0, ROCE_UDP_PORT};
    int port = predict_port(rss, src, dst, queue, first);

    assert_in_range(port, ENTROPY_PORT_MIN, 0xFFFF);
    t.sport = (uint16_t)port;
    assert_int_equal(rss_queue(rss, &t), queue);
    for (uint16_t earlier = first; earlier != port;
         earlier = earlier == 0xFFFF ? ENTROPY_PORT_MIN : earlier + 1) {
        t.sport = earlier;
        assert_int_not_equal(rss_queue(rss, &t), queue);
    }
}

static void test_port_for_queue(void **state)
{
    union gid src = gid("10.0.0.2"), dst = gid("10.0.0.1");
    union gid src6 = gid("fe80::2"), dst6 = gid("fe80::1");
    struct random r = {5};
    struct rss rss;

    rss_init_toeplitz(&rss, toeplitz_key_microsoft, RSS_ALL);
    assert_int_equal(indirection_init(&rss.table, 512, 48), 0);
    for (uint16_t queue = 0; queue < 48; queue++) {
        check_port(&rss, &src, &dst, queue, ENTROPY_PORT_MIN);
        check_port(&rss, &src, &dst, queue, 0xFFFF);
        check_port(&rss, &src6, &dst6, queue,
                   ENTROPY_PORT_MIN + (uint16_t)random_below(&r, ENTROPY_PORTS));
    }
    rss_init_xor(&rss, RSS_ALL);
    check_port(&rss, &src, &dst, 17, 0xFFF0);
}

/* With this key the hash's last bit depends on bit 13 of the port alone, so half of the candidates
 * may be tried. */
static void test_port_far_away(void **state)
{
    static const uint8_t key[TOEPLITZ_KEY_LEN] = {[12] = 0x40}; /* bit 64 + 2 + 31 */
    union gid src = gid("10.0.0.2"), dst = gid("10.0.0.1");
    struct rss rss;

    rss_init_toeplitz(&rss, key, RSS_ALL);
    assert_int_equal(indirection_init(&rss.table, 2, 2), 0);
    assert_int_equal(predict_port(&rss, &src, &dst, 0, 0xC000), 0xC000);
    assert_int_equal(predict_port(&rss, &src, &dst, 1, 0xC000), 0xE000);
    assert_int_equal(predict_port(&rss, &src, &dst, 0, 0xE001), 0xC000);
    assert_int_equal(predict_port(&rss, &src, &dst, 1, 0xE001), 0xE001);
}

static void test_port_errors(void **state)
{
    union gid src = gid("10.0.0.2"), dst = gid("10.0.0.1");
    struct rss_tuple t = {src, dst, 0, ROCE_UDP_PORT};
    struct rss rss;

    rss_init_toeplitz(&rss, toeplitz_key_microsoft, RSS_ALL);
    assert_int_equal(indirection_init(&rss.table, 64, 4), 0);
    assert_int_equal(predict_port(&rss, &src, &dst, 4, 0xC000), -ENOENT);
    assert_int_equal(predict_port(&rss, &src, &dst, 0, 0xBFFF), -EINVAL);

    /* Without ports in the hash there is one queue, whatever the port. */
    rss.fields = RSS_ADDRESSES;
    assert_int_equal(predict_port(&rss, &src, &dst, rss_queue(&rss, &t), 0xD123), 0xD123);
    assert_int_equal(predict_port(&rss, &src, &dst, rss_queue(&rss, &t) ^ 1, 0xD123), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_spread),    cmocka_unit_test(test_table_errors),
        cmocka_unit_test(test_lookup),          cmocka_unit_test(test_predicted_queue),
        cmocka_unit_test(test_published_queue), cmocka_unit_test(test_xor_queue),
        cmocka_unit_test(test_port_for_queue),  cmocka_unit_test(test_port_far_away),
        cmocka_unit_test(test_port_errors),
    };

    return cmocka_run_group_tests_name("steer_predict", tests, NULL, NULL);
}
