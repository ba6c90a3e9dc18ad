/* SPDX-License-Identifier: BSD-3-Clause */
/* DCQCN against the equations of its publication (SIGCOMM 2015, section 3), and pacing. */
#include "dcqcn.h"
#include "unit.h"

#define LINE UINT64_C(40000000000)

/* The parameters of the publication's table, in mlx5's names; g is 1/256. */
static const struct dcqcn_params published = {
    .dce_tcp_g = 1020,
    .dce_tcp_rtt = 55 * NS_PER_US,
    .initial_alpha_value = 1024,
    .rpg_min_dec_fac = 1,
    .rpg_time_reset = 55 * NS_PER_US,
    .rpg_byte_reset = 10000000,
    .rpg_threshold = 5,
    .rpg_ai_rate = UINT64_C(40000000),
    .rpg_hai_rate = UINT64_C(400000000),
    .rpg_min_rate = UINT64_C(1000000),
};

static struct cc cc;

static void begin(const struct dcqcn_params *p)
{
    cc = (struct cc){0};
    cc_start(&cc, cc_find("dcqcn"), (const uint64_t *)p, LINE, 4096);
}

static void assert_near(double is, double should, double share)
{
    if (is < should * (1 - share) || is > should * (1 + share))
        fail_msg("%.0f is not near %.0f", is, should);
}

static void test_table(void **state)
{
    assert_ptr_equal(cc_find("dcqcn"), &cc_dcqcn);
    assert_ptr_equal(cc_find("dcqcn-mlx5"), &cc_dcqcn_mlx5);
    assert_ptr_equal(cc_find("swift"), &cc_swift);
    assert_ptr_equal(cc_find("rtt"), &cc_rtt);
    assert_null(cc_find("none"));
    assert_null(cc_find(""));
}

static void test_no_mark_no_limit(void **state)
{
    begin(NULL);
    cc_on_sent(&cc, 1000000, NS_PER_SEC);
    assert_false(cc_is_limited(&cc));
}

/* Rc after a CNP at the line's rate, and after each increase by time, to the line's rate. */
static void test_curve_after_one_cnp(void **state)
{
    double rc = LINE / 2.0, rt = LINE;
    ns_t now = NS_PER_SEC;

    begin(&published);
    cc_on_cnp(&cc, now);
    assert_near((double)cc.rate, rc, 0.001);
    for (unsigned i = 1; i <= 40; i++) {
        now += 55 * NS_PER_US;
        cc_allowance(&cc, now);
        rt = i > 5 ? (rt + 4e7 < LINE ? rt + 4e7 : LINE) : rt;
        rc = (rc + rt) / 2;
        assert_near((double)cc.rate, rc, 0.001);
    }
    assert_false(cc_is_limited(&cc));
}

/* Further CNPs, each with the alpha that the equations give, which also decreases in between. */
static void test_curve_of_cnps(void **state)
{
    double rc = LINE, rt, alpha = 1, g = 1 / 256.0;
    ns_t now = NS_PER_SEC;

    begin(&published);
    for (unsigned i = 0; i < 20; i++) {
        cc_on_cnp(&cc, now);
        rt = rc;
        rc *= 1 - alpha / 2;
        alpha = (1 - g) * alpha + g;
        assert_near((double)cc.rate, rc, 0.002);
        now += 3 * 55 * NS_PER_US;
        for (unsigned k = 0; k < 3; k++) {
            alpha *= 1 - g;
            rc = (rc + rt) / 2;
        }
    }
}

/* By bytes alone: five halves of the way, then the additive increases. */
static void test_increases_by_bytes(void **state)
{
    double rc = 5e9, rt = 1e10;

    begin(&published);
    cc_on_cnp(&cc, 0);
    cc_on_cnp(&cc, 0);
    cc_on_cnp(&cc, 0);
    assert_near((double)cc.rate, rc, 0.01);
    for (unsigned i = 1; i <= 10; i++) {
        cc_on_sent(&cc, 10000000, 0);
        rt += i > 5 ? 4e7 : 0;
        rc = (rc + rt) / 2;
        assert_near((double)cc.rate, rc, 0.01);
    }
}

/* Both clocks beyond the threshold: each increase is larger than the last. */
static void test_hyper_increase(void **state)
{
    uint64_t target;
    ns_t now = 0;

    begin(&published);
    for (unsigned i = 0; i < 6; i++)
        cc_on_cnp(&cc, 0);
    for (unsigned i = 0; i < 6; i++)
        cc_on_sent(&cc, 10000000, 0);
    for (unsigned i = 0; i < 5; i++)
        cc_allowance(&cc, now += 55 * NS_PER_US);
    target = cc_dcqcn_of(&cc)->target;
    cc_allowance(&cc, now += 55 * NS_PER_US);
    assert_int_equal(cc_dcqcn_of(&cc)->target, target + 400000000);
    cc_on_sent(&cc, 10000000, now);
    assert_int_equal(cc_dcqcn_of(&cc)->target, target + 2 * 400000000);
    cc_allowance(&cc, now += 55 * NS_PER_US);
    assert_int_equal(cc_dcqcn_of(&cc)->target, target + 4 * 400000000);
}

/* The defaults of mlx5: one reduction in 4 us, never by more than a half, never below 1 Mb/s. */
static void test_defaults(void **state)
{
    cc = (struct cc){0};
    cc_start(&cc, &cc_dcqcn_mlx5, NULL, LINE, 4096);
    cc_on_cnp(&cc, 1000);
    assert_near((double)cc.rate, LINE / 2.0, 0.002);
    cc_on_cnp(&cc, 4999);
    assert_near((double)cc.rate, LINE / 2.0, 0.002);
    cc_on_cnp(&cc, 5000);
    /* 4 decreases of alpha by 5/1024 */
    assert_near((double)cc.rate, LINE / 2.0 * (1 - 0.98061 / 2), 0.002);
    for (unsigned i = 2; i < 100; i++)
        cc_on_cnp(&cc, 1000 + i * 4000);
    assert_int_equal(cc.rate, 1000000);
}

/* Packets as early as the pacer allows, for a while: the rate is exact, bursts are bounded. */
static void check_pace(uint64_t rate, uint32_t packet, ns_t step)
{
    struct dcqcn_params still = published;
    uint64_t sent = 0;
    const ns_t start = NS_PER_SEC, length = 4 * NS_PER_SEC;

    still.rpg_time_reset = still.rpg_byte_reset = UINT32_MAX;
    begin(&still);
    cc_on_cnp(&cc, start);
    for (ns_t now = start; now < start + length; now += step) {
        uint64_t burst = 0;

        cc_dcqcn_of(&cc)->time_at = now;
        cc_dcqcn_of(&cc)->bytes = 0;
        cc.rate = rate;
        while (cc_allowance(&cc, now)) {
            cc_on_sent(&cc, packet, now);
            burst += packet;
        }
        assert_true(burst <= rate / 8 * CC_BURST / NS_PER_SEC + packet);
        sent += burst;
    }
    assert_near((double)sent * 8 / 4, (double)rate, 0.01);
}

static void test_pace(void **state)
{
    check_pace(1000000, 1082, 32768);
    check_pace(20000000000, 4154, 32768);
    check_pace(39999999999, 74, 997);
}

/* Time that was not used is lost. */
static void test_no_credit_from_idleness(void **state)
{
    begin(&published);
    cc_on_cnp(&cc, 1000);
    cc_dcqcn_of(&cc)->time_at = 10 * NS_PER_SEC;
    cc.rate = 8000000;
    assert_true(cc_allowance(&cc, 10 * NS_PER_SEC) <= 64 + 1);
    cc_on_sent(&cc, 1064, 10 * NS_PER_SEC);
    assert_int_equal(cc.next, 10 * NS_PER_SEC + NS_PER_MS);
    assert_int_equal(cc_allowance(&cc, cc.next - 1), 0);
}

/* A burst is as many increases as a call may make, whatever a step is configured to be. */
static void test_increases_of_a_call(void **state)
{
    struct dcqcn_params p = published;

    p.rpg_byte_reset = 1;
    p.rpg_ai_rate = p.rpg_hai_rate = 1;
    begin(&p);
    cc_on_cnp(&cc, 1000);
    cc_on_sent(&cc, 64 * 4096, 1000);
    assert_int_equal(cc_dcqcn_of(&cc)->counts, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_no_mark_no_limit),
        cmocka_unit_test(test_curve_after_one_cnp),
        cmocka_unit_test(test_curve_of_cnps),
        cmocka_unit_test(test_increases_by_bytes),
        cmocka_unit_test(test_hyper_increase),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_no_credit_from_idleness),
        cmocka_unit_test(test_increases_of_a_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
