/* SPDX-License-Identifier: BSD-3-Clause */
/* The flows that `uroce entropy` reads from a daemon's answer. For the rest see
 * entropy_spread.py. */
#include <errno.h>
#include <string.h>

#include "common.h"
#include "spread.h"
#include "unit.h"

static int add_shown(struct flows *f, const char *text)
{
    char error[SPREAD_ERROR_MAX] = "";
    json_t *qps = json_loads(text, JSON_DECODE_ANY, NULL);
    int others;

    assert_non_null(qps);
    others = flows_add_shown(f, qps, error);
    json_decref(qps);
    return others;
}

static void test_connected(void **state)
{
    struct flows f = {0};
    union gid src, dst;

    assert_int_equal(
        add_shown(&f, "[{\"qpn\": 16, \"state\": \"RTS\", \"dest_qpn\": 17, \"sgid\": \"10.0.0.1\","
                      "  \"dgid\": \"10.0.0.2\"},"
                      " {\"qpn\": 18, \"state\": \"INIT\"},"
                      " {\"qpn\": 16777215, \"dest_qpn\": 1, \"sgid\": \"fe80::1\","
                      "  \"dgid\": \"fe80::2\"}]"),
        1);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.flow[0].src_qpn, 16);
    assert_int_equal(f.flow[0].dest_qpn, 17);
    assert_int_equal(gid_parse(&src, "10.0.0.1"), 0);
    assert_int_equal(gid_parse(&dst, "10.0.0.2"), 0);
    assert_true(gid_eq(&f.flow[0].src, &src) && gid_eq(&f.flow[0].dst, &dst));
    assert_int_equal(f.flow[1].src_qpn, 0xFFFFFF);
    assert_int_equal(f.flow[1].dest_qpn, 1);
    assert_int_equal(gid_parse(&dst, "fe80::2"), 0);
    assert_true(gid_eq(&f.flow[1].dst, &dst));
    flows_free(&f);
}

/* Unexpected values of another daemon do no harm: such queue pairs are counted. */
static void test_unfit(void **state)
{
    static const char *const unfit[] = {
        "{}",
        "7",
        "{\"qpn\": 16, \"dest_qpn\": 0, \"sgid\": \"10.0.0.1\", \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": 0, \"dest_qpn\": 5, \"sgid\": \"10.0.0.1\", \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": 16777216, \"dest_qpn\": 5, \"sgid\": \"10.0.0.1\", \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": 5, \"dest_qpn\": 16777216, \"sgid\": \"10.0.0.1\", \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": -1, \"dest_qpn\": 5, \"sgid\": \"10.0.0.1\", \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": \"16\", \"dest_qpn\": 5, \"sgid\": \"10.0.0.1\", \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": 16, \"dest_qpn\": 5, \"sgid\": 10, \"dgid\": \"10.0.0.2\"}",
        "{\"qpn\": 16, \"dest_qpn\": 5, \"sgid\": \"10.0.0.1\", \"dgid\": \"unknown\"}",
        "{\"qpn\": 16, \"dest_qpn\": 5, \"sgid\": \"10.0.0.1\", \"dgid\": \"::\"}",
    };
    struct flows f = {0};

    for (size_t i = 0; i < ARRAY_SIZE(unfit); i++) {
        char text[256];

        snprintf(text, sizeof(text), "[%s]", unfit[i]);
        assert_int_equal(add_shown(&f, text), 1);
        assert_int_equal(f.count, 0);
    }
    assert_int_equal(add_shown(&f, "[]"), 0);
    assert_int_equal(add_shown(&f, "{\"qps\": 1}"), 0);
    assert_int_equal(f.count, 0);
    flows_free(&f);
}

static void test_limit(void **state)
{
    char error[SPREAD_ERROR_MAX] = "";
    struct flows f = {0};
    union gid g = {.raw = {1}};

    assert_int_equal(flows_add_random(&f, SPREAD_FLOWS_MAX, 1, &g, &g, error), 0);
    assert_int_equal(flows_add_range(&f, "1:2", &g, &g, error), -EINVAL);
    assert_string_equal(error, "more than 1048576 flows");
    assert_int_equal(f.count, SPREAD_FLOWS_MAX);
    flows_free(&f);
    assert_int_equal(flows_add_range(&f, "1:2", &g, &g, error), 0);
    assert_int_equal(f.count, 1);
    flows_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connected),
        cmocka_unit_test(test_unfit),
        cmocka_unit_test(test_limit),
    };

    return cmocka_run_group_tests_name("uroce_flows", tests, NULL, NULL);
}
