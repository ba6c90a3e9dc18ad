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

/* Polls without success up to the yield. */
static unsigned looks(void)
{
    unsigned n = 0;

    while (poll_empty(&p, 1001) == POLL_SPIN)
        n++;
    return n;
}

/* Yields that return at once: more and more polls between them. */
static unsigned quick_yields(unsigned n)
{
    while (n--)
        poll_yielded(&p, 1001, n % 2 ? 200 : 399);
    return looks();
}

static void test_cpus_enough(void **state)
{
    assert_int_equal(looks(), 0);
    poll_yielded(&p, 1001, 200);
    assert_int_equal(looks(), 1);
    assert_int_equal(quick_yields(1), 3);
    assert_int_equal(quick_yields(4), POLL_SPINS);
    assert_int_equal(quick_yields(4), POLL_SPINS);
    /* Another thread ran during one. */
    poll_yielded(&p, 1001, 400);
    assert_int_equal(looks(), 0);
    assert_int_equal(looks(), 0);
}

/* From the beginning, so that there is no shorter one to compare with. */
static void test_always_others(void **state)
{
    for (unsigned i = 0; i < 10; i++)
        poll_yielded(&p, 1001, 20000);
    assert_int_equal(looks(), 0);
}

/* A worker with a CPU of its own. */
static void test_own_cpu(void **state)
{
    p.always = true;
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(poll_empty(&p, 1000 + i * NS_PER_MS), POLL_SPIN);
    poll_found_work(&p, NS_PER_SEC);
    assert_false(poll_should_share(&p, 2 * NS_PER_SEC));
}

static void test_oversubscribed(void **state)
{
    quick_yields(10);
    poll_set_crowded(&p, true);
    assert_int_equal(looks(), YIELD_CROWDED);
    assert_int_equal(quick_yields(10), YIELD_CROWDED);
    poll_yielded(&p, 1001, 400);
    assert_int_equal(looks(), 0);
    poll_set_crowded(&p, false);
    assert_int_equal(quick_yields(10), POLL_SPINS);
}

static void test_shares_while_busy(void **state)
{
    ns_t now = 1000 + POLL_SHARE_NS;

    poll_found_work(&p, now);
    assert_true(poll_should_share(&p, now)); /* unknown */
    poll_yielded(&p, now, 300);
    assert_false(poll_should_share(&p, now + POLL_SHARE_NS)); /* no other thread wanted the CPU */
    assert_true(poll_should_share(&p, now + POLL_PROBE_NS));
    poll_set_crowded(&p, true);
    assert_false(poll_should_share(&p, now + POLL_SHARE_NS - 1));
    assert_true(poll_should_share(&p, now + POLL_SHARE_NS));
    poll_set_crowded(&p, false);
    poll_yielded(&p, now, 600); /* another thread did */
    assert_true(poll_should_share(&p, now + POLL_SHARE_NS));
    poll_yielded(&p, now, YIELD_LONG_NS);
    assert_false(poll_should_share(&p, now + POLL_PROBE_NS)); /* with programs that do not yield */
}

static void test_sleeps_when_idle(void **state)
{
    quick_yields(10);
    assert_int_equal(poll_empty(&p, 1000 + POLL_BUSY_NS - 1), POLL_SPIN);
    assert_int_equal(poll_empty(&p, 1000 + POLL_BUSY_NS), POLL_SLEEP);
    /* A tick that found nothing changes nothing. */
    assert_int_equal(poll_empty(&p, NS_PER_SEC), POLL_SLEEP);
    poll_found_work(&p, NS_PER_SEC);
    assert_int_equal(poll_empty(&p, NS_PER_SEC + 1), POLL_SPIN);
}

static void long_yield(ns_t now, ns_t took)
{
    poll_yielded(&p, now, took);
    assert_true(poll_is_contended(&p));
}

/* Work comes before that. */
static void some_work(ns_t now, unsigned n)
{
    while (n--)
        poll_found_work(&p, now);
}

/* How long it stays contended if nothing comes, from now on, which is long after the last work. */
static ns_t contended_time(ns_t now)
{
    ns_t start = now;

    while (poll_empty(&p, now) == POLL_SLEEP && poll_is_contended(&p))
        now += NS_PER_MS;
    assert_false(poll_is_contended(&p));
    return now - start;
}

static void test_contended_and_back_off(void **state)
{
    ns_t now = 5 * NS_PER_SEC;

    poll_yielded(&p, now, YIELD_LONG_NS - 1);
    assert_false(poll_is_contended(&p));
    long_yield(now, YIELD_LONG_NS);
    some_work(now, POLL_CONTENDED_WORK);
    assert_int_equal(contended_time(now + NS_PER_MS), POLL_CONTENDED_MIN - NS_PER_MS);
    now += POLL_CONTENDED_MIN;
    /* Soon a whole time slice is lost again: twice the time, up to the limit. */
    for (ns_t span = POLL_CONTENDED_MIN * 2; span <= POLL_CONTENDED_MAX; span *= 2) {
        now += POLL_CONTENDED_AGAIN - NS_PER_MS;
        long_yield(now, YIELD_LONG_NS);
        some_work(now, POLL_CONTENDED_WORK);
        assert_int_equal(contended_time(now + NS_PER_MS), span - NS_PER_MS);
        now += span;
    }
    long_yield(now, YIELD_LONG_NS);
    some_work(now, POLL_CONTENDED_WORK);
    assert_int_equal(contended_time(now + NS_PER_MS), POLL_CONTENDED_MAX - NS_PER_MS);
    now += POLL_CONTENDED_MAX;
    /* Not so soon. */
    now += POLL_CONTENDED_AGAIN + YIELD_LONG_NS;
    long_yield(now, YIELD_LONG_NS);
    some_work(now, POLL_CONTENDED_WORK - 1);
    assert_int_equal(contended_time(now + NS_PER_MS), POLL_CONTENDED_MIN - NS_PER_MS);
    now += POLL_CONTENDED_MIN;
    /* Soon, but there was no work in the contended time. */
    long_yield(now, YIELD_LONG_NS);
    assert_int_equal(contended_time(now + NS_PER_MS), POLL_CONTENDED_MIN - NS_PER_MS);
}

/* When every poll finds work. */
static void test_contention_ends_while_busy(void **state)
{
    ns_t now = 5 * NS_PER_SEC;

    long_yield(now, YIELD_LONG_NS);
    poll_found_work(&p, now + POLL_CONTENDED_MIN - 1);
    assert_true(poll_is_contended(&p));
    poll_found_work(&p, now + POLL_CONTENDED_MIN);
    assert_false(poll_is_contended(&p));
    assert_true(poll_should_share(&p, now + POLL_CONTENDED_MIN));
}

/* Work comes `after` the last work, and a sleep before it if the worker does not poll that long. */
static bool work_comes(ns_t *now, ns_t after)
{
    enum poll_step step = POLL_SPIN;

    for (ns_t t = 0; t < after && step == POLL_SPIN; t += 100)
        step = poll_empty(&p, *now + t);
    *now += after;
    poll_found_work(&p, *now);
    return step == POLL_SLEEP;
}

static void test_contended_lingers(void **state)
{
    ns_t now = 5 * NS_PER_SEC;

    poll_found_work(&p, now);
    long_yield(now, YIELD_LONG_NS);
    /* Posts in a row find the worker awake, and a late one costs only its wake-up. */
    for (unsigned i = 0; i < POLL_LINGER_HITS; i++)
        assert_false(work_comes(&now, POLL_LINGER_NS));
    assert_true(work_comes(&now, POLL_LINGER_NS + 100));
    assert_false(work_comes(&now, POLL_LINGER_NS));
    /* When most waits find nothing the worker sleeps at once, for a while. */
    for (unsigned round = 0; round < 3; round++) {
        assert_true(work_comes(&now, POLL_LINGER_NS + 100));
        for (unsigned i = 0; i < POLL_LINGER_SKIP; i++)
            assert_true(work_comes(&now, 100));
        for (unsigned i = 0; i + 1 < POLL_LINGER_HITS; i++)
            assert_false(work_comes(&now, 100));
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {T(test_cpus_enough),      T(test_own_cpu),
                                       T(test_oversubscribed),   T(test_shares_while_busy),
                                       T(test_always_others),    T(test_contention_ends_while_busy),
                                       T(test_sleeps_when_idle), T(test_contended_and_back_off),
                                       T(test_contended_lingers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
