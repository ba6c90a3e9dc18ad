/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters by name, for each algorithm of the table. */
#include <stdio.h>
#include <string.h>

#include "cc.h"
#include "unit.h"

static uint64_t params[CC_PARAMS_MAX];

static bool set(const struct cc_ops *ops, const char *name, const char *is, uint64_t value)
{
    char text[80];

    snprintf(text, sizeof(text), "%s%s%llu", name, is, (unsigned long long)value);
    return cc_read_param(ops, params, text);
}

static void each_has_a_name_a_range_and_a_default(void **state)
{
    unsigned found = 0;

    for (unsigned k = 0; cc_at(k); k++) {
        const struct cc_ops *ops = cc_at(k);

        assert_ptr_equal(cc_find(ops->name), ops);
        assert_true(cc_param_count(ops) <= CC_PARAMS_MAX);
        cc_default_params(ops, params);
        for (unsigned i = 0; i < cc_param_count(ops); i++) {
            const struct cc_param *p = &ops->param[i];

            assert_in_range(params[i], p->least * p->unit, p->most * p->unit);
            assert_int_equal(params[i] % p->unit, 0);
            assert_true(set(ops, p->name, "=", p->least));
            assert_int_equal(params[i], p->least * p->unit);
            assert_true(set(ops, p->name, "=", p->most));
            assert_int_equal(params[i], p->most * p->unit);
            assert_false(set(ops, p->name, "=", p->most + 1));
            if (p->least)
                assert_false(set(ops, p->name, "=", p->least - 1));
            found++;
        }
    }
    assert_true(found >= 11 + 11 + 10 + 6);
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "=",
        "rpg_ai_rate",
        "rpg_ai_rate=",
        "rpg_ai_rat=5",
        "rpg_ai_ratee=5",
        "=5",
        "5",
        " rpg_ai_rate=5",
        "rpg_ai_rate= 5",
        "rpg_ai_rate=-5",
        "rpg_ai_rate=5x",
        "rpg_ai_rate=0x5",
        "rpg_ai_rate=99999999999999999999999999",
        "rpg_ai_rate=18446744073710",
    };

    cc_default_params(&cc_dcqcn, params);
    for (unsigned i = 0; i < ARRAY_SIZE(texts); i++)
        assert_false(cc_read_param(&cc_dcqcn, params, texts[i]));
    assert_true(cc_read_param(&cc_dcqcn, params, "rpg_ai_rate=5"));
    assert_int_equal(params[8], 5000000);
}

/* Those that a controller is started with, not the defaults. */
static void a_controller_uses_them(void **state)
{
    struct cc cc = {0};

    cc_default_params(&cc_dcqcn, params);
    assert_true(cc_read_param(&cc_dcqcn, params, "rpg_min_dec_fac=75"));
    cc_start(&cc, &cc_dcqcn, params, 1000000000, 4096);
    cc_on_cnp(&cc, NS_PER_SEC);
    assert_int_equal(cc.rate, 750000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_a_name_a_range_and_a_default),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(a_controller_uses_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
