/* SPDX-License-Identifier: BSD-3-Clause */
/* Swift against the formulas of its publication (SIGCOMM 2020, sections 3.1, 3.2, 3.5). */
#include <math.h>
#include <stdio.h>

#include "cc.h"
#include "unit.h"

#define LINE   UINT64_C(100000000000)
#define PACKET 4096
#define BASE   (10 * NS_PER_US)
#define QUEUES (30 * NS_PER_US) /* fabric_delay and endpoint_delay */

static struct cc cc;

/* Behind the slow start, which a decrease by nothing ends, with a window of that many packets. */
static void begin(double packets)
{
    static uint64_t params[CC_PARAMS_MAX];
    char text[32];

    cc_default_params(&cc_swift, params);
    snprintf(text, sizeof(text), "start_window=%.0f", packets);
    assert_true(cc_read_param(&cc_swift, params, text));
    assert_true(cc_read_param(&cc_swift, params, "beta=1"));
    cc = (struct cc){0};
    cc_start(&cc, &cc_swift, params, LINE, PACKET);
    cc_on_ack(&cc, 0, BASE, NS_PER_SEC);
    cc_on_ack(&cc, 0, NS_PER_MS, 2 * NS_PER_SEC);
    assert_true(cc_read_param(&cc_swift, params, "beta=819"));
}

static double packets(void)
{
    return (double)cc.window / PACKET;
}

static void near(double is, double should)
{
    if (fabs(is - should) > 0.02 * should)
        fail_msg("%.3f is not near %.3f", is, should);
}

/* The target beyond the base, in ns: 3.5. */
static double flow_scaling(double w)
{
    double alpha = 60000 / (1 - 1 / sqrt(100)), d = alpha / sqrt(w) - alpha / sqrt(100);

    return d < 0 ? 0 : d > 60000 ? 60000 : d;
}

static void starts_without_a_limit_of_the_rate(void **state)
{
    cc = (struct cc){0};
    cc_start(&cc, &cc_swift, NULL, LINE, PACKET);
    assert_false(cc_is_limited(&cc));
    near(packets(), 16);
    cc_on_ack(&cc, 16 * PACKET, BASE, NS_PER_SEC);
    near(packets(), 32);
    cc_on_ack(&cc, 32 * PACKET, BASE, NS_PER_SEC + BASE);
    near(packets(), 64);
}

/* Below the target a window of acknowledged packets adds one; above it shrinks in proportion. */
static void follows_the_target(void **state)
{
    for (double w = 4; w <= 256; w *= 2) {
        double target = BASE + QUEUES + flow_scaling(w), delay;

        begin(w);
        cc_on_ack(&cc, (uint64_t)w * PACKET, (ns_t)(target * 0.98), 3 * NS_PER_SEC);
        near(packets(), w + 1);
        begin(w);
        delay = 1.5 * target;
        cc_on_ack(&cc, (uint64_t)w * PACKET, (ns_t)delay, 3 * NS_PER_SEC);
        near(packets(), w * (1 - 0.8 * (delay - target) / delay));
    }
}

static void halves_at_most(void **state)
{
    begin(64);
    cc_on_ack(&cc, 0, NS_PER_SEC, 3 * NS_PER_SEC);
    near(packets(), 32);
    cc_on_ack(&cc, 0, NS_PER_MS, 3 * NS_PER_SEC + NS_PER_MS - 1); /* within a round trip */
    near(packets(), 32);
    cc_on_ack(&cc, 0, NS_PER_MS, 3 * NS_PER_SEC + NS_PER_MS);
    near(packets(), 16);
    cc_on_timeout(&cc, 4 * NS_PER_SEC);
    near(packets(), 8);
}

/* A window of half a packet is a packet in two round trips. */
static void less_than_a_packet_is_a_rate(void **state)
{
    ns_t now = 3 * NS_PER_SEC;
    double w = 10e6 / 8 / 1000 / PACKET; /* min_rate in a millisecond */

    begin(1);
    cc_on_ack(&cc, 0, NS_PER_MS, now);
    assert_int_equal(cc.window, PACKET);
    near((double)cc.rate, 0.5 * PACKET * 8 / 0.001);
    assert_true(cc_is_limited(&cc));
    assert_int_equal(cc_allowance(&cc, now), 1);
    cc_on_sent(&cc, PACKET, now);
    assert_int_equal(cc_allowance(&cc, now + 2 * NS_PER_MS * 97 / 100), 0);
    assert_true(cc_allowance(&cc, now + 2 * NS_PER_MS * 103 / 100) > 0);
    for (unsigned i = 0; i < 30; i++)
        cc_on_ack(&cc, 0, NS_PER_MS, now += NS_PER_SEC / 4);
    assert_int_equal(cc.rate, 10000000); /* min_rate */
    for (unsigned i = 0; i < 30; i++) {
        cc_on_ack(&cc, PACKET, BASE, now += NS_PER_SEC);
        w += w < 1 ? 1 : 1 / w;
    }
    assert_false(cc_is_limited(&cc));
    near(packets(), w);
}

/* What a peer or a path may do to the numbers. */
static void extremes(void **state)
{
    ns_t now = NS_PER_SEC;

    begin(1000);
    cc_on_ack(&cc, UINT64_C(1) << 34, 1, now += NS_PER_SEC);
    assert_true(cc.window > 0 && cc.window <= LINE / 8000);
    cc_on_ack(&cc, 0, 0, now += NS_PER_SEC);
    for (unsigned i = 0; i < 100; i++)
        cc_on_ack(&cc, 0, 3600 * NS_PER_SEC, now += 7200 * NS_PER_SEC);
    assert_true(cc.window >= PACKET && cc.rate >= 10000000);
    cc_start(&cc, &cc_swift, NULL, LINE, PACKET);
    for (unsigned i = 0; i < 3; i++)
        cc_on_ack(&cc, UINT64_C(1) << 34, BASE, now += NS_PER_SEC);
    assert_int_equal(cc.window, LINE / 8000); /* what the line carries in a millisecond */
}

/* The shortest delay is the base, unless one is configured. */
static void has_a_base(void **state)
{
    static uint64_t params[CC_PARAMS_MAX];
    ns_t target = BASE + QUEUES + 15000; /* and something for the window */

    begin(10);
    cc_on_ack(&cc, 0, BASE + QUEUES, 3 * NS_PER_SEC); /* no longer base */
    cc_on_ack(&cc, 0, 2 * target, 4 * NS_PER_SEC);
    assert_true(packets() < 8);
    cc_default_params(&cc_swift, params);
    assert_true(cc_read_param(&cc_swift, params, "base_delay=100"));
    cc_start(&cc, &cc_swift, params, LINE, PACKET);
    cc_on_ack(&cc, 0, BASE, 5 * NS_PER_SEC);
    cc_on_ack(&cc, 0, 2 * target, 6 * NS_PER_SEC);
    near(packets(), 16);
}

/* At the least rate for ten seconds, and each round trip too long: the shortest of them is that of
 * another path. One that is short enough until then says that it is not. */
static void a_longer_path_becomes_the_base(void **state)
{
    ns_t now = 3 * NS_PER_SEC;

    begin(10);
    for (unsigned i = 0; i < 9000; i++)
        cc_on_ack(&cc, 0, NS_PER_MS + i % 7 * 50000, now += 2 * NS_PER_MS);
    cc_on_ack(&cc, 0, BASE, now += 2 * NS_PER_MS);
    for (unsigned i = 0; i < 4900; i++)
        cc_on_ack(&cc, 0, NS_PER_MS + i % 7 * 50000, now += 2 * NS_PER_MS);
    assert_true(cc.window == PACKET && cc.rate <= 20000000);
    for (unsigned i = 0; i < 1000; i++)
        cc_on_ack(&cc, PACKET, NS_PER_MS, now += 2 * NS_PER_MS);
    assert_true(packets() > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_without_a_limit_of_the_rate),
        cmocka_unit_test(follows_the_target),
        cmocka_unit_test(halves_at_most),
        cmocka_unit_test(less_than_a_packet_is_a_rate),
        cmocka_unit_test(extremes),
        cmocka_unit_test(has_a_base),
        cmocka_unit_test(a_longer_path_becomes_the_base),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
