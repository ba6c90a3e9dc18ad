/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice among the host's addresses. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "host_addresses.h"

static struct netdev_address all[2 * GID_TABLE_MAX];
static unsigned count;
static struct host_addresses now;
static struct port_address own[2];
static struct host_addresses_limit limit;

static union gid gid_of(const char *text)
{
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    return gid;
}

static void host_has(const char *text, uint32_t ifindex)
{
    all[count++] = (struct netdev_address){.addr = gid_of(text), .prefix = 24, .ifindex = ifindex};
}

static void choose(void)
{
    struct host_addresses next;

    host_addresses_choose(&next, &now, all, count, &limit);
    now = next;
}

/* The addresses, each with the number of its interface: "10.0.0.1%2 ". */
static void check(const char *want)
{
    char text[1024] = "", address[46];

    for (unsigned i = 0; i < now.count; i++) {
        size_t len = strlen(text);

        gid_format(address, &now.address[i].addr);
        snprintf(text + len, sizeof(text) - len, "%s%%%u ", address, now.address[i].ifindex);
    }
    assert_string_equal(text, want);
}

static int setup(void **state)
{
    now = (struct host_addresses){0};
    own[0] = (struct port_address){.gid = gid_of("127.0.0.1"), .vlan = VLAN_NONE};
    own[1] = (struct port_address){.gid = gid_of("::1"), .vlan = VLAN_NONE};
    limit = (struct host_addresses_limit){.own = own, .owns = 2, .room = 4};
    count = 0;
    return 0;
}

static void test_own_addresses_are_no_others(void **state)
{
    host_has("127.0.0.1", 1);
    host_has("127.0.0.2", 1);
    host_has("::1", 1);
    choose();
    check("127.0.0.2%1 ");
    assert_false(now.more);
}

static void test_own_address_in_a_vlan_is_another(void **state)
{
    own[0] = (struct port_address){.gid = gid_of("10.0.0.1"), .vlan = 5};
    host_has("10.0.0.1", 2);
    choose();
    check("10.0.0.1%2 ");
}

static void test_best_are_first(void **state)
{
    host_has("169.254.0.1", 2);
    host_has("10.0.0.1", 2);
    host_has("10.0.0.2", 3);
    host_has("fe80::1", 2);
    host_has("fd00::1", 3);
    choose();
    check("10.0.0.1%2 10.0.0.2%3 fd00::1%3 169.254.0.1%2 ");
    assert_true(now.more);
}

/* Other hosts reach none of the host itself, and need a link to reach a link-local one. */
static void test_outside(void **state)
{
    host_has("127.0.0.1", 1);
    host_has("10.0.0.1", 2);
    host_has("::1", 1);
    host_has("127.3.0.1", 1);
    host_has("fe80::1", 2);
    host_has("fd00::1", 2);
    host_has("169.254.0.1", 2);
    count = host_addresses_outside(all, count);
    choose();
    check("10.0.0.1%2 fd00::1%2 ");
}

static void test_as_many_as_fit(void **state)
{
    host_has("10.0.0.1", 2);
    host_has("10.0.0.2", 2);
    host_has("10.0.0.3", 2);
    host_has("10.0.0.4", 2);
    host_has("127.0.0.1", 1); /* the device has it anyway */
    host_has("10.0.0.4", 3);  /* and this already */
    choose();
    assert_int_equal(now.count, 4);
    assert_false(now.more);
}

static void test_present_addresses_stay(void **state)
{
    host_has("fe80::1", 2);
    host_has("fe80::2", 3);
    host_has("fe80::3", 4);
    choose();
    count = 0;
    host_has("10.0.0.1", 2);
    host_has("10.0.0.2", 2);
    host_has("fe80::3", 4);
    host_has("fe80::1", 2);
    choose();
    check("fe80::1%2 fe80::3%4 10.0.0.1%2 10.0.0.2%2 ");
    host_has("10.0.0.3", 2);
    choose();
    assert_true(now.more);
    all[3] = all[4]; /* fe80::1 goes */
    count = 4;
    choose();
    check("fe80::3%4 10.0.0.1%2 10.0.0.2%2 10.0.0.3%2 ");
    assert_false(now.more);
}

static void test_one_address_of_several_interfaces(void **state)
{
    host_has("fe80::1", 3);
    host_has("fe80::1", 2);
    host_has("fe80::1", 4);
    choose();
    check("fe80::1%3 ");
    all[0].ifindex = 2; /* the kernel lists them in another order */
    all[1].ifindex = 3;
    choose();
    check("fe80::1%3 ");
    all[1].ifindex = 2;
    all[0].ifindex = 5;
    choose();
    check("fe80::1%5 ");
    count = 0;
    choose();
    check("");
}

static void test_more_than_any_table(void **state)
{
    char text[46];

    limit.room = GID_TABLE_MAX;
    for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
        snprintf(text, sizeof(text), "10.0.%u.1", i);
        host_has(text, 2);
    }
    choose();
    assert_int_equal(now.count, GID_TABLE_MAX);
    assert_true(now.more);
    choose();
    assert_int_equal(now.count, GID_TABLE_MAX);
    assert_int_equal(host_addresses_interface(&now, &all[GID_TABLE_MAX - 1].addr), 2);
    assert_int_equal(host_addresses_interface(&now, &all[GID_TABLE_MAX].addr), 0);
}

static void test_no_room_at_all(void **state)
{
    limit.room = 0;
    choose();
    assert_false(now.more);
    host_has("10.0.0.1", 2);
    choose();
    check("");
    assert_true(now.more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_own_addresses_are_no_others, setup),
        cmocka_unit_test_setup(test_own_address_in_a_vlan_is_another, setup),
        cmocka_unit_test_setup(test_best_are_first, setup),
        cmocka_unit_test_setup(test_outside, setup),
        cmocka_unit_test_setup(test_as_many_as_fit, setup),
        cmocka_unit_test_setup(test_present_addresses_stay, setup),
        cmocka_unit_test_setup(test_one_address_of_several_interfaces, setup),
        cmocka_unit_test_setup(test_more_than_any_table, setup),
        cmocka_unit_test_setup(test_no_room_at_all, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
