/* SPDX-License-Identifier: BSD-3-Clause */
/* Echo; malformed frames and frames of no concern to the host. */
#include <errno.h>
#include <string.h>

#include "frame_layout.h"
#include "net_kit.h"
#include "unit.h"

static struct net_kit *host(bool quiet)
{
    struct net_kit *k = net_kit_new(1, quiet);

    net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_address(k, 0, "fd00::1/64", VLAN_NONE);
    net_kit_address(k, 0, "10.0.0.1/24", 9);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    return k;
}

static struct inet_tx from_peer(bool ipv4)
{
    struct inet_tx tx = {.dmac = {2, 0, 0, 0, 0, 1},
                         .vlan = VLAN_NONE,
                         .src = gid_of(ipv4 ? "10.7.0.2" : "fd07::2"),
                         .dst = gid_of(ipv4 ? "10.0.0.1" : "fd00::1"),
                         .proto = ipv4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6,
                         .hop_limit = 55,
                         .traffic_class = 0x48};
    return tx;
}

static struct net_frame ping(const struct inet_tx *tx, uint32_t len)
{
    uint8_t message[1500] = {tx->proto == IP_PROTO_ICMP ? 8 : 128, 0, 0, 0, 0x12, 0x34, 0, 1};

    for (uint32_t i = 8; i < len; i++)
        message[i] = (uint8_t)i;
    return net_packet(net_peer, tx, message, len);
}

static void test_echo(void **state)
{
    static const uint32_t sizes[] = {8, 9, 64, 1400};

    for (size_t i = 0; i < ARRAY_SIZE(sizes) * 4; i++) {
        bool ipv4 = i & 1;
        uint32_t len = sizes[i / 4];
        struct net_kit *k = host(false);
        struct inet_tx tx = from_peer(ipv4);
        struct net_frame f;
        struct inet_rx r;

        if (ipv4 && i & 2)
            tx.vlan = 9;
        f = ping(&tx, len);
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, 1);
        r = net_parse(net_kit_sent(k, 0));
        assert_int_equal(r.vlan, tx.vlan);
        assert_memory_equal(r.dmac, net_peer, 6);
        assert_true(gid_eq(&r.src, &tx.dst) && gid_eq(&r.dst, &tx.src));
        assert_int_equal(r.hop_limit, 64);
        assert_int_equal(r.traffic_class, 0x48);
        assert_int_equal(r.data[0], ipv4 ? 0 : 129);
        assert_int_equal(r.data[1], 0);
        assert_int_equal(r.len, len);
        assert_memory_equal(r.data + 4, f.bytes + f.len - len + 4, len - 4);
        assert_int_equal(net_kit_count(k)->echo_rx, 1);
        assert_int_equal(net_kit_count(k)->echo_tx, 1);
        net_kit_free(k);
    }
}

/* Echo up to the port's MTU, and no longer. */
static void test_large_echo(void **state)
{
    static const struct net_host_config config = {.mtu = 9000};

    for (unsigned i = 0; i < 4; i++) {
        bool ipv4 = i & 1, fits = i & 2;
        uint32_t len = 9000 - (ipv4 ? 20 : 40) + !fits;
        struct net_kit *k = net_kit_make(1, &config);
        struct inet_tx tx = from_peer(ipv4);
        uint8_t message[9000] = {ipv4 ? 8 : 128};
        struct net_frame f = net_packet(net_peer, &tx, message, len);

        net_kit_address(k, 0, ipv4 ? "10.0.0.1/24" : "fd00::1/64", VLAN_NONE);
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, fits);
        if (fits)
            assert_int_equal(net_parse(net_kit_sent(k, 0)).len, len);
        net_kit_free(k);
    }
}

/* A hundred at once, then a thousand in a second. */
static void test_echo_rate(void **state)
{
    struct net_kit *k = host(false);
    struct inet_tx tx = from_peer(true);
    struct net_frame f = ping(&tx, 64);

    for (unsigned i = 0; i < 500; i++)
        net_kit_rx(k, &f);
    assert_int_equal(k->sent, 100);
    net_kit_clear(k);
    k->now += MS - 1;
    net_kit_rx(k, &f);
    assert_int_equal(k->sent, 0);
    k->now += 1;
    net_kit_rx(k, &f);
    net_kit_rx(k, &f);
    assert_int_equal(k->sent, 1);
    net_kit_clear(k);
    for (unsigned i = 0; i < 4000; i++) {
        k->now += 250 * NS_PER_US;
        net_kit_rx(k, &f);
    }
    assert_int_equal(k->sent, 1000);
    net_kit_clear(k);
    k->now += 100 * SEC; /* the bucket does not grow beyond that */
    for (unsigned i = 0; i < 500; i++)
        net_kit_rx(k, &f);
    assert_int_equal(k->sent, 100);
    net_kit_free(k);
}

static void test_no_echo(void **state)
{
    static const struct {
        const char *src, *dst;
        uint16_t vlan;
        uint8_t dmac[6];
        uint8_t code;
        bool quiet, malformed;
    } cases[] = {
        {"10.7.0.2", "10.0.0.2", VLAN_NONE, {2, 0, 0, 0, 0, 1}},
        {"10.7.0.2", "10.0.0.1", 8, {2, 0, 0, 0, 0, 1}},
        {"10.7.0.2", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 2}},
        {"10.7.0.2", "10.0.0.1", VLAN_NONE, {255, 255, 255, 255, 255, 255}},
        {"10.7.0.2", "224.0.0.1", VLAN_NONE, {1, 0, 0x5E, 0, 0, 1}},
        {"10.7.0.2", "10.0.0.255", VLAN_NONE, {255, 255, 255, 255, 255, 255}},
        {"0.0.0.0", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 1}},
        {"224.0.0.5", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 1}},
        {"255.255.255.255", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 1}},
        {"10.0.0.1", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 1}},
        {"::", "fd00::1", VLAN_NONE, {2, 0, 0, 0, 0, 1}},
        {"fd07::2", "ff02::1", VLAN_NONE, {0x33, 0x33, 0, 0, 0, 1}},
        {"10.7.0.2", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 1}, .quiet = true},
        {"fd07::2", "fd00::1", VLAN_NONE, {2, 0, 0, 0, 0, 1}, .quiet = true},
        {"10.7.0.2", "10.0.0.1", VLAN_NONE, {2, 0, 0, 0, 0, 1}, .code = 1, .malformed = true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = host(cases[i].quiet);
        struct inet_tx tx = from_peer(strchr(cases[i].src, '.'));
        uint8_t message[8] = {tx.proto == IP_PROTO_ICMP ? 8 : 128, cases[i].code};
        struct net_frame f;

        tx.src = gid_of(cases[i].src);
        tx.dst = gid_of(cases[i].dst);
        tx.vlan = cases[i].vlan;
        memcpy(tx.dmac, cases[i].dmac, 6);
        f = net_packet(net_peer, &tx, message, 8);
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, 0);
        assert_int_equal(net_kit_count(k)->echo_tx, 0);
        assert_int_equal(net_kit_count(k)->malformed, cases[i].malformed);
        assert_int_equal(net_kit_count(k)->ignored, !cases[i].malformed);
        net_kit_free(k);
    }
}

/* Frames of no concern to this host are counted once and not answered, UDP included. */
static void test_ignored(void **state)
{
    static const struct {
        uint16_t ethertype;
        uint8_t proto;
    } cases[] = {{0x0800, 17}, {0x0800, 6}, {0x0800, 47}, {0x86DD, 17}, {0x86DD, 6}, {0x86DD, 44},
                 {0x8847, 0},  {0x88CC, 0}, {0x8100, 0},  {0x8915, 0},  {0x05DC, 0}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = host(false);
        struct inet_tx tx = from_peer(cases[i].ethertype == ETHERTYPE_IPV4);
        struct net_frame f = ping(&tx, 64);

        put_be16(f.bytes + ETH_TYPE_OFF, cases[i].ethertype);
        if (cases[i].ethertype == ETHERTYPE_IPV4) {
            uint32_t sum = 0;

            f.bytes[AT_IP + IPV4_PROTO_OFF] = cases[i].proto;
            put_be16(f.bytes + AT_IP_SUM, 0);
            for (unsigned n = AT_IP; n < AT_UDP; n += 2)
                sum += get_be16(f.bytes + n);
            put_be16(f.bytes + AT_IP_SUM, (uint16_t)~sum_fold(sum));
        }
        if (cases[i].ethertype == ETHERTYPE_IPV6)
            f.bytes[AT_IP + IPV6_NEXT_OFF] = cases[i].proto;
        if (cases[i].ethertype == ETHERTYPE_VLAN) /* two tags */
            memcpy(f.bytes + TAG_TCI_OFF, (uint8_t[]){0, 9, 0x81, 0}, 4);
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, 0);
        assert_int_equal(net_kit_count(k)->ignored, 1);
        assert_int_equal(net_kit_count(k)->malformed, 0);
        net_kit_free(k);
    }
}

static void test_ignored_messages(void **state)
{
    static const struct {
        bool ipv4;
        uint8_t type;
    } cases[] = {{true, 0},    {true, 5},    {true, 11},   {true, 13},   {true, 17},
                 {false, 3},   {false, 4},   {false, 129}, {false, 133}, {false, 134},
                 {false, 137}, {false, 131}, {false, 132}, {false, 143}, {false, 255}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = host(false);
        struct inet_tx tx = from_peer(cases[i].ipv4);
        uint8_t message[32] = {cases[i].type};
        struct net_frame f;

        tx.hop_limit = 255;
        f = net_packet(net_peer, &tx, message, sizeof(message));
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, 0);
        assert_int_equal(net_kit_count(k)->ignored, 1);
        net_kit_free(k);
    }
}

/* Other unreachable messages are only counted. */
static void test_unreachable(void **state)
{
    for (unsigned ipv4 = 0; ipv4 < 2; ipv4++) {
        struct net_kit *k = host(false);
        struct inet_tx tx = from_peer(ipv4);
        uint8_t message[40] = {ipv4 ? 3 : 1, ipv4 ? 3 : 4};
        struct net_frame f = net_packet(net_peer, &tx, message, sizeof(message));

        net_kit_rx(k, &f);
        assert_int_equal(net_kit_count(k)->unreachable_rx, 1);
        assert_int_equal(net_kit_count(k)->ignored + net_kit_count(k)->malformed, 0);
        assert_int_equal(k->sent, 0);
        net_kit_free(k);
    }
}

/* Sound frames of every kind, cut at every byte and with every byte changed. */
static void test_damaged(void **state)
{
    struct inet_tx v4 = from_peer(true), v6 = from_peer(false), router = from_peer(true);
    uint8_t igmp[12] = {0x11, 10};
    struct net_frame frames[6];

    router.proto = IP_PROTO_IGMP;
    router.hop_limit = 1;
    frames[0] = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1");
    frames[1] = net_arp(9, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1");
    frames[2] = ping(&v4, 64);
    frames[3] = ping(&v6, 64);
    frames[4] = net_packet(net_peer, &router, igmp, sizeof(igmp));
    frames[5] = net_nd(&(struct net_nd){.src = "fe80::2",
                                        .dst = "fd00::1",
                                        .target = "fd00::1",
                                        .type = 135,
                                        .option = 1,
                                        .mac = net_peer});
    for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
        struct net_kit *k = host(false);
        struct net_frame f = frames[i];
        uint32_t least = i == 0 ? 42 : i == 1 ? 46 : f.len;
        uint64_t bad = 0;

        for (f.len = 0; f.len < least; f.len++, bad++)
            net_kit_rx(k, &f);
        assert_int_equal(net_kit_count(k)->malformed, bad);
        assert_int_equal(net_kit_count(k)->ignored, 0);
        assert_int_equal(k->sent, 0);
        for (uint32_t at = 0; at < frames[i].len; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                f = frames[i];
                f.bytes[at] ^= (uint8_t)(1 << bit);
                net_kit_rx(k, &f);
                net_kit_clear(k);
            }
        net_kit_run(k, 1000 * SEC);
        net_kit_free(k);
    }
}

static void test_arp_of_others(void **state)
{
    static const struct {
        uint8_t at, value;
        bool malformed;
    } cases[] = {
        {1, 6, false},                     /* IEEE 802 networks */
        {2, 9, false},                     /* another protocol */
        {4, 8, false},                     /* longer addresses */
        {5, 16, false},                    /* longer addresses */
        {7, 3, false},                     /* RARP */
        {7, 0, false},    {8, 0xFF, true}, /* from a group's MAC */
        {14, 0xE0, true},                  /* from a group's address */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = host(false);
        struct net_frame f =
            net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1");

        f.bytes[14 + cases[i].at] = cases[i].value;
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, 0);
        assert_int_equal(net_kit_count(k)->arp_rx, 1);
        assert_int_equal(net_kit_count(k)->malformed, cases[i].malformed);
        assert_int_equal(net_kit_count(k)->ignored, !cases[i].malformed);
        net_kit_free(k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),          cmocka_unit_test(test_echo_rate),
        cmocka_unit_test(test_large_echo),    cmocka_unit_test(test_no_echo),
        cmocka_unit_test(test_ignored),       cmocka_unit_test(test_ignored_messages),
        cmocka_unit_test(test_damaged),       cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_arp_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
