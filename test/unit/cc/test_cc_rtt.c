/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller by round trips alone. */
#include "cc.h"
#include "unit.h"

#define LINE   UINT64_C(100000000000)
#define PACKET 4096
#define BASE   (10 * NS_PER_US)
#define TARGET (BASE + 30 * NS_PER_US)
#define MBPS   UINT64_C(1000000)

static struct cc cc;
static ns_t now;

/* A round trip is over, which carried `rate`. */
static void round_trip(ns_t delay, uint64_t rate)
{
    cc_on_ack(&cc, rate / 8 * delay / NS_PER_SEC, delay, now += NS_PER_MS);
}

static void begin(void)
{
    now = NS_PER_SEC;
    cc = (struct cc){0};
    cc_start(&cc, &cc_rtt, NULL, LINE, PACKET);
    assert_int_equal(cc.window, 16 * PACKET);
    round_trip(BASE, 0);
    assert_int_equal(cc.rate, LINE);
    assert_int_equal(cc.window, LINE / 8 * TARGET / NS_PER_SEC);
}

static void near(uint64_t is, uint64_t should)
{
    if (is + should / 100 < should || is > should + should / 100)
        fail_msg("%llu is not near %llu", (unsigned long long)is, (unsigned long long)should);
}

/* The rate becomes what got through, less half of the excess. */
static void a_long_round_trip_reduces(void **state)
{
    begin();
    round_trip(TARGET, 20000 * MBPS);
    assert_false(cc_is_limited(&cc));
    round_trip(2 * TARGET, 20000 * MBPS);
    near(cc.rate, 15000 * MBPS);
    near(cc.window, 15000 * MBPS / 8 * TARGET / NS_PER_SEC);
    cc_on_ack(&cc, 0, 2 * TARGET, now + 2 * TARGET - 1); /* within a round trip of the last one */
    near(cc.rate, 15000 * MBPS);
    round_trip(2 * TARGET, 90000 * MBPS);
    near(cc.rate, 11250 * MBPS);
}

static void increases_grow(void **state)
{
    uint64_t before;

    begin();
    round_trip(2 * TARGET, 20000 * MBPS);
    for (unsigned i = 1; i <= 5; i++) {
        before = cc.rate;
        round_trip(TARGET, 0);
        assert_int_equal(cc.rate, before + 20 * MBPS);
    }
    for (unsigned i = 1; i <= 5; i++) {
        before = cc.rate;
        round_trip(TARGET, 0);
        assert_int_equal(cc.rate, before + (1 + i) * 20 * MBPS);
    }
    round_trip(2 * TARGET, 0);
    before = cc.rate;
    round_trip(TARGET, 0);
    assert_int_equal(cc.rate, before + 20 * MBPS);
    for (unsigned i = 0; i < 1000; i++)
        round_trip(TARGET, 0);
    assert_int_equal(cc.rate, LINE);
    assert_false(cc_is_limited(&cc));
}

static void has_a_least_rate(void **state)
{
    begin();
    for (unsigned i = 0; i < 100; i++)
        round_trip(NS_PER_MS, 0);
    assert_int_equal(cc.rate, 10 * MBPS);
    assert_int_equal(cc.window, 2 * PACKET);
    for (unsigned i = 0; i < 3; i++)
        round_trip(BASE, 0);
    near(cc.rate, 70 * MBPS);
    cc_on_timeout(&cc, now += NS_PER_SEC);
    assert_true(cc.rate < 70 * MBPS);
}

/* A configured base counts, though packets were faster; without one it is the shortest delay. */
static void the_base_may_be_configured(void **state)
{
    uint64_t params[CC_PARAMS_MAX];

    begin();
    round_trip(2 * BASE, 0); /* no longer base */
    assert_int_equal(cc.window, LINE / 8 * TARGET / NS_PER_SEC);
    cc_default_params(&cc_rtt, params);
    assert_true(cc_read_param(&cc_rtt, params, "base_delay=50"));
    cc_start(&cc, &cc_rtt, params, LINE, PACKET);
    round_trip(BASE, 0);
    assert_int_equal(cc.window, LINE / 8 * 80 * NS_PER_US / NS_PER_SEC);
}

/* At the least rate for ten seconds, and each round trip too long: the shortest of them is that of
 * another path. One that is short enough until then, or a rate that is higher, says that it is
 * not. */
static void a_longer_path_becomes_the_base(void **state)
{
    begin();
    for (unsigned i = 0; i < 9000; i++)
        round_trip(NS_PER_MS + i % 7, 0);
    round_trip(BASE, 0);
    for (unsigned i = 0; i < 9000; i++)
        round_trip(NS_PER_MS + i % 7, 10 * MBPS); /* at the least rate again, at once */
    assert_int_equal(cc.rate, 10 * MBPS);
    assert_int_equal(cc.window, 2 * PACKET);
    for (unsigned i = 0; i < 3000; i++)
        round_trip(NS_PER_MS + i % 7, LINE);
    assert_true(cc.rate > 1000 * MBPS);
    near(cc.window, cc.rate / 8 * (NS_PER_MS + 30 * NS_PER_US) / NS_PER_SEC);
    round_trip(2 * NS_PER_MS, 1000 * MBPS); /* and a queue on it is one */
    near(cc.rate, 757 * MBPS);
}

/* While the sender can slow down, the queue may be its own, for however long. */
static void a_queue_becomes_no_base(void **state)
{
    begin();
    for (unsigned i = 0; i < 12; i++, now += NS_PER_SEC)
        round_trip(TARGET + NS_PER_US, LINE);
    assert_true(cc.rate > LINE / 2);
    near(cc.window, cc.rate / 8 * TARGET / NS_PER_SEC);
}

/* What is configured stays. */
static void a_configured_base_stays(void **state)
{
    uint64_t params[CC_PARAMS_MAX];

    begin();
    cc_default_params(&cc_rtt, params);
    assert_true(cc_read_param(&cc_rtt, params, "base_delay=50"));
    cc_start(&cc, &cc_rtt, params, LINE, PACKET);
    for (unsigned i = 0; i < 30000; i++)
        round_trip(NS_PER_MS, 0);
    assert_int_equal(cc.rate, 10 * MBPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_round_trip_reduces),
        cmocka_unit_test(increases_grow),
        cmocka_unit_test(has_a_least_rate),
        cmocka_unit_test(the_base_may_be_configured),
        cmocka_unit_test(a_longer_path_becomes_the_base),
        cmocka_unit_test(a_queue_becomes_no_base),
        cmocka_unit_test(a_configured_base_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
