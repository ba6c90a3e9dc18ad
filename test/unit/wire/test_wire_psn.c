/* SPDX-License-Identifier: BSD-3-Clause */
#include "psn.h"
#include "random.h"
#include "unit.h"

static void test_reduction(void **state)
{
    assert_int_equal(psn(0x1000000).v, 0);
    assert_int_equal(psn(0xFFFFFFFF).v, 0xFFFFFF);
    assert_int_equal(psn_add(psn(0xFFFFFF), 1).v, 0);
    assert_int_equal(psn_add(psn(5), 0xFFFFFFFF).v, 4);
    assert_int_equal(psn_prev(psn(0)).v, 0xFFFFFF);
    assert_true(psn_eq(psn_prev(psn_add(psn(7), 1)), psn(7)));
}

static void test_difference(void **state)
{
    assert_int_equal(psn_diff(psn(0), psn(0xFFFFFF)), 1);
    assert_int_equal(psn_diff(psn(0xFFFFFF), psn(0)), -1);
    assert_int_equal(psn_diff(psn(0x7FFFFF), psn(0)), 0x7FFFFF);
    assert_int_equal(psn_diff(psn(0x800000), psn(0)), -0x800000);
    assert_int_equal(psn_diff(psn(0), psn(0x800001)), 0x7FFFFF);
}

static void test_order(void **state)
{
    assert_true(psn_before(psn(0xFFFFFE), psn(1)));
    assert_false(psn_before(psn(1), psn(0xFFFFFE)));
    assert_false(psn_before(psn(3), psn(3)));
    assert_true(psn_within(psn(0), psn(0xFFFFF0), psn(0x10)));
    assert_true(psn_within(psn(0x10), psn(0xFFFFF0), psn(0x10)));
    assert_true(psn_within(psn(0xFFFFF0), psn(0xFFFFF0), psn(0x10)));
    assert_false(psn_within(psn(0x11), psn(0xFFFFF0), psn(0x10)));
    assert_false(psn_within(psn(0xFFFFEF), psn(0xFFFFF0), psn(0x10)));
}

static void test_random_distances(void **state)
{
    struct random r = {1};

    for (int i = 0; i < 100000; i++) {
        psn_t a = psn((uint32_t)random_next(&r));
        int32_t d = (int32_t)random_below(&r, 1 << 24) - (1 << 23);

        assert_int_equal(psn_diff(psn_add(a, (uint32_t)d), a), d);
        assert_int_equal(psn_before(psn_add(a, (uint32_t)d), a), d < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduction),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_random_distances),
    };

    return cmocka_run_group_tests_name("wire_psn", tests, NULL, NULL);
}
