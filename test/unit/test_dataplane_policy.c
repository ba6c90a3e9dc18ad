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

/* Looks in vain until it is not eager any more, long after the last work. */
static unsigned eager_time(ns_t now)
{
    unsigned n = 0;

    now += POLL_LINGER_NS;

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

/* Work comes `after` the last, and a sleep if the worker does not wait so long. */
static bool work_comes(ns_t *now, ns_t after)
{
    enum poll_step step = POLL_SPIN;

    for (ns_t t = 0; t < after && step == POLL_SPIN; t += 100)
        step = poll_empty(&p, *now + t);
    *now += after;
    poll_worked(&p, *now);
    return step == POLL_SLEEP;
}

static void test_eager_lingers(void **state)
{
    ns_t now = 5 * NS_PER_SEC;

    poll_worked(&p, now);
    long_yield(now);
    /* Posts in a row find it awake, and one that is late costs nothing but its sleep. */
    for (unsigned i = 0; i < POLL_LINGER_RUN; i++)
        assert_false(work_comes(&now, POLL_LINGER_NS));
    assert_true(work_comes(&now, POLL_LINGER_NS + 100));
    assert_false(work_comes(&now, POLL_LINGER_NS));
    /* When it is mostly in vain it sleeps at once, for a while. */
    for (unsigned round = 0; round < 3; round++) {
        assert_true(work_comes(&now, POLL_LINGER_NS + 100));
        for (unsigned i = 0; i < POLL_LINGER_SKIP; i++)
            assert_true(work_comes(&now, 100));
        for (unsigned i = 0; i + 1 < POLL_LINGER_RUN; i++)
            assert_false(work_comes(&now, 100));
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {T(test_cpus_enough), T(test_oversubscribed),
                                       T(test_sleeps_after_hot_time), T(test_eager_and_back_off),
                                       T(test_eager_lingers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
