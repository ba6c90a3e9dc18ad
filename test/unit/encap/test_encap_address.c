/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: GIDs, their table and the MACs of groups, source ports. */
#include <errno.h>
#include <string.h>

#include "common.h"
#include "entropy.h"
#include "gid.h"
#include "random.h"
#include "unit.h"

static void check_text(const char *in, const char *out)
{
    union gid g, again;
    char text[46];

    assert_int_equal(gid_parse(&g, in), 0);
    gid_format(text, &g);
    assert_string_equal(text, out);
    assert_int_equal(gid_parse(&again, text), 0);
    assert_true(gid_eq(&g, &again));
}

static void test_gid_text(void **state)
{
    check_text("10.0.0.1", "10.0.0.1");
    check_text("::ffff:10.0.0.1", "10.0.0.1");
    check_text("0:0:0:0:0:ffff:0a00:0001", "10.0.0.1");
    check_text("fe80::1", "fe80::1");
    check_text("FE80:0:0:0:0:0:0:1", "fe80::1");
    check_text("::", "::");
    check_text("2001:db8:1111:2222:3333:4444:5555:6666", "2001:db8:1111:2222:3333:4444:5555:6666");
}

static void test_gid_text_errors(void **state)
{
    static const char *const bad[] = {
        "",          "10.0.0",    "10.0.0.256",    "10.0.0.1 ", "fe80::1%eth0",
        "fe80::1::", "host.name", "::ffff:10.0.0", "fe80::1/64"};
    union gid g;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(gid_parse(&g, bad[i]), -EINVAL);
}

static void test_gid_kinds(void **state)
{
    static const struct {
        const char *text;
        bool ipv4, multicast;
    } cases[] = {
        {"10.0.0.1", true, false},    {"224.0.0.1", true, true}, {"239.255.255.255", true, true},
        {"240.0.0.1", true, false},   {"fe80::1", false, false}, {"ff02::1", false, true},
        {"::10.0.0.1", false, false}, {"::1", false, false},
    };
    union gid g;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(gid_parse(&g, cases[i].text), 0);
        assert_int_equal(gid_is_ipv4(&g), cases[i].ipv4);
        assert_int_equal(gid_is_multicast(&g), cases[i].multicast);
        assert_false(gid_is_zero(&g));
    }
    assert_int_equal(gid_parse(&g, "::"), 0);
    assert_true(gid_is_zero(&g));
}

static void test_rank(void **state)
{
    static const struct {
        const char *text;
        unsigned rank;
    } row[] = {
        {"10.0.0.1", 0}, {"127.0.0.1", 0}, {"169.253.0.1", 0}, {"169.254.0.1", 2},
        {"fd00::1", 1},  {"::1", 1},       {"fe7f::1", 1},     {"fe80::1", 2},
        {"febf::1", 2},  {"fec0::1", 1},   {"2001:db8::1", 1}, {"169.254.255.255", 2},
    };
    union gid g;

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        assert_int_equal(gid_parse(&g, row[i].text), 0);
        assert_int_equal(gid_rank(&g), row[i].rank);
        assert_int_equal(gid_is_link_local(&g), row[i].rank == 2);
    }
}

static void test_link_local_from_mac(void **state)
{
    union gid want, got = gid_link_local((const uint8_t[]){0x00, 0x02, 0xc9, 0xa0, 0x57, 0x80});

    assert_int_equal(gid_parse(&want, "fe80::202:c9ff:fea0:5780"), 0);
    assert_true(gid_eq(&want, &got));
}

static void test_gid_table(void **state)
{
    struct gid_table t = {.len = 0};
    struct gid_entry e = {.gid = gid_from_ipv4((const uint8_t[]){10, 0, 0, 1}),
                          .type = GID_TYPE_ROCE_V1,
                          .vlan = VLAN_NONE};

    assert_int_equal(gid_table_find(&t, &e.gid, GID_TYPE_ROCE_V1, VLAN_NONE), -ENOENT);
    assert_int_equal(gid_table_add(&t, &e), 0);
    assert_int_equal(gid_table_add(&t, &e), -EEXIST);
    e.type = GID_TYPE_ROCE_V2;
    assert_int_equal(gid_table_add(&t, &e), 1);
    e.vlan = 5;
    assert_int_equal(gid_table_add(&t, &e), 2);
    assert_int_equal(gid_table_find(&t, &e.gid, GID_TYPE_ROCE_V2, VLAN_NONE), 1);
    assert_int_equal(gid_table_find(&t, &e.gid, GID_TYPE_ROCE_V2, 5), 2);
    assert_int_equal(gid_table_find(&t, &e.gid, GID_TYPE_ROCE_V1, 5), -ENOENT);
    t.entry[1].valid = false;
    assert_int_equal(gid_table_find(&t, &e.gid, GID_TYPE_ROCE_V2, VLAN_NONE), -ENOENT);
    e.vlan = 6;
    assert_int_equal(gid_table_add(&t, &e), 1); /* the emptied slot */
    assert_int_equal(t.len, 3);
}

/* Addresses are removed and added again in another order. */
static void test_gid_table_keeps_places(void **state)
{
    struct gid_table t = {.len = 0};
    struct gid_entry e[4];

    for (unsigned i = 0; i < 4; i++) {
        e[i] = (struct gid_entry){.gid = gid_from_ipv4((const uint8_t[]){10, 0, 0, i}),
                                  .type = GID_TYPE_ROCE_V2,
                                  .vlan = VLAN_NONE};
        assert_int_equal(gid_table_add(&t, &e[i]), i);
    }
    for (unsigned i = 0; i < 4; i++)
        t.entry[i].valid = false;
    for (unsigned i = 4; i-- > 0;)
        assert_int_equal(gid_table_add(&t, &e[i]), i);
    assert_int_equal(t.len, 4);
}

static void test_gid_table_full(void **state)
{
    struct gid_table t = {.len = 0};
    struct gid_entry e = {.type = GID_TYPE_ROCE_V2, .vlan = VLAN_NONE};

    for (unsigned i = 0; i < GID_TABLE_MAX; i++) {
        e.gid.raw[15] = (uint8_t)i;
        assert_int_equal(gid_table_add(&t, &e), i);
    }
    e.gid.raw[15] = 0xFF;
    assert_int_equal(gid_table_add(&t, &e), -ENOSPC);
    t.entry[7].valid = false;
    assert_int_equal(gid_table_add(&t, &e), 7);
}

static void check_group_mac(const char *group, const uint8_t expected[6])
{
    union gid g;
    uint8_t mac[6];

    assert_int_equal(gid_parse(&g, group), 0);
    gid_multicast_mac(&g, mac);
    assert_memory_equal(mac, expected, 6);
}

static void test_multicast_macs(void **state)
{
    check_group_mac("224.0.0.251", (const uint8_t[]){0x01, 0x00, 0x5E, 0, 0, 251});
    check_group_mac("239.129.2.3", (const uint8_t[]){0x01, 0x00, 0x5E, 1, 2, 3});
    check_group_mac("ff12::1234:5678", (const uint8_t[]){0x33, 0x33, 0x12, 0x34, 0x56, 0x78});
}

static void test_entropy_from_qpns(void **state)
{
    static const struct {
        uint32_t src, dest;
        uint16_t kernel, rfc;
    } cases[] = {
        {0x11, 0x11, 0xC121, 0xC011},      {0x12, 0x34, 0xC3A8, 0xC026},
        {0x123, 0xABCDEF, 0xDAB5, 0xCC67}, {0xFFFFFF, 0xFFFFFF, 0xFF21, 0xFF00},
        {0x10, 0x400000, 0xC040, 0xC050},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(entropy_port_kernel(0, cases[i].src, cases[i].dest), cases[i].kernel);
        assert_int_equal(entropy_port_kernel(0, cases[i].dest, cases[i].src), cases[i].kernel);
        assert_int_equal(entropy_port_rfc_rc(cases[i].src, cases[i].dest), cases[i].rfc);
    }
}

static void test_entropy_of_datagrams(void **state)
{
    assert_int_equal(entropy_port_rfc_ud(0x12, 0x34), 0xC026);
    assert_int_equal(entropy_port_rfc_ud(0x11, 0x11), 0xC011);
    assert_int_equal(entropy_port_rfc_ud(0xABCDEF, 0xFFFFFF), 0xCD44);
}

static void test_entropy_of_connections(void **state)
{
    assert_int_equal(entropy_flow_label_cm(47667, 7174), 0x6A833);
    assert_int_equal(entropy_port_kernel(0x6A833, 1, 2), 59433);
    assert_int_equal(entropy_flow_label_cm(59151, 7471), 0xC1800);
    assert_int_equal(entropy_port_kernel(0xC1800, 1, 2), 55344);
    assert_int_equal(entropy_port_rfc_cm(47667, 7174), 58933);
    assert_int_equal(entropy_port_rfc_cm(59151, 7471), 64032);
}

static void test_entropy_range(void **state)
{
    struct random r = {8};

    for (int i = 0; i < 100000; i++) {
        uint32_t fl = (uint32_t)random_next(&r), s = (uint32_t)random_next(&r) & 0xFFFFFF;
        uint32_t d = (uint32_t)random_next(&r) & 0xFFFFFF;

        assert_true(entropy_port_kernel(fl, s, d) >= ENTROPY_PORT_MIN);
        assert_true(entropy_port_kernel(0, s, d) >= ENTROPY_PORT_MIN);
        assert_true(entropy_port_rfc_ud(s, d) >= ENTROPY_PORT_MIN);
        assert_true(entropy_port_rfc_cm((uint16_t)s, (uint16_t)d) >= ENTROPY_PORT_MIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gid_text),
        cmocka_unit_test(test_gid_text_errors),
        cmocka_unit_test(test_gid_kinds),
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_link_local_from_mac),
        cmocka_unit_test(test_gid_table),
        cmocka_unit_test(test_gid_table_keeps_places),
        cmocka_unit_test(test_gid_table_full),
        cmocka_unit_test(test_multicast_macs),
        cmocka_unit_test(test_entropy_from_qpns),
        cmocka_unit_test(test_entropy_of_datagrams),
        cmocka_unit_test(test_entropy_of_connections),
        cmocka_unit_test(test_entropy_range),
    };

    return cmocka_run_group_tests_name("encap_address", tests, NULL, NULL);
}
