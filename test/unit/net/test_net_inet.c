/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of control traffic: built, parsed, and every way to be malformed. */
#include <stdlib.h>
#include <string.h>

#include "frame_layout.h"
#include "net_kit.h"
#include "unit.h"

static struct inet_tx to_peer(bool ipv4, bool alert)
{
    struct inet_tx tx = {.vlan = VLAN_NONE,
                         .src = gid_of(ipv4 ? "10.0.0.1" : "fd00::1"),
                         .dst = gid_of(ipv4 ? "10.0.0.2" : "fd00::2"),
                         .proto = ipv4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6,
                         .hop_limit = 77,
                         .traffic_class = 0xB8,
                         .router_alert = alert};

    memcpy(tx.dmac, net_other, 6);
    return tx;
}

/* From a buffer of exactly that size. */
static enum inet_verdict parse(struct inet_rx *rx, const uint8_t *bytes, uint32_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    enum inet_verdict verdict;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    verdict = inet_ethernet(rx, copy, len);
    if (verdict == INET_OK)
        verdict = inet_ip(rx);
    free(copy);
    return verdict;
}

static void test_round_trip(void **state)
{
    static const uint16_t vlans[] = {VLAN_NONE, 1, 4094};
    uint8_t message[1500];

    for (unsigned i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)(i * 7);
    for (unsigned i = 0; i < 12; i++) {
        struct inet_tx tx = to_peer(i & 1, i & 2);
        uint32_t most = inet_message_room(&tx, 1500);

        tx.vlan = vlans[i / 4];
        for (uint32_t len = 8; len <= most; len = len == most ? most + 1 : min_of(len * 3, most)) {
            struct net_frame f = net_packet(net_peer, &tx, message, len);
            struct inet_rx r = net_parse(&f);

            assert_int_equal(r.vlan, tx.vlan);
            assert_memory_equal(r.dmac, net_other, 6);
            assert_memory_equal(r.smac, net_peer, 6);
            assert_true(gid_eq(&r.src, &tx.src) && gid_eq(&r.dst, &tx.dst));
            assert_int_equal(r.proto, tx.proto);
            assert_int_equal(r.hop_limit, 77);
            assert_int_equal(r.traffic_class, 0xB8);
            assert_int_equal(r.router_alert, tx.router_alert && !(i & 1));
            assert_int_equal(r.len, len);
            assert_memory_equal(r.data, message, 2);
            assert_memory_equal(r.data + 4, message + 4, len - 4);
        }
    }
}

static void test_too_long_to_build(void **state)
{
    uint8_t message[INET_FRAME_ROOM] = {0}, out[INET_FRAME_ROOM];

    for (unsigned i = 0; i < 4; i++) {
        struct inet_tx tx = to_peer(i & 1, i & 2);
        uint32_t most = inet_message_room(&tx, 65535);

        assert_int_equal(most, inet_message_room(&tx, NET_FRAME_MAX - 14));
        assert_int_equal(inet_message_room(&tx, 10), 0);
        assert_int_equal(inet_build(out, net_peer, &tx, message, most), NET_FRAME_MAX);
        assert_int_equal(inet_build(out, net_peer, &tx, message, most + 1), 0);
        assert_int_equal(inet_build(out, net_peer, &tx, message, 7), 0);
    }
}

/* A frame cut anywhere is malformed, and no byte behind its end is read (the sanitizers look). */
static void test_cut_short(void **state)
{
    uint8_t message[64] = {8};

    for (unsigned i = 0; i < 8; i++) {
        struct inet_tx tx = to_peer(i & 1, i & 2);
        struct net_frame f;
        struct inet_rx r;

        tx.vlan = i & 4 ? 5 : VLAN_NONE;
        f = net_packet(net_peer, &tx, message, sizeof(message));
        assert_int_equal(parse(&r, f.bytes, f.len), INET_OK);
        for (uint32_t len = 0; len < f.len; len++)
            assert_int_equal(parse(&r, f.bytes, len), INET_MALFORMED);
    }
}

static void test_longer_than_it_says(void **state)
{
    uint8_t message[64] = {8};

    for (unsigned ipv4 = 0; ipv4 < 2; ipv4++) {
        struct inet_tx tx = to_peer(ipv4, false);
        struct net_frame f = net_packet(net_peer, &tx, message, 64);
        struct inet_rx r;

        /* A frame check sequence that was left on. */
        assert_int_equal(parse(&r, f.bytes, f.len + 4), INET_OK);
        assert_int_equal(r.len, 64);
        assert_int_equal(parse(&r, f.bytes, f.len + 5), INET_MALFORMED);
    }
    /* Padding to the shortest frame. */
    {
        struct inet_tx tx = to_peer(true, false);
        struct net_frame f = net_packet(net_peer, &tx, message, 8);
        struct inet_rx r;

        assert_int_equal(f.len, 42);
        assert_int_equal(parse(&r, f.bytes, 60), INET_OK);
        assert_int_equal(r.len, 8);
        assert_int_equal(parse(&r, f.bytes, 64), INET_OK);
        assert_int_equal(parse(&r, f.bytes, 65), INET_MALFORMED);
    }
}

/* Every bit of the header and the message is covered by a check or has no effect. */
static void test_checksums(void **state)
{
    uint8_t message[20] = {8, 0, 0, 0, 1, 2, 3, 4, 5};

    for (unsigned ipv4 = 0; ipv4 < 2; ipv4++) {
        struct inet_tx tx = to_peer(ipv4, false);
        struct net_frame f = net_packet(net_peer, &tx, message, sizeof(message));
        uint32_t l4 = 14 + (ipv4 ? 20 : 40);
        struct inet_rx r;

        for (uint32_t at = ipv4 ? 14 : 14 + 8; at < f.len; at++) {
            f.bytes[at] ^= 0x10;
            assert_int_not_equal(parse(&r, f.bytes, f.len), INET_OK);
            f.bytes[at] ^= 0x10;
        }
        put_be16(f.bytes + l4 + 2, 0);
        assert_int_equal(parse(&r, f.bytes, f.len), INET_MALFORMED);
    }
}

static void mend_ipv4(uint8_t *ip)
{
    uint32_t sum = 0;

    put_be16(ip + IPV4_SUM_OFF, 0);
    for (unsigned i = 0; i < (ip[0] & 15u) * 4; i += 2)
        sum += get_be16(ip + i);
    put_be16(ip + IPV4_SUM_OFF, (uint16_t)~sum_fold(sum));
}

static void test_ipv4_headers(void **state)
{
    static const struct {
        uint8_t at;
        uint16_t value;
        enum inet_verdict verdict;
    } cases[] = {
        /* TTL and protocol are one value */
        {0, 0x5500, INET_MALFORMED},
        {0, 0x4400, INET_MALFORMED},
        {IPV4_TOTAL_OFF, 19, INET_MALFORMED},
        {IPV4_TOTAL_OFF, 27, INET_MALFORMED},
        {IPV4_TOTAL_OFF, 200, INET_MALFORMED},
        {IPV4_FRAGMENT_OFF, 0x2000, INET_IGNORED},
        {IPV4_FRAGMENT_OFF, 0x0001, INET_IGNORED},
        {IPV4_FRAGMENT_OFF, 0x4000, INET_OK},
        {IPV4_FRAGMENT_OFF, 0x0000, INET_OK},
        {IPV4_TTL_OFF, 0x4011, INET_IGNORED},
        {IPV4_TTL_OFF, 0x4006, INET_IGNORED},
        {IPV4_TTL_OFF, 0x4001, INET_OK},
        {IPV4_TTL_OFF, 0x4002, INET_OK},
    };
    uint8_t message[8] = {8};
    struct inet_tx tx = to_peer(true, false);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_frame f = net_packet(net_peer, &tx, message, sizeof(message));
        struct inet_rx r;

        put_be16(f.bytes + AT_IP + cases[i].at, cases[i].value);
        mend_ipv4(f.bytes + AT_IP);
        assert_int_equal(parse(&r, f.bytes, f.len), cases[i].verdict);
    }
}

static void test_ipv6_headers(void **state)
{
    uint8_t message[8] = {128};
    struct inet_tx tx = to_peer(false, false);
    struct net_frame f = net_packet(net_peer, &tx, message, sizeof(message)), g = f;
    struct inet_rx r;

    g.bytes[AT_IP] = 0x50;
    assert_int_equal(parse(&r, g.bytes, g.len), INET_MALFORMED);
    g = f;
    put_be16(g.bytes + AT_IP + IPV6_PAYLOAD_OFF, 9);
    assert_int_equal(parse(&r, g.bytes, g.len), INET_MALFORMED);
    g = f;
    g.bytes[AT_IP + IPV6_NEXT_OFF] = IP_PROTO_UDP;
    assert_int_equal(parse(&r, g.bytes, g.len), INET_IGNORED);
    g.bytes[AT_IP + IPV6_NEXT_OFF] = IPV6_NEXT_FRAGMENT;
    assert_int_equal(parse(&r, g.bytes, g.len), INET_IGNORED);
    /* IPv4 addresses, and a group as the source. */
    tx.src = gid_of("ff02::1");
    g = net_packet(net_peer, &tx, message, sizeof(message));
    assert_int_equal(parse(&r, g.bytes, g.len), INET_MALFORMED);
    g = f;
    memcpy(g.bytes + AT_IP + IPV6_SRC_OFF, gid_of("10.0.0.1").raw, 16);
    assert_int_equal(parse(&r, g.bytes, g.len), INET_MALFORMED);
}

static void test_hop_by_hop(void **state)
{
    static const struct {
        uint8_t options[8];
        enum inet_verdict verdict;
        bool alert;
    } cases[] = {
        {{58, 0, 5, 2, 0, 0, 1, 0}, INET_OK, true},
        {{58, 0, 1, 0, 5, 2, 0, 0}, INET_OK, true},
        {{58, 0, 0, 0, 5, 2, 0, 0}, INET_OK, true},
        {{58, 0, 5, 2, 0, 1, 1, 0}, INET_OK, false}, /* RSVP's */
        {{58, 0, 1, 4, 0, 0, 0, 0}, INET_OK, false},
        {{58, 0, 1, 5, 0, 0, 0, 0}, INET_MALFORMED, false},
        {{58, 0, 1, 1, 0, 0, 0, 5}, INET_MALFORMED, false},
        {{58, 2, 1, 4, 0, 0, 0, 0}, INET_MALFORMED, false},
        {{17, 0, 1, 4, 0, 0, 0, 0}, INET_IGNORED, false},
        {{0, 0, 1, 4, 0, 0, 0, 0}, INET_IGNORED, false}, /* only one such header */
    };
    uint8_t message[8] = {130};
    struct inet_tx tx = to_peer(false, true);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_frame f = net_packet(net_peer, &tx, message, sizeof(message));
        struct inet_rx r;

        memcpy(f.bytes + AT_IP + IPV6_LEN, cases[i].options, 8);
        assert_int_equal(parse(&r, f.bytes, f.len), cases[i].verdict);
        if (cases[i].verdict == INET_OK) {
            assert_int_equal(r.router_alert, cases[i].alert);
            assert_int_equal(r.len, 8);
        }
    }
}

static void test_tags(void **state)
{
    uint8_t message[8] = {8};
    struct inet_tx tx = to_peer(true, false);
    struct net_frame f;
    struct inet_rx r;

    tx.vlan = 100;
    f = net_packet(net_peer, &tx, message, sizeof(message));
    put_be16(f.bytes + TAG_TCI_OFF, 0xE064);
    assert_int_equal(parse(&r, f.bytes, f.len), INET_OK);
    assert_int_equal(r.vlan, 100);
    put_be16(f.bytes + TAG_TCI_OFF, 0xE000); /* a priority only */
    assert_int_equal(parse(&r, f.bytes, f.len), INET_OK);
    assert_int_equal(r.vlan, VLAN_NONE);
    put_be16(f.bytes + TAG_TCI_OFF, 0x0FFF);
    assert_int_equal(parse(&r, f.bytes, f.len), INET_MALFORMED);
    put_be16(f.bytes + TAG_TCI_OFF, 100);
    f.bytes[ETH_SMAC_OFF] |= 1; /* from a group */
    assert_int_equal(parse(&r, f.bytes, f.len), INET_MALFORMED);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *a, *b;
        unsigned bits;
        bool same;
    } cases[] = {
        {"10.0.0.1", "10.0.0.254", 24, true},   {"10.0.0.1", "10.0.1.1", 24, false},
        {"10.0.0.1", "10.0.1.1", 23, true},     {"10.0.0.1", "10.0.0.2", 32, false},
        {"10.0.0.1", "10.0.0.1", 32, true},     {"10.0.0.1", "192.168.0.1", 0, true},
        {"10.0.0.1", "fd00::1", 0, false},      {"fd00::1", "fd00::ffff", 64, true},
        {"fd00::1", "fd00::2", 127, false},     {"fd00::2", "fd00::3", 127, true},
        {"fd00::1", "fd00::1", 128, true},      {"fd00::1", "2001:db8::", 0, true},
        {"172.16.0.1", "172.31.0.1", 12, true}, {"172.16.0.1", "172.32.0.1", 12, false},
    };
    static const char *const unicast[] = {"10.0.0.1", "127.0.0.1", "fe80::1", "::1", "fd00::"},
                             *const others[] = {"0.0.0.0",   "255.255.255.255",
                                                "224.0.0.1", "239.1.2.3",
                                                "::",        "ff02::1"};
    union gid g = gid_of("fd00::aa:bb12:3456");
    union gid node = inet_solicited_node(&g), expected = gid_of("ff02::1:ff12:3456");

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        union gid a = gid_of(cases[i].a), b = gid_of(cases[i].b);

        assert_int_equal(inet_same_prefix(&a, &b, cases[i].bits), cases[i].same);
        assert_int_equal(inet_same_prefix(&b, &a, cases[i].bits), cases[i].same);
    }
    for (size_t i = 0; i < ARRAY_SIZE(unicast); i++) {
        g = gid_of(unicast[i]);
        assert_true(inet_is_unicast(&g));
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        g = gid_of(others[i]);
        assert_false(inet_is_unicast(&g));
    }
    assert_true(gid_eq(&node, &expected));
    g = gid_of("febf::1");
    assert_true(gid_is_link_local(&g));
    g = gid_of("fec0::1");
    assert_false(gid_is_link_local(&g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_too_long_to_build),
        cmocka_unit_test(test_cut_short),    cmocka_unit_test(test_longer_than_it_says),
        cmocka_unit_test(test_checksums),    cmocka_unit_test(test_ipv4_headers),
        cmocka_unit_test(test_ipv6_headers), cmocka_unit_test(test_hop_by_hop),
        cmocka_unit_test(test_tags),         cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
