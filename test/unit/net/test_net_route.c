/* SPDX-License-Identifier: BSD-3-Clause */
/* Where packets go: routes, gateways, own addresses, groups; path MTUs that routers report. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "frame_layout.h"
#include "net_kit.h"
#include "unit.h"

static struct net_kit *router_kit(void)
{
    struct net_kit *k = net_kit_new(1, false);

    net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_address(k, 0, "10.0.0.9/24", VLAN_NONE);
    net_kit_address(k, 0, "10.5.0.1/16", 5);
    net_kit_address(k, 0, "fd00::1/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    return k;
}

static int route(struct net_kit *k, const char *dst, uint8_t prefix, const char *via, uint16_t vlan)
{
    struct net_route r = {.dst = gid_of(dst), .via = gid_of(via), .prefix = prefix, .vlan = vlan};

    return net_host_add_route(k->node[0].h, &r);
}

/* The next hop that is resolved on the route to dst, or "" and the error. */
static void check_hop(struct net_kit *k, const char *src, const char *dst, uint16_t vlan,
                      const char *hop)
{
    union gid expected;
    int err = net_kit_resolve(k, 0, src, dst, vlan);

    if (!hop) {
        assert_int_equal(err, -ENETUNREACH);
        return;
    }
    assert_int_equal(err, -EINPROGRESS);
    expected = gid_of(hop);
    assert_true(gid_eq(&net_kit_path.next_hop, &expected));
    assert_int_equal(net_kit_state(k, 0, hop, vlan), NET_INCOMPLETE);
}

static void test_longest_prefix(void **state)
{
    struct net_kit *k = router_kit();

    check_hop(k, "10.0.0.1", "10.0.0.2", VLAN_NONE, "10.0.0.2");
    check_hop(k, "10.0.0.1", "10.1.0.2", VLAN_NONE, NULL);
    check_hop(k, "10.5.0.1", "10.5.7.7", 5, "10.5.7.7");
    check_hop(k, "10.0.0.1", "10.5.7.7", VLAN_NONE, NULL);
    check_hop(k, "fd00::1", "fd01::2", VLAN_NONE, NULL);
    assert_int_equal(route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.1.99.99", 16, "10.0.0.253", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.1.2.0", 24, "10.0.0.252", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.1.2.3", 32, "10.0.0.251", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.0.0.128", 25, "10.0.0.3", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.0.0.0", 24, "10.0.0.4", VLAN_NONE), 0);
    assert_int_equal(route(k, "::", 0, "fe80::ff", VLAN_NONE), 0);
    check_hop(k, "10.0.0.1", "8.8.8.8", VLAN_NONE, "10.0.0.254");
    check_hop(k, "10.0.0.1", "10.1.9.9", VLAN_NONE, "10.0.0.253");
    check_hop(k, "10.0.0.1", "10.1.2.9", VLAN_NONE, "10.0.0.252");
    check_hop(k, "10.0.0.1", "10.1.2.3", VLAN_NONE, "10.0.0.251");
    check_hop(k, "10.0.0.1", "10.0.0.5", VLAN_NONE, "10.0.0.5"); /* connected comes first */
    check_hop(k, "10.0.0.1", "10.0.0.129", VLAN_NONE, "10.0.0.3");
    check_hop(k, "fd00::1", "2001:db8::1", VLAN_NONE, "fe80::ff");
    check_hop(k, "fd00::1", "fd00::77", VLAN_NONE, "fd00::77");
    check_hop(k, "10.5.0.1", "8.8.8.8", 5, NULL); /* of another VLAN */
    net_kit_free(k);
}

/* RFC 1122 3.2.1.3 (g), RFC 4291 2.5.3: addresses of the host itself are behind no router. */
static void test_loopback_is_not_routed(void **state)
{
    struct net_kit *k = router_kit();

    assert_int_equal(route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE), 0);
    assert_int_equal(route(k, "::", 0, "fe80::ff", VLAN_NONE), 0);
    check_hop(k, "10.0.0.1", "127.0.0.1", VLAN_NONE, NULL);
    check_hop(k, "10.0.0.1", "127.9.9.9", VLAN_NONE, NULL);
    check_hop(k, "fd00::1", "::1", VLAN_NONE, NULL);
    check_hop(k, "fd00::1", "::2", VLAN_NONE, "fe80::ff");
    check_hop(k, "10.0.0.1", "128.0.0.1", VLAN_NONE, "10.0.0.254");
    net_kit_address(k, 0, "127.0.0.5/8", VLAN_NONE); /* a network of them is one, for tests */
    check_hop(k, "127.0.0.5", "127.9.9.9", VLAN_NONE, "127.9.9.9");
    net_kit_free(k);
}

/* A path says how long the prefix is that fits, as of an IPv6 address, unless the route is for
 * packets that have a source already. */
static void test_bits_of_a_path(void **state)
{
    struct net_kit *k = router_kit();
    union gid set = gid_of("10.0.0.5");
    static const struct {
        const char *src, *dst;
        uint8_t bits;
    } cases[] = {
        {"10.0.0.1", "8.8.8.8", 96},       {"10.0.0.1", "10.1.9.9", 96 + 16},
        {"10.0.0.1", "10.0.0.5", 96 + 24}, {"10.0.0.1", "10.0.0.9", 128},
        {"fd00::1", "fd01::1", 0},         {"fd00::1", "fe80::1", 64},
        {"10.0.0.1", "10.2.9.9", 0},
    };
    struct net_route by_source = {.dst = gid_of("10.2.0.0"),
                                  .via = gid_of("10.0.0.252"),
                                  .prefix = 16,
                                  .by_source = true,
                                  .vlan = VLAN_NONE};

    assert_int_equal(route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.1.0.0", 16, "10.0.0.253", VLAN_NONE), 0);
    assert_int_equal(route(k, "::", 0, "fe80::ff", VLAN_NONE), 0);
    assert_int_equal(net_host_add_route(k->node[0].h, &by_source), 0);
    check_hop(k, "10.0.0.1", "10.2.9.9", VLAN_NONE, "10.0.0.252");
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        net_kit_resolve(k, 0, cases[i].src, cases[i].dst, VLAN_NONE);
        assert_int_equal(net_kit_path.bits, cases[i].bits);
    }
    /* A static neighbour is in every VLAN, and says of no network. */
    assert_int_equal(net_host_add_neighbour(k->node[0].h, &set, VLAN_NONE, net_other), 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.5", VLAN_NONE), 0);
    assert_int_equal(net_kit_path.bits, 96 + 24);
    assert_int_equal(net_kit_resolve(k, 0, "10.5.0.1", "10.0.0.5", 5), 0);
    assert_int_equal(net_kit_path.bits, 0);
    net_kit_free(k);
}

/* A host with one neighbour: no route is looked up and nothing is asked; its own addresses, static
 * neighbours and path MTUs count all the same. */
static void test_router_only(void **state)
{
    static const uint8_t router[6] = {2, 0, 0, 0, 0, 0xFE}, other[6] = {2, 0, 0, 0, 0, 0xAA};
    struct net_host_config config = {.mtu = 1500};
    struct net_kit *k;
    union gid far = gid_of("198.51.100.7"), set = gid_of("198.51.100.8");

    memcpy(config.router, router, 6);
    k = net_kit_make(1, &config);
    net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    assert_int_equal(net_host_add_neighbour(k->node[0].h, &set, VLAN_NONE, other), 0);
    net_host_learn_pmtu(k->node[0].h, &far, VLAN_NONE, 1280, k->now);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "198.51.100.7", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, router, 6);
    assert_int_equal(net_kit_path.bits, 0);
    assert_int_equal(net_kit_path.mtu, 1280);
    assert_true(gid_eq(&net_kit_path.next_hop, &far));
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, router, 6);
    assert_int_equal(net_kit_path.mtu, 1500);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "198.51.100.8", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, other, 6);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.1", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, k->node[0].mac, 6);
    net_kit_settle(k);
    assert_int_equal(k->sent, 0);
    net_kit_free(k);
}

/* A static neighbour needs no route. */
static void test_static_neighbour(void **state)
{
    struct net_kit *k = router_kit();
    union gid far = gid_of("172.16.0.9");

    check_hop(k, "10.0.0.1", "172.16.0.9", VLAN_NONE, NULL);
    assert_int_equal(net_host_add_neighbour(k->node[0].h, &far, VLAN_NONE, net_other), 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "172.16.0.9", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, net_other, 6);
    assert_true(gid_eq(&net_kit_path.next_hop, &far));
    assert_int_equal(net_kit_path.mtu, 1500);
    assert_int_equal(k->sent, 0);
    net_kit_free(k);
}

static void test_special_destinations(void **state)
{
    static const uint8_t all_hosts[6] = {1, 0, 0x5E, 0, 0, 9},
                         v6_group[6] = {0x33, 0x33, 1, 2, 3, 4};
    struct net_kit *k = router_kit();

    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.9", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, k->node[0].mac, 6);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.1", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, k->node[0].mac, 6);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.5.0.1", VLAN_NONE), -ENETUNREACH);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "239.128.0.9", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, all_hosts, 6);
    assert_int_equal(net_kit_resolve(k, 0, "fd00::1", "ff0e::102:304", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, v6_group, 6);
    assert_int_equal(net_kit_path.mtu, 1500);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "fd00::2", VLAN_NONE), -EINVAL);
    assert_int_equal(net_kit_resolve(k, 0, "fd00::1", "10.0.0.2", VLAN_NONE), -EINVAL);
    assert_int_equal(net_kit_resolve(k, 0, "fd00::1", "224.0.0.9", VLAN_NONE), -EINVAL);
    assert_int_equal(route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE), 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "0.0.0.0", VLAN_NONE), -ENETUNREACH);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "255.255.255.255", VLAN_NONE), -ENETUNREACH);
    assert_int_equal(net_kit_resolve(k, 0, "fd00::1", "::", VLAN_NONE), -ENETUNREACH);
    assert_int_equal(k->sent, 0);
    check_hop(k, "fd00::1", "fe80::2", VLAN_NONE, "fe80::2");
    check_hop(k, "10.0.0.1", "169.254.3.4", VLAN_NONE, "169.254.3.4");
    check_hop(k, "fe80::1", "fe80::2", 5, "fe80::2");
    net_kit_free(k);
}

static void test_refused(void **state)
{
    static const struct {
        const char *dst, *via;
        uint8_t prefix;
        uint16_t vlan;
        int err;
    } cases[] = {
        {"10.1.0.0", "10.0.0.2", 16, VLAN_NONE, 0},
        {"10.1.0.0", "10.0.0.3", 16, VLAN_NONE, -EEXIST},
        {"10.1.5.5", "10.0.0.2", 16, VLAN_NONE, -EEXIST},
        {"10.1.0.0", "10.5.0.2", 16, 5, 0},
        {"10.1.0.0", "10.0.0.2", 33, VLAN_NONE, -EINVAL},
        {"10.2.0.0", "10.7.0.2", 16, VLAN_NONE, -EINVAL},
        {"10.2.0.0", "10.0.0.2", 16, 5, -EINVAL},
        {"10.2.0.0", "10.0.0.2", 16, 0, -EINVAL},
        {"10.2.0.0", "10.0.0.1", 16, VLAN_NONE, -EINVAL},
        {"10.2.0.0", "fd00::2", 16, VLAN_NONE, -EINVAL},
        {"fd01::", "10.0.0.2", 16, VLAN_NONE, -EINVAL},
        {"fd01::", "fd00::2", 129, VLAN_NONE, -EINVAL},
        {"224.0.0.0", "10.0.0.2", 4, VLAN_NONE, -EINVAL},
        {"10.2.0.0", "::", 16, VLAN_NONE, -EINVAL},
        {"fd01::", "0.0.0.0", 16, VLAN_NONE, -EINVAL},
        {"224.0.0.0", "0.0.0.0", 4, VLAN_NONE, -EINVAL},
        {"10.2.0.0", "224.0.0.5", 16, VLAN_NONE, -EINVAL},
    };
    struct net_kit *k = router_kit();
    struct net_route r = {.dst = gid_of("10.1.77.0"), .via = gid_of("10.0.0.3"), 16, VLAN_NONE};
    char text[32];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(route(k, cases[i].dst, cases[i].prefix, cases[i].via, cases[i].vlan),
                         cases[i].err);
    assert_int_equal(net_host_remove_route(k->node[0].h, &r), -ENOENT);
    r.via = gid_of("10.0.0.2");
    assert_int_equal(net_host_remove_route(k->node[0].h, &r), 0);
    assert_int_equal(net_host_remove_route(k->node[0].h, &r), -ENOENT);
    r.prefix = 200;
    assert_int_equal(net_host_remove_route(k->node[0].h, &r), -ENOENT);
    for (unsigned i = 1; i < NET_ROUTE_MAX; i++) {
        snprintf(text, sizeof(text), "10.9.%u.0", i);
        assert_int_equal(route(k, text, 24, "10.0.0.2", VLAN_NONE), 0);
    }
    assert_int_equal(route(k, "10.8.0.0", 24, "10.0.0.2", VLAN_NONE), -ENOSPC);
    net_kit_free(k);
}

/* A host whose address is alone in its network: its gateway is on the link by a route that says so.
 */
static void test_on_the_link(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    struct net_route link = {
        .dst = gid_of("10.9.0.254"), .via = gid_of("0.0.0.0"), .prefix = 32, .vlan = VLAN_NONE};

    net_kit_address(k, 0, "10.0.0.1/32", VLAN_NONE);
    net_kit_address(k, 0, "fd00::1/128", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    assert_int_equal(route(k, "0.0.0.0", 0, "10.9.0.254", VLAN_NONE), -EINVAL);
    assert_int_equal(net_host_add_route(k->node[0].h, &link), 0);
    assert_int_equal(net_host_add_route(k->node[0].h, &link), -EEXIST);
    assert_int_equal(route(k, "0.0.0.0", 0, "10.9.0.254", VLAN_NONE), 0);
    assert_int_equal(route(k, "0.0.0.0", 0, "10.9.0.254", 5), -EINVAL);
    assert_int_equal(route(k, "fd01::", 64, "::", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.1.0.0", 16, "0.0.0.0", VLAN_NONE), 0);
    assert_int_equal(route(k, "10.1.2.0", 24, "10.9.0.254", VLAN_NONE), 0);
    check_hop(k, "10.0.0.1", "10.9.0.254", VLAN_NONE, "10.9.0.254");
    check_hop(k, "10.0.0.1", "10.1.9.9", VLAN_NONE, "10.1.9.9");
    check_hop(k, "10.0.0.1", "10.1.2.9", VLAN_NONE, "10.9.0.254");
    check_hop(k, "10.0.0.1", "8.8.8.8", VLAN_NONE, "10.9.0.254");
    check_hop(k, "fd00::1", "fd01::9", VLAN_NONE, "fd01::9");
    check_hop(k, "fd00::1", "fd02::9", VLAN_NONE, NULL);
    assert_int_equal(net_host_remove_route(k->node[0].h, &link), 0);
    check_hop(k, "10.0.0.1", "8.8.4.4", VLAN_NONE, NULL);
    net_kit_free(k);
}

/* A route is skipped when its gateway is unreachable. */
static void test_gateway_gone(void **state)
{
    struct net_kit *k = router_kit();
    union gid first = gid_of("10.0.0.1"), second = gid_of("10.0.0.9");

    assert_int_equal(route(k, "10.1.0.0", 16, "10.0.0.254", VLAN_NONE), 0);
    net_host_remove_address(k->node[0].h, &first, VLAN_NONE);
    check_hop(k, "10.0.0.9", "10.1.0.2", VLAN_NONE, "10.0.0.254");
    net_host_remove_address(k->node[0].h, &second, VLAN_NONE);
    check_hop(k, "10.0.0.9", "10.1.0.2", VLAN_NONE, NULL);
    net_kit_free(k);
}

struct seen {
    unsigned connected, others;
    bool v4, v5, v6;
};

static void see(void *ctx, const struct net_route *r, bool connected)
{
    struct seen *s = ctx;
    union gid v4 = gid_of("10.0.0.0"), v5 = gid_of("10.5.0.0"), v6 = gid_of("fd00::");

    s->connected += connected;
    s->others += !connected;
    s->v4 |= gid_eq(&r->dst, &v4) && r->prefix == 24 && r->vlan == VLAN_NONE;
    s->v5 |= gid_eq(&r->dst, &v5) && r->prefix == 16 && r->vlan == 5;
    s->v6 |= gid_eq(&r->dst, &v6) && r->prefix == 64 && gid_is_zero(&r->via);
}

static void test_each_route(void **state)
{
    struct net_kit *k = router_kit();
    struct seen s = {0};

    route(k, "10.1.0.0", 16, "10.0.0.2", VLAN_NONE);
    net_host_each_route(k->node[0].h, &s, see);
    assert_int_equal(s.connected, 3); /* two addresses are in one network */
    assert_int_equal(s.others, 1);
    assert_true(s.v4 && s.v5 && s.v6);
    net_kit_free(k);
}

/* ---- path MTUs ---- */

struct quote {
    const char *from, *to, *src, *dst; /* the message's, and the quoted packet's */
    uint32_t mtu;
    uint16_t total; /* of the quoted packet */
    uint8_t proto;  /* 0: UDP */
    uint16_t port;  /* 0: RoCE's */
    uint8_t code;
    uint16_t fragment;
    uint8_t len; /* of the quoted bytes; 0: enough */
};

static struct net_frame too_big(const struct quote *q)
{
    bool ipv4 = strchr(q->to, '.');
    union gid src = gid_of(q->src), dst = gid_of(q->dst);
    struct inet_tx tx = {.dmac = {2, 0, 0, 0, 0, 1},
                         .vlan = VLAN_NONE,
                         .src = gid_of(q->from),
                         .dst = gid_of(q->to),
                         .proto = ipv4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6,
                         .hop_limit = 60};
    uint8_t message[80] = {0}, *ip = message + 8;

    message[0] = ipv4 ? 3 : 2;
    message[1] = q->code;
    if (ipv4) {
        put_be16(message + 6, (uint16_t)q->mtu);
        ip[0] = 0x45;
        put_be16(ip + IPV4_TOTAL_OFF, q->total);
        put_be16(ip + IPV4_FRAGMENT_OFF, q->fragment);
        ip[IPV4_PROTO_OFF] = q->proto ? q->proto : IP_PROTO_UDP;
        memcpy(ip + IPV4_SRC_OFF, src.raw + 12, 4);
        memcpy(ip + IPV4_DST_OFF, dst.raw + 12, 4);
        put_be16(ip + IPV4_LEN + UDP_DPORT_OFF, q->port ? q->port : 4791);
    } else {
        put_be32(message + 4, q->mtu);
        ip[0] = 0x60;
        ip[IPV6_NEXT_OFF] = q->proto ? q->proto : IP_PROTO_UDP;
        memcpy(ip + IPV6_SRC_OFF, src.raw, 16);
        memcpy(ip + IPV6_DST_OFF, dst.raw, 16);
        put_be16(ip + IPV6_LEN + UDP_DPORT_OFF, q->port ? q->port : 4791);
    }
    return net_packet(net_peer, &tx, message, 8u + (q->len ? q->len : ipv4 ? 28 : 48));
}

static void count_pmtu(void *ctx, const union gid *dst, uint16_t vlan, uint32_t mtu)
{
    (*(unsigned *)ctx)++;
}

static unsigned pmtus(struct net_kit *k)
{
    unsigned n = 0;

    net_host_each_pmtu(k->node[0].h, &n, count_pmtu);
    return n;
}

#define V4 "10.0.0.254", "10.0.0.1", "10.0.0.1", "10.1.0.2"
#define V6 "fd00::ff", "fd00::1", "fd00::1", "fd01::2"

static void test_too_big(void **state)
{
    static const struct {
        struct quote q;
        uint32_t mtu; /* 1500: nothing is learned */
    } cases[] = {
        {{V4, 1400, .code = 4}, 1400},
        {{V4, 576, .code = 4}, 576},
        {{V4, 575, .code = 4}, 576},
        {{V4, 68, .code = 4}, 576},
        {{V4, 1, .code = 4}, 576},
        {{V4, 1500, .code = 4}, 1500},
        {{V4, 9000, .code = 4}, 1500},
        {{V4, 0, 1500, .code = 4}, 1492}, /* a router that does not know RFC 1191 */
        {{V4, 0, 1492, .code = 4}, 1006},
        {{V4, 0, 1006, .code = 4}, 576},
        {{V4, 0, 65000, .code = 4}, 1492},
        {{V4, 0, 0, .code = 4}, 576},
        {{V4, 1400, .code = 3}, 1500},
        {{V4, 1400, .code = 4, .proto = 6}, 1500},
        {{V4, 1400, .code = 4, .port = 4790}, 1500},
        {{V4, 1400, .code = 4, .fragment = 1}, 1500},
        {{V4, 1400, .code = 4, .fragment = 0x4000}, 1400},
        {{V4, 1400, .code = 4, .len = 27}, 1500},
        {{"10.0.0.254", "10.0.0.1", "10.0.0.77", "10.1.0.2", 1400, .code = 4}, 1500},
        {{"10.0.0.254", "10.0.0.1", "10.0.0.9", "10.1.0.2", 1400, .code = 4}, 1500},
        {{"10.0.0.254", "10.0.0.77", "10.0.0.77", "10.1.0.2", 1400, .code = 4}, 1500},
        {{"10.0.0.254", "10.0.0.1", "10.0.0.1", "224.0.0.9", 1400, .code = 4}, 1500},
        {{V6, 1400}, 1400},
        {{V6, 1280}, 1280},
        {{V6, 1279}, 1500}, /* RFC 8201 4 */
        {{V6, 0}, 1500},
        {{V6, 1500}, 1500},
        {{V6, 0xFFFFFFFF}, 1500},
        {{V6, 1400, .proto = 44}, 1500},
        {{V6, 1400, .port = 1}, 1500},
        {{V6, 1400, .len = 47}, 1500},
        {{"fd00::ff", "fd00::1", "fd00::77", "fd01::2", 1400}, 1500},
        {{"fd00::ff", "fd00::77", "fd00::77", "fd01::2", 1400}, 1500},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct quote *q = &cases[i].q;
        struct net_kit *k = router_kit();
        struct net_frame f = too_big(q);
        bool ipv4 = strchr(q->to, '.'), learned = cases[i].mtu < 1500;

        route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE);
        route(k, "::", 0, "fd00::ff", VLAN_NONE);
        net_kit_rx(k, &f);
        net_kit_resolve(k, 0, ipv4 ? "10.0.0.1" : "fd00::1", q->dst, VLAN_NONE);
        assert_int_equal(net_kit_path.mtu, cases[i].mtu);
        assert_int_equal(pmtus(k), learned);
        assert_int_equal(net_kit_count(k)->malformed, 0);
        assert_int_equal(net_kit_count(k)->ignored, !learned && q->code != 3);
        assert_int_equal(net_kit_count(k)->unreachable_rx, q->code == 3);
        assert_int_equal(net_kit_count(k)->too_big_rx,
                         q->code != 3 && strcmp(q->to, "10.0.0.77") && strcmp(q->to, "fd00::77"));
        /* Other destinations are as they were, and the same address in another VLAN. */
        if (ipv4)
            route(k, "0.0.0.0", 0, "10.5.0.254", 5);
        net_kit_resolve(k, 0, ipv4 ? "10.5.0.1" : "fd00::1", q->dst, ipv4 ? 5 : 7);
        assert_int_equal(net_kit_path.mtu, 1500);
        net_kit_resolve(k, 0, ipv4 ? "10.0.0.1" : "fd00::1", ipv4 ? "10.1.0.3" : "fd01::3",
                        VLAN_NONE);
        assert_int_equal(net_kit_path.mtu, 1500);
        net_kit_free(k);
    }
}

static uint32_t mtu_now(struct net_kit *k)
{
    net_kit_resolve(k, 0, "10.0.0.1", "10.1.0.2", VLAN_NONE);
    return net_kit_path.mtu;
}

static void told(struct net_kit *k, uint32_t mtu)
{
    struct quote q = {V4, mtu, .code = 4};
    struct net_frame f = too_big(&q);

    net_kit_rx(k, &f);
}

/* Only ever lowered; forgotten ten minutes after it was last heard of. */
static void test_pmtu_lifetime(void **state)
{
    struct net_kit *k = router_kit();

    route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE);
    told(k, 1400);
    net_kit_run(k, 300 * SEC);
    told(k, 1450);
    assert_int_equal(mtu_now(k), 1400);
    told(k, 1000);
    assert_int_equal(mtu_now(k), 1000);
    net_kit_run(k, 599 * SEC);
    assert_int_equal(mtu_now(k), 1000);
    told(k, 1000);
    net_kit_run(k, 600 * SEC - 1);
    assert_int_equal(mtu_now(k), 1000);
    k->now++; /* before timers are run */
    assert_int_equal(mtu_now(k), 1500);
    assert_int_equal(pmtus(k), 1);
    net_kit_run(k, 0);
    assert_int_equal(pmtus(k), 0);
    told(k, 1450);
    assert_int_equal(mtu_now(k), 1450);
    net_kit_free(k);
}

/* Bounded; the oldest go first. */
static void test_pmtu_flood(void **state)
{
    struct net_kit *k = router_kit();
    char text[32];

    route(k, "0.0.0.0", 0, "10.0.0.254", VLAN_NONE);
    for (unsigned i = 0; i < 1000; i++) {
        struct quote q = {"10.0.0.254", "10.0.0.1", "10.0.0.1", text, 1400, .code = 4};
        struct net_frame f;

        snprintf(text, sizeof(text), "10.1.%u.%u", i / 250, 1 + i % 250);
        f = too_big(&q);
        net_kit_rx(k, &f);
        k->now++;
    }
    assert_int_equal(pmtus(k), 256);
    net_kit_resolve(k, 0, "10.0.0.1", "10.1.3.250", VLAN_NONE);
    assert_int_equal(net_kit_path.mtu, 1400);
    net_kit_resolve(k, 0, "10.0.0.1", "10.1.0.1", VLAN_NONE);
    assert_int_equal(net_kit_path.mtu, 1500);
    net_kit_run(k, 600 * SEC);
    assert_int_equal(pmtus(k), 0);
    net_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_prefix),   cmocka_unit_test(test_router_only),
        cmocka_unit_test(test_bits_of_a_path),   cmocka_unit_test(test_loopback_is_not_routed),
        cmocka_unit_test(test_static_neighbour), cmocka_unit_test(test_special_destinations),
        cmocka_unit_test(test_refused),          cmocka_unit_test(test_on_the_link),
        cmocka_unit_test(test_gateway_gone),     cmocka_unit_test(test_each_route),
        cmocka_unit_test(test_too_big),          cmocka_unit_test(test_pmtu_lifetime),
        cmocka_unit_test(test_pmtu_flood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
