/* SPDX-License-Identifier: BSD-3-Clause */
/* Which late programs get a line in the log. */
#include "unit.h"

#include "late_report.h"

#define START (5 * NS_PER_SEC)

/* All that are late at once are named. */
static void test_several(void **state)
{
    struct late_report r = {0};
    unsigned skipped;

    for (int pid = 1; pid <= (int)LATE_LINES; pid++) {
        assert_true(late_report_names(&r, pid, START + (ns_t)pid, &skipped));
        assert_int_equal(skipped, 0);
    }
}

static void test_same(void **state)
{
    struct late_report r = {0};
    unsigned skipped;

    assert_true(late_report_names(&r, 7, START, &skipped));
    assert_true(late_report_names(&r, 8, START, &skipped));
    assert_false(late_report_names(&r, 7, START + 1, &skipped));
    assert_false(late_report_names(&r, 7, START + LATE_PERIOD - 1, &skipped));
    assert_true(late_report_names(&r, 7, START + LATE_PERIOD, &skipped));
}

/* Beyond LATE_LINES at once there is one in a second, which says how many have none. */
static void test_many(void **state)
{
    struct late_report r = {0};
    unsigned named = 0, skipped = 0, told = 0;

    for (int pid = 1; pid <= 1000; pid++)
        named += late_report_names(&r, pid, START, &skipped);
    assert_int_equal(named, LATE_LINES);
    for (int pid = 1001; pid <= 2000; pid++) { /* in ten seconds */
        if (!late_report_names(&r, pid, START + (ns_t)(pid - 1000) * NS_PER_SEC / 100, &skipped))
            continue;
        named++;
        told += skipped;
    }
    assert_int_equal(named, LATE_LINES + 10);
    assert_int_equal(told, 2000 - named);
}

/* A process is not forgotten because of many others within the period. */
static void test_remembered(void **state)
{
    struct late_report r = {0};
    unsigned skipped;

    assert_true(late_report_names(&r, 1, START, &skipped));
    for (int pid = 2; pid < 5000; pid++)
        late_report_names(&r, pid, START + (ns_t)pid * NS_PER_SEC / 100, &skipped);
    assert_false(late_report_names(&r, 1, START + LATE_PERIOD - 1, &skipped));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
