/* SPDX-License-Identifier: BSD-3-Clause */
/* Source port policies: names, ports, and that both ends agree. */
#include <errno.h>
#include <string.h>

#include "common.h"
#include "entropy.h"
#include "random.h"
#include "unit.h"

static struct entropy_policy policy(const char *text)
{
    struct entropy_policy p;

    assert_int_equal(entropy_policy_parse(&p, text), 0);
    return p;
}

static void test_names(void **state)
{
    static const char *const good[] = {"kernel", "rfc", "spray", "fixed:49152", "fixed:65535"};
    struct entropy_policy p;
    char text[ENTROPY_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        p = policy(good[i]);
        entropy_policy_format(text, &p);
        assert_string_equal(text, good[i]);
    }
    p = policy("fixed:0xC001");
    entropy_policy_format(text, &p);
    assert_string_equal(text, "fixed:49153");
}

static void test_bad_names(void **state)
{
    static const char *const bad[] = {
        "",
        "Kernel",
        "kernel ",
        "kernels",
        "fixed",
        "fixed:",
        "fixed:49151",
        "fixed:65536",
        "fixed:0xBFFF",
        "fixed:0x10000",
        "fixed: 50000",
        "fixed:-1",
        "fixed:+50000",
        "fixed:50000x",
        "fixed:4294967296000000000000",
        "fixed:0x",
        "spray:1",
        "rfc,kernel",
        "fixed:0c000",
        "fixed:060000000",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct entropy_policy p = {ENTROPY_SPRAY, 7};

        assert_int_equal(entropy_policy_parse(&p, bad[i]), -EINVAL);
        assert_true(p.rule == ENTROPY_SPRAY && p.port == 7);
    }
}

static void test_vectors(void **state)
{
    static const struct {
        struct entropy_flow flow;
        uint16_t kernel, rfc;
    } cases[] = {
        {{0x11, 0x11}, 0xC121, 0xC011},
        {{0x12, 0x34}, 0xC3A8, 0xC026},
        {{0x123, 0xABCDEF}, 0xDAB5, 0xCC67},
        {{0xFFFFFF, 0xFFFFFF}, 0xFF21, 0xFF00},
        {{0x10, 0x400000}, 0xC040, 0xC050},
        {{0xABCDEF, 0xFFFFFF}, 0xEC7C, 0xCD44}, /* to a group */
        /* rdma_cm: its ports decide, in `kernel` through the flow label, which may be given too. */
        {{1, 2, .cm_src_port = 47667, .cm_dest_port = 7174}, 59433, 58933},
        {{1, 2, .cm_src_port = 59151, .cm_dest_port = 7471}, 55344, 64032},
        {{1, 2, .flow_label = 0x6A833}, 59433, 0xC003},
        {{1, 2, 0x12345, 47667, 7174}, 0xE341, 58933},
        {{1, 2, .cm_dest_port = 7174}, 0xDC06, 0xDC06},
    };
    struct entropy_policy kernel = policy("kernel"), rfc = policy("rfc");
    struct entropy_policy fixed = policy("fixed:50505");

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(entropy_port(&kernel, &cases[i].flow), cases[i].kernel);
        assert_int_equal(entropy_port(&rfc, &cases[i].flow), cases[i].rfc);
        assert_int_equal(entropy_port(&fixed, &cases[i].flow), 50505);
    }
}

static void test_both_ends_agree(void **state)
{
    struct entropy_policy p[] = {policy("kernel"), policy("rfc"), policy("spray"),
                                 policy("fixed:50505")};
    struct random r = {9};

    for (int i = 0; i < 100000; i++) {
        struct entropy_flow here = {.src_qpn = random_below(&r, 0xFFFFFF),
                                    .dest_qpn = random_below(&r, 0xFFFFFF),
                                    .index = random_below(&r, UINT32_MAX)};
        struct entropy_flow there = here;

        if (i & 1) { /* both know the CM's ports in one order: active side's, listener's */
            here.cm_src_port = there.cm_src_port = (uint16_t)random_next(&r);
            here.cm_dest_port = there.cm_dest_port = (uint16_t)random_next(&r);
        }
        there.src_qpn = here.dest_qpn;
        there.dest_qpn = here.src_qpn;
        for (size_t j = 0; j < ARRAY_SIZE(p); j++) {
            uint16_t port = entropy_port(&p[j], &here);

            assert_int_equal(port, entropy_port(&p[j], &there));
            assert_true(port >= ENTROPY_PORT_MIN);
        }
    }
}

/* Every port once in ENTROPY_PORTS steps, and the next in another order for another pair. */
static void test_spray_takes_all_ports(void **state)
{
    struct entropy_policy spray = policy("spray");
    struct random r = {10};

    for (int i = 0; i < 50; i++) {
        static uint8_t seen[ENTROPY_PORTS];
        struct entropy_flow flow = {random_below(&r, 0xFFFFFF), random_below(&r, 0xFFFFFF)};
        uint32_t first = random_below(&r, UINT32_MAX);

        memset(seen, 0, sizeof(seen));
        for (uint32_t j = 0; j < ENTROPY_PORTS; j++) {
            flow.index = first + j; /* may wrap */
            seen[entropy_port(&spray, &flow) - ENTROPY_PORT_MIN]++;
        }
        for (uint32_t j = 0; j < ENTROPY_PORTS; j++)
            assert_int_equal(seen[j], 1);
    }
}

static void test_spray_differs(void **state)
{
    struct entropy_policy spray = policy("spray");
    unsigned same_start = 0, same_step = 0;

    for (uint32_t qpn = 1; qpn <= 1000; qpn++) {
        struct entropy_flow a = {qpn, qpn}, b = {qpn + 1, qpn + 1};
        uint16_t a0 = entropy_port(&spray, &a), b0 = entropy_port(&spray, &b);

        same_start += a0 == b0;
        a.index = b.index = 1;
        same_step +=
            (uint16_t)(entropy_port(&spray, &a) - a0) == (uint16_t)(entropy_port(&spray, &b) - b0);
    }
    assert_true(same_start <= 3 && same_step <= 3); /* of 1000 in 16384 and 8192: 0.06 and 0.12 */
}

/* From any first port the sequence goes on as `spray` does, and comes to all others. */
static void test_after(void **state)
{
    struct entropy_policy spray = policy("spray");
    struct random r = {11};

    for (int i = 0; i < 50; i++) {
        static uint8_t seen[ENTROPY_PORTS];
        struct entropy_flow flow = {random_below(&r, 0xFFFFFF), random_below(&r, 0xFFFFFF)};
        uint16_t port = (uint16_t)(ENTROPY_PORT_MIN | random_below(&r, ENTROPY_PORTS));
        uint16_t here = entropy_port(&spray, &flow);

        memset(seen, 0, sizeof(seen));
        for (uint32_t j = 0; j < ENTROPY_PORTS; j++) {
            assert_int_equal(here, entropy_port(&spray, &flow));
            flow.index++;
            here = entropy_port_after(here, flow.src_qpn, flow.dest_qpn);
            port = entropy_port_after(port, flow.dest_qpn, flow.src_qpn);
            assert_true(port >= ENTROPY_PORT_MIN && !seen[port - ENTROPY_PORT_MIN]++);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_both_ends_agree),
        cmocka_unit_test(test_spray_takes_all_ports),
        cmocka_unit_test(test_spray_differs),
        cmocka_unit_test(test_after),
    };

    return cmocka_run_group_tests_name("encap_entropy", tests, NULL, NULL);
}
