/* SPDX-License-Identifier: BSD-3-Clause */
/* When a worker spins, yields, sleeps. */
#include "unit.h"

#include "poll_policy.h"

static struct poll_policy p;

static int setup(void **state)
{
    poll_policy_init(&p, 1000);
    return 0;
}

static void test_cpus_enough(void **state)
{
    poll_set_spinners(&p, 2, 2);
    for (unsigned i = 0; i < POLL_SPINS; i++)
        assert_int_equal(poll_empty(&p, 1001), POLL_SPIN);
    assert_int_equal(poll_empty(&p, 1001), POLL_YIELD);
    assert_int_equal(poll_empty(&p, 1001), POLL_SPIN);
}

static void test_oversubscribed(void **state)
{
    poll_set_spinners(&p, 3, 2);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(poll_empty(&p, 1001), POLL_YIELD);
}

static void test_sleeps_after_hot_time(void **state)
{
    assert_int_equal(poll_empty(&p, 1000 + POLL_HOT_NS - 1), POLL_SPIN);
    assert_int_equal(poll_empty(&p, 1000 + POLL_HOT_NS), POLL_SLEEP);
    /* A tick that found nothing changes nothing. */
    assert_int_equal(poll_empty(&p, NS_PER_SEC), POLL_SLEEP);
    poll_worked(&p, NS_PER_SEC);
    assert_int_equal(poll_empty(&p, NS_PER_SEC + 1), POLL_SPIN);
}

static void long_yield(ns_t now)
{
    poll_yielded(&p, now, POLL_LONG_YIELD_NS);
    assert_true(poll_is_eager(&p));
}

static unsigned eager_time(ns_t now)
{
    unsigned n = 0;

    while (poll_is_eager(&p)) {
        assert_int_equal(poll_empty(&p, now), POLL_SLEEP);
        n++;
    }
    return n;
}

static void test_eager_and_back_off(void **state)
{
    ns_t now = 5 * NS_PER_SEC;

    poll_worked(&p, now);
    poll_yielded(&p, now, POLL_LONG_YIELD_NS - 1);
    assert_false(poll_is_eager(&p));
    long_yield(now);
    assert_int_equal(eager_time(now), POLL_EAGER_MIN);
    assert_int_equal(poll_empty(&p, now), POLL_SPIN);
    /* Soon again: twice as long, up to the limit. */
    for (unsigned span = POLL_EAGER_MIN * 2; span <= POLL_EAGER_MAX; span *= 2) {
        now += NS_PER_SEC;
        long_yield(now);
        assert_int_equal(eager_time(now), span);
    }
    long_yield(now + NS_PER_SEC);
    assert_int_equal(eager_time(now), POLL_EAGER_MAX);
    now += 10 * NS_PER_SEC;
    long_yield(now);
    assert_int_equal(eager_time(now), POLL_EAGER_MIN);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {T(test_cpus_enough), T(test_oversubscribed),
                                       T(test_sleeps_after_hot_time), T(test_eager_and_back_off)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
