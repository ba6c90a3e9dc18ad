/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, the table of ids, attributes. */
#include <arpa/inet.h>

#include "cma.h"
#include "common.h"
#include "unit.h"

/* ---- addresses ---- */

static void test_ipv4(void **state)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(0x1234)};
    static const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1};
    struct sockaddr_storage back;
    struct ctl_cm_addr addr;

    inet_pton(AF_INET, "192.0.2.1", &sin.sin_addr);
    assert_int_equal(addr_to_ctl(&addr, (struct sockaddr *)&sin), 0);
    assert_int_equal(addr.family, AF_INET);
    assert_int_equal(addr.number, 0x1234);
    assert_memory_equal(addr.gid, gid, sizeof(gid));
    memset(&back, 0xff, sizeof(back));
    addr_from_ctl(&back, &addr);
    assert_memory_equal(&back, &sin, sizeof(sin));
    assert_int_equal(addr_len((struct sockaddr *)&back), sizeof(sin));
}

static void test_ipv6(void **state)
{
    struct sockaddr_in6 sin6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_scope_id = 3};
    struct sockaddr_storage back;
    struct ctl_cm_addr addr;

    inet_pton(AF_INET6, "fe80::1234", &sin6.sin6_addr);
    assert_int_equal(addr_to_ctl(&addr, (struct sockaddr *)&sin6), 0);
    assert_int_equal(addr.family, AF_INET6);
    assert_int_equal(addr.scope, 3);
    assert_memory_equal(addr.gid, &sin6.sin6_addr, 16);
    addr_from_ctl(&back, &addr);
    assert_memory_equal(&back, &sin6, sizeof(sin6));
    assert_int_equal(addr_len((struct sockaddr *)&back), sizeof(sin6));
}

static void test_no_address(void **state)
{
    static const struct ctl_cm_addr none;
    static const sa_family_t families[] = {AF_UNSPEC, AF_UNIX, AF_INET6 + 1};
    struct sockaddr other = {.sa_family = AF_IB};
    struct sockaddr_storage back, zeros = {0};
    struct ctl_cm_addr addr;

    assert_int_equal(addr_to_ctl(&addr, NULL), 0);
    assert_memory_equal(&addr, &none, sizeof(none));
    assert_int_equal(addr_to_ctl(&addr, &other), -ENODEV);
    for (unsigned i = 0; i < ARRAY_SIZE(families); i++) {
        other.sa_family = families[i];
        assert_int_equal(addr_to_ctl(&addr, &other), -EINVAL);
    }
    memset(&back, 0xff, sizeof(back));
    addr_from_ctl(&back, &none);
    assert_memory_equal(&back, &zeros, sizeof(zeros));
    assert_int_equal(addr_len(&other), 0);
}

/* ---- the table ---- */

static void count(void *arg, struct cma_entry *e)
{
    ++*(unsigned *)arg;
}

static void test_table(void **state)
{
    static struct cma_table table;
    struct cma_entry a = {.handle = 5, .cookie = 9};
    struct cma_entry b = {.handle = 5 + CMA_TABLE_BUCKETS, .cookie = 9 + CMA_TABLE_BUCKETS};
    struct cma_entry c = {.handle = 6}; /* the daemon's */
    unsigned n = 0;

    cma_table_remove(&a);
    cma_table_add(&table, &a);
    cma_table_add(&table, &b);
    cma_table_add(&table, &c);
    assert_ptr_equal(cma_table_of_handle(&table, a.handle), &a);
    assert_ptr_equal(cma_table_of_handle(&table, b.handle), &b);
    assert_ptr_equal(cma_table_of_handle(&table, c.handle), &c);
    assert_null(cma_table_of_handle(&table, 7));
    assert_ptr_equal(cma_table_of_cookie(&table, a.cookie), &a);
    assert_ptr_equal(cma_table_of_cookie(&table, b.cookie), &b);
    assert_null(cma_table_of_cookie(&table, 0));
    cma_table_each(&table, count, &n);
    assert_int_equal(n, 3);
    cma_table_remove(&a);
    cma_table_remove(&a);
    cma_table_remove(&c);
    assert_null(cma_table_of_handle(&table, a.handle));
    assert_null(cma_table_of_cookie(&table, a.cookie));
    assert_null(cma_table_of_handle(&table, c.handle));
    assert_ptr_equal(cma_table_of_cookie(&table, b.cookie), &b);
}

/* ---- attributes ---- */

static void test_attributes(void **state)
{
    struct qp_attr from = {.state = IBV_QPS_RTR,
                           .cur_state = IBV_QPS_INIT,
                           .path_mtu = 3,
                           .qkey = 4,
                           .rq_psn = 5,
                           .sq_psn = 6,
                           .dest_qpn = 7,
                           .access_flags = 8,
                           .ah = {.flow_label = 9,
                                  .sgid_index = 10,
                                  .hop_limit = 11,
                                  .traffic_class = 12,
                                  .sl = 13,
                                  .port_num = 14,
                                  .is_global = 1,
                                  .static_rate = 15},
                           .pkey_index = 16,
                           .max_rd_atomic = 17,
                           .max_dest_rd_atomic = 18,
                           .min_rnr_timer = 19,
                           .port_num = 20,
                           .timeout = 21,
                           .retry_cnt = 22,
                           .rnr_retry = 23,
                           .path_mig_state = 2};
    struct ibv_qp_attr to;

    from.ah.dgid[0] = 24;
    memset(&to, 0xff, sizeof(to));
    qp_attr_from_ctl(&to, &from);
    assert_int_equal(to.qp_state, IBV_QPS_RTR);
    assert_int_equal(to.cur_qp_state, IBV_QPS_INIT);
    assert_int_equal(to.path_mtu, 3);
    assert_int_equal(to.qkey, 4);
    assert_int_equal(to.rq_psn, 5);
    assert_int_equal(to.sq_psn, 6);
    assert_int_equal(to.dest_qp_num, 7);
    assert_int_equal(to.qp_access_flags, 8);
    assert_int_equal(to.ah_attr.grh.flow_label, 9);
    assert_int_equal(to.ah_attr.grh.sgid_index, 10);
    assert_int_equal(to.ah_attr.grh.hop_limit, 11);
    assert_int_equal(to.ah_attr.grh.traffic_class, 12);
    assert_int_equal(to.ah_attr.sl, 13);
    assert_int_equal(to.ah_attr.port_num, 14);
    assert_int_equal(to.ah_attr.is_global, 1);
    assert_int_equal(to.ah_attr.static_rate, 15);
    assert_int_equal(to.ah_attr.grh.dgid.raw[0], 24);
    assert_int_equal(to.ah_attr.dlid, 0);
    assert_int_equal(to.pkey_index, 16);
    assert_int_equal(to.max_rd_atomic, 17);
    assert_int_equal(to.max_dest_rd_atomic, 18);
    assert_int_equal(to.min_rnr_timer, 19);
    assert_int_equal(to.port_num, 20);
    assert_int_equal(to.timeout, 21);
    assert_int_equal(to.retry_cnt, 22);
    assert_int_equal(to.rnr_retry, 23);
    assert_int_equal(to.path_mig_state, 2);
    assert_int_equal(to.alt_port_num, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipv4),       cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_no_address), cmocka_unit_test(test_table),
        cmocka_unit_test(test_attributes),
    };

    return cmocka_run_group_tests_name("rdmacm_parts", tests, NULL, NULL);
}
