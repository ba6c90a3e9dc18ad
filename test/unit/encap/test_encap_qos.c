/* SPDX-License-Identifier: BSD-3-Clause */
/* The maps of a port's quality of service. */
#include "qos.h"

#include "common.h"
#include "gid.h"
#include "unit.h"

static void test_defaults(void **state)
{
    struct qos_map m;

    qos_map_default(&m);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(m.sl_to_pcp[i], i & 7);
        assert_int_equal(m.priority_to_sl[i], i & 7);
    }
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(qos_traffic_class(&m, (uint8_t)i), i);
}

/* The Linux kernel's rt_tos2priority. */
static void test_tos(void **state)
{
    static const struct {
        uint8_t tos, priority;
    } row[] = {{0, 0},   {2, 0},   {4, 0},   {6, 0},  {8, 2},   {14, 2},  {16, 6}, {22, 6},
               {24, 4},  {30, 4},  {32, 0},  {96, 0}, {104, 2}, {184, 4}, {1, 0},  {9, 2},
               {160, 0}, {248, 4}, {255, 4}, {40, 2}, {48, 6},  {56, 4},  {192, 0}};
    struct qos_map m;

    qos_map_default(&m);
    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        assert_int_equal(qos_tos_to_priority(row[i].tos), row[i].priority);
        assert_int_equal(qos_tos_to_sl(&m, row[i].tos), row[i].priority);
    }
    m.priority_to_sl[2] = 13;
    assert_int_equal(qos_tos_to_sl(&m, 104), 13);
    assert_int_equal(qos_tos_to_sl(&m, 184), 4);
}

static void test_traffic_class(void **state)
{
    struct qos_map m;

    qos_map_default(&m);
    m.dscp[46] = 26;
    m.dscp[0] = 63;
    for (uint8_t ecn = 0; ecn < 4; ecn++) {
        assert_int_equal(qos_traffic_class(&m, 46 << 2 | ecn), 26 << 2 | ecn);
        assert_int_equal(qos_traffic_class(&m, ecn), 63 << 2 | ecn);
        assert_int_equal(qos_traffic_class(&m, 26 << 2 | ecn), 26 << 2 | ecn);
    }
}

static void test_frame_priority(void **state)
{
    for (unsigned pcp = 0; pcp < 8; pcp++) {
        assert_int_equal(qos_frame_priority((uint16_t)(pcp << 13 | 100), 0xE0), pcp);
        assert_int_equal(qos_frame_priority((uint16_t)(pcp << 13), 0x20), pcp); /* no VLAN */
        assert_int_equal(qos_frame_priority(VLAN_NONE, (uint8_t)(pcp << 5 | 0x1F)), pcp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_tos),
        cmocka_unit_test(test_traffic_class),
        cmocka_unit_test(test_frame_priority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
