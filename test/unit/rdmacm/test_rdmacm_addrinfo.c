/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_getaddrinfo, by numbers: no name server. */
#include <arpa/inet.h>
#include <netdb.h>

#include "cma.h"
#include "unit.h"

static struct rdma_addrinfo *res;

static int teardown(void **state)
{
    rdma_freeaddrinfo(res);
    res = NULL;
    return 0;
}

static const struct sockaddr_in *ipv4(const struct sockaddr *addr)
{
    assert_non_null(addr);
    assert_int_equal(addr->sa_family, AF_INET);
    return (const void *)addr;
}

static void test_active(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};

    assert_int_equal(rdma_getaddrinfo("192.0.2.7", "7471", &hints, &res), 0);
    assert_int_equal(res->ai_family, AF_INET);
    assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
    assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
    assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in));
    assert_int_equal(ipv4(res->ai_dst_addr)->sin_port, htons(7471));
    assert_int_equal(ipv4(res->ai_dst_addr)->sin_addr.s_addr, inet_addr("192.0.2.7"));
    assert_null(res->ai_src_addr);
    assert_int_equal(res->ai_src_len, 0);
    assert_int_equal(res->ai_route_len, 0);
    assert_int_equal(res->ai_connect_len, 0);
    assert_null(res->ai_next);
}

static void test_passive(void **state)
{
    struct rdma_addrinfo hints = {
        .ai_flags = RAI_PASSIVE | RAI_FAMILY, .ai_family = AF_INET, .ai_port_space = RDMA_PS_UDP};

    assert_int_equal(rdma_getaddrinfo(NULL, "7", &hints, &res), 0);
    assert_int_equal(res->ai_flags & RAI_PASSIVE, RAI_PASSIVE);
    assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
    assert_int_equal(ipv4(res->ai_src_addr)->sin_port, htons(7));
    assert_int_equal(ipv4(res->ai_src_addr)->sin_addr.s_addr, 0);
    assert_int_equal(res->ai_dst_len, 0);
    assert_null(res->ai_dst_addr);
}

static void test_ipv6(void **state)
{
    assert_int_equal(rdma_getaddrinfo("2001:db8::1", "1", NULL, &res), 0);
    assert_int_equal(res->ai_family, AF_INET6);
    assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in6));
    assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
}

/* Programs name the family without RAI_FAMILY, which the manual page asks for. */
static void test_family(void **state)
{
    static const int family[] = {AF_INET, AF_INET6};

    for (unsigned i = 0; i < 2; i++) {
        struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_family = family[i]};

        assert_int_equal(rdma_getaddrinfo(NULL, "7", &hints, &res), 0);
        assert_int_equal(res->ai_family, family[i]);
        assert_int_equal(res->ai_src_addr->sa_family, family[i]);
        assert_null(res->ai_next);
        rdma_freeaddrinfo(res);
        res = NULL;
    }
}

/* A program can put a route and private data of its own into a result, which ends with it. */
static void test_own_route(void **state)
{
    assert_int_equal(rdma_getaddrinfo("192.0.2.7", "1", NULL, &res), 0);
    res->ai_route = malloc(8);
    res->ai_connect = malloc(8);
    assert_non_null(res->ai_route);
    assert_non_null(res->ai_connect);
}

/* Without names: the hints' addresses; with a source that the program wants. */
static void test_hints(void **state)
{
    struct sockaddr_in src = {.sin_family = AF_INET, .sin_port = 1};
    struct sockaddr_in dst = {.sin_family = AF_INET, .sin_port = 2};
    struct rdma_addrinfo hints = {.ai_family = AF_INET,
                                  .ai_qp_type = IBV_QPT_UD,
                                  .ai_src_addr = (struct sockaddr *)&src,
                                  .ai_src_len = sizeof(src),
                                  .ai_dst_addr = (struct sockaddr *)&dst,
                                  .ai_dst_len = sizeof(dst)};

    assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
    assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
    assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
    assert_memory_equal(res->ai_dst_addr, &dst, sizeof(dst));
    rdma_freeaddrinfo(res);
    res = NULL;
    assert_int_equal(rdma_getaddrinfo("192.0.2.7", NULL, &hints, &res), 0);
    assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
    assert_int_equal(ipv4(res->ai_dst_addr)->sin_addr.s_addr, inet_addr("192.0.2.7"));
}

/* A service has its number by what the port space carries. */
static void test_datagram_service(void **state)
{
    static const int space[] = {RDMA_PS_UDP, RDMA_PS_IPOIB};

    if (!getservbyname("tftp", "udp") || getservbyname("tftp", "tcp"))
        skip();
    for (unsigned i = 0; i < 2; i++) {
        struct rdma_addrinfo hints = {.ai_port_space = space[i]};

        assert_int_equal(rdma_getaddrinfo("192.0.2.7", "tftp", &hints, &res), 0);
        assert_int_equal(ipv4(res->ai_dst_addr)->sin_port, htons(69));
        rdma_freeaddrinfo(res);
        res = NULL;
        hints.ai_port_space = RDMA_PS_TCP;
        assert_int_equal(rdma_getaddrinfo("192.0.2.7", "tftp", &hints, &res), EAI_SERVICE);
    }
}

static int fails(const char *node, struct rdma_addrinfo hints)
{
    int err = rdma_getaddrinfo(node, "1", &hints, &res);

    assert_null(res);
    return err;
}

static void test_refused(void **state)
{
    assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fails("x", (struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST}), EAI_NONAME);
    assert_int_equal(fails("::1", (struct rdma_addrinfo){.ai_flags = 0x4000}), EAI_BADFLAGS);
    assert_int_equal(fails("::1", (struct rdma_addrinfo){.ai_flags = RAI_FAMILY, .ai_family = 27}),
                     EAI_FAMILY);
    assert_int_equal(fails("::1", (struct rdma_addrinfo){.ai_port_space = RDMA_PS_TCP,
                                                         .ai_qp_type = IBV_QPT_UD}),
                     EAI_SOCKTYPE);
    assert_int_equal(fails("::1", (struct rdma_addrinfo){.ai_port_space = RDMA_PS_UDP,
                                                         .ai_qp_type = IBV_QPT_RC}),
                     EAI_SOCKTYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_active, teardown),
        cmocka_unit_test_teardown(test_passive, teardown),
        cmocka_unit_test_teardown(test_ipv6, teardown),
        cmocka_unit_test_teardown(test_family, teardown),
        cmocka_unit_test_teardown(test_own_route, teardown),
        cmocka_unit_test_teardown(test_hints, teardown),
        cmocka_unit_test_teardown(test_datagram_service, teardown),
        cmocka_unit_test_teardown(test_refused, teardown),
    };

    return cmocka_run_group_tests_name("rdmacm_addrinfo", tests, NULL, NULL);
}
