/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: duplicate address detection, announcements, defence, answers to requests. */
#include <errno.h>
#include <string.h>

#include "frame_layout.h"
#include "net_kit.h"
#include "unit.h"

#define ND_OPTIONS_OFF 24 /* in a solicitation or advertisement */

static struct net_kit *detecting(const char *address)
{
    struct net_kit *k = net_kit_new(1, false);

    net_kit_detect(k, 0, address, VLAN_NONE);
    return k;
}

/* RFC 5227 2.1, 2.3. */
static void test_detection_ipv4(void **state)
{
    struct net_kit *k = detecting("10.0.0.1/24");
    union gid us = gid_of("10.0.0.1"), unspecified = gid_of("0.0.0.0");
    ns_t last;

    last = k->now;
    net_kit_run(k, 30 * SEC);
    assert_int_equal(k->sent, 5);
    for (unsigned i = 0; i < 5; i++) {
        struct arp_view a = net_parse_arp(net_kit_sent(k, i));
        ns_t gap = net_kit_sent(k, i)->at - last;
        static const struct {
            ns_t least, most;
        } gaps[] = {
            {0, SEC}, {SEC, 2 * SEC}, {SEC, 2 * SEC}, {2 * SEC, 2 * SEC}, {2 * SEC, 2 * SEC}};

        last = net_kit_sent(k, i)->at;
        assert_in_range(gap, gaps[i].least, gaps[i].most);
        assert_int_equal(a.op, ARP_ASK);
        assert_memory_equal(a.dmac, net_broadcast, 6);
        assert_memory_equal(a.tha, ((uint8_t[6]){0}), 6);
        assert_true(gid_eq(&a.tpa, &us));
        assert_true(gid_eq(&a.spa, i < 3 ? &unspecified : &us));
    }
    assert_int_equal(k->node[0].states, 1);
    assert_int_equal(k->node[0].state, NET_PREFERRED);
    assert_true(gid_eq(&k->node[0].state_of.addr, &us));
    assert_int_equal(k->node[0].state_of.prefix, 24);
    assert_true(net_host_next_timer(k->node[0].h) == NS_NEVER);
    net_kit_free(k);
}

/* RFC 4862 5.4; the frames of MLD come between. */
static void test_detection_ipv6(void **state)
{
    struct net_kit *k = detecting("fe80::1/64");
    union gid us = gid_of("fe80::1"), group = gid_of("ff02::1:ff00:1"), all = gid_of("ff02::1");
    ns_t start = k->now;
    unsigned solicited = 0, advertised = 0;

    net_kit_run(k, 30 * SEC);
    for (unsigned i = 0; i < k->sent; i++) {
        const struct net_frame *f = net_kit_sent(k, i);
        struct inet_rx r = net_parse(f);

        if (r.data[0] == 135) {
            assert_int_equal(solicited++, 0);
            assert_in_range(f->at, start, start + SEC);
            assert_int_equal(k->node[0].states, 1);
            assert_true(gid_is_zero(&r.src) && gid_eq(&r.dst, &group));
            assert_int_equal(r.len, ND_OPTIONS_OFF);
        } else if (r.data[0] == 136) {
            advertised++;
            assert_true(gid_eq(&r.src, &us) && gid_eq(&r.dst, &all));
            assert_int_equal(r.data[4], 0x20); /* override */
            assert_int_equal(r.len, 32);
            assert_memory_equal(r.data + ND_OPTIONS_OFF, ((uint8_t[]){2, 1}), 2);
            assert_memory_equal(r.data + ND_OPTIONS_OFF + 2, k->node[0].mac, 6);
        } else {
            assert_int_equal(r.data[0], 143);
            continue;
        }
        assert_int_equal(r.hop_limit, 255);
        assert_memory_equal(r.data + 8, us.raw, 16);
    }
    assert_int_equal(solicited, 1);
    assert_int_equal(advertised, 2);
    assert_int_equal(k->node[0].state, NET_PREFERRED);
    net_kit_free(k);
}

/* Without a conflict the address is usable after seven (IPv4) or two (IPv6) seconds, not before an
 * answer could have come. */
static void test_when_preferred(void **state)
{
    static const struct {
        const char *address;
        ns_t least, most;
    } cases[] = {{"10.0.0.1/24", 4 * SEC, 7 * SEC}, {"fe80::1/64", SEC, 2 * SEC}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = detecting(cases[i].address);

        net_kit_run(k, cases[i].least - 1);
        assert_int_equal(k->node[0].states, 0);
        net_kit_run(k, cases[i].most - cases[i].least + 1);
        assert_int_equal(k->node[0].states, 1);
        net_kit_free(k);
    }
}

/* Frames that tell a host during detection that its address is a duplicate. */
static void test_conflicts_while_detecting(void **state)
{
    const struct net_frame frames[] = {
        /* the owner's answer, another host's probe, an announcement of the owner */
        net_arp(VLAN_NONE, (uint8_t[]){2, 0, 0, 0, 0, 1}, ARP_ANSWER, net_peer, "10.0.0.1",
                "0.0.0.0"),
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "0.0.0.0", "10.0.0.1"),
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.1", "10.0.0.1"),
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.1", "10.0.0.9"),
        net_nd(&(struct net_nd){.src = "fe80::1",
                                .dst = "ff02::1",
                                .target = "fe80::1",
                                .type = 136,
                                .flags = 0x20,
                                .option = 2,
                                .mac = net_peer}),
        net_nd(&(struct net_nd){
            .src = "::", .dst = "ff02::1:ff00:1", .target = "fe80::1", .type = 135}),
    };

    for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
        struct net_kit *k = detecting(i < 4 ? "10.0.0.1/24" : "fe80::1/64");

        net_kit_run(k, SEC);
        net_kit_clear(k);
        net_kit_rx(k, &frames[i]);
        assert_int_equal(net_kit_count(k)->conflicts, 1);
        assert_int_equal(k->node[0].states, 1);
        assert_int_equal(k->node[0].state, NET_DUPLICATE);
        assert_int_equal(k->sent, 0);
        /* A duplicate is not announced, not answered for, not defended, and gives no route. */
        net_kit_rx(k, &frames[i]);
        net_kit_rx(k, &frames[1]);
        net_kit_rx(k, &frames[5]);
        assert_int_equal(net_kit_count(k)->conflicts, 1);
        net_kit_run(k, 100 * SEC);
        for (unsigned n = 0; n < k->sent; n++) /* membership of the solicited-node group */
            assert_int_equal(net_parse(net_kit_sent(k, n)).data[0], 143);
        if (i < 4)
            assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.9", VLAN_NONE),
                             -ENETUNREACH);
        net_kit_free(k);
    }
}

static void test_no_conflict(void **state)
{
    const struct net_frame frames[] = {
        /* of another address, of another VLAN, from an address, this host's own looped back */
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1"),
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "0.0.0.0", "10.0.0.2"),
        net_arp(9, net_broadcast, ARP_ASK, net_peer, "10.0.0.1", "10.0.0.1"),
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, (uint8_t[]){2, 0, 0, 0, 0, 1}, "0.0.0.0",
                "10.0.0.1"),
        net_nd(&(struct net_nd){.src = "fe80::9",
                                .dst = "ff02::1:ff00:1",
                                .target = "fe80::1",
                                .type = 135,
                                .option = 1,
                                .mac = net_peer}),
        net_nd(&(struct net_nd){
            .src = "::", .dst = "ff02::1:ff00:1", .target = "fe80::1", .type = 135, .vlan = 9}),
    };

    for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
        struct net_kit *k = detecting(i < 4 ? "10.0.0.1/24" : "fe80::1/64");
        struct net_frame f = frames[i];

        net_kit_run(k, SEC);
        net_kit_rx(k, &f);
        memcpy(f.bytes + 6, k->node[0].mac, 6); /* a frame of this host, whatever its contents */
        net_kit_rx(k, &f);
        assert_int_equal(net_kit_count(k)->conflicts, 0);
        assert_int_equal(net_kit_count(k)->malformed, 0);
        /* A tentative address is not answered for. */
        for (unsigned n = 0; n < k->sent; n++)
            assert_true(k->frame[n].bytes[0] & 1);
        net_kit_run(k, 10 * SEC);
        assert_int_equal(k->node[0].state, NET_PREFERRED);
        net_kit_free(k);
    }
}

/* An ARP packet with this host as the sender but another Ethernet source: it was looped back. */
static void test_own_sender(void **state)
{
    struct net_kit *k = detecting("10.0.0.1/24");
    struct net_frame f =
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, k->node[0].mac, "10.0.0.1", "10.0.0.1");

    memcpy(f.bytes + 6, net_peer, 6);
    net_kit_rx(k, &f);
    assert_int_equal(net_kit_count(k)->conflicts, 0);
    assert_int_equal(net_kit_count(k)->ignored, 1);
    net_kit_free(k);
}

/* A port that loops frames back: no conflict, no answers to this host itself. */
static void test_echoing_port(void **state)
{
    struct net_kit *k = net_kit_new(1, false);

    k->echo = true;
    net_kit_detect(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_detect(k, 0, "fe80::1/64", VLAN_NONE);
    net_kit_run(k, 30 * SEC);
    assert_int_equal(k->node[0].states, 2);
    assert_int_equal(k->node[0].state, NET_PREFERRED);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", VLAN_NONE), -EINPROGRESS);
    assert_int_equal(net_kit_resolve(k, 0, "fe80::1", "fe80::2", VLAN_NONE), -EINPROGRESS);
    net_kit_run(k, 30 * SEC);
    assert_int_equal(k->node[0].resolved, 2);
    assert_int_equal(net_kit_count(k)->conflicts, 0);
    assert_int_equal(net_kit_count(k)->malformed, 0);
    assert_int_equal(net_kit_count(k)->ignored, k->sent);
    net_kit_free(k);
}

/* Two hosts with one address: a host that uses it keeps it; of two that probe at once neither gets
 * it. */
static void test_two_hosts(void **state)
{
    static const char *const addresses[] = {"10.0.0.1/24", "fe80::1/64"};

    for (unsigned i = 0; i < 4; i++) {
        struct net_kit *k = net_kit_new(2, false);
        bool at_once = i & 1;

        net_kit_detect(k, 0, addresses[i / 2], VLAN_NONE);
        net_kit_run(k, at_once ? 0 : 20 * SEC);
        net_kit_detect(k, 1, addresses[i / 2], VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        if (!at_once)
            assert_int_equal(k->node[1].state, NET_DUPLICATE);
        assert_int_equal(k->node[0].state + k->node[1].state, NET_PREFERRED + NET_DUPLICATE);
        assert_int_equal(k->node[0].states, 1);
        assert_int_equal(k->node[1].states, 1);
        net_kit_free(k);
    }
}

/* The address is announced at once, and requests for it are answered. */
static void test_skip_detection(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    struct net_frame f;

    net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_settle(k);
    assert_int_equal(k->node[0].states, 0);
    assert_int_equal(k->sent, 1);
    assert_true(gid_eq((union gid[]){net_parse_arp(net_kit_sent(k, 0)).spa},
                       (union gid[]){gid_of("10.0.0.1")}));
    f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1");
    net_kit_rx(k, &f);
    assert_int_equal(net_parse_arp(net_kit_sent(k, 1)).op, ARP_ANSWER);
    net_kit_free(k);
}

/* RFC 5227 2.4 (c): once in ten seconds. */
static void test_defence(void **state)
{
    const struct net_frame frames[] = {
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.1", "10.0.0.9"),
        net_nd(&(struct net_nd){.src = "fe80::1",
                                .dst = "ff02::1",
                                .target = "fe80::1",
                                .type = 136,
                                .flags = 0x20,
                                .option = 2,
                                .mac = net_peer}),
    };

    for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
        struct net_kit *k = net_kit_new(1, false);

        net_kit_address(k, 0, i ? "fe80::1/64" : "10.0.0.1/24", VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        for (unsigned n = 1; n <= 100; n++) {
            net_kit_rx(k, &frames[i]);
            assert_int_equal(k->sent, 1 + (n - 1) / 10);
            net_kit_run(k, SEC);
        }
        assert_int_equal(net_kit_count(k)->conflicts, 100);
        assert_int_equal(k->node[0].states, 0);
        assert_int_equal(net_kit_resolve(k, 0, i ? "fe80::1" : "10.0.0.1",
                                         i ? "fe80::1" : "10.0.0.1", VLAN_NONE),
                         0);
        assert_memory_equal(net_kit_path.mac, k->node[0].mac, 6);
        net_kit_free(k);
    }
}

static void test_arp_answers(void **state)
{
    static const struct {
        uint16_t vlan;
        const char *spa, *tpa;
        bool answered;
    } cases[] = {
        {VLAN_NONE, "10.0.0.2", "10.0.0.1", true},  {VLAN_NONE, "0.0.0.0", "10.0.0.1", true},
        {VLAN_NONE, "10.9.9.9", "10.0.0.1", true},  {VLAN_NONE, "10.0.0.2", "10.0.0.3", false},
        {VLAN_NONE, "10.0.0.2", "10.0.7.1", false}, {7, "10.0.0.2", "10.0.7.1", true},
        {7, "10.0.0.2", "10.0.0.1", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
        bool quiet = i >= ARRAY_SIZE(cases);
        struct net_kit *k = net_kit_new(1, quiet);
        size_t c = i % ARRAY_SIZE(cases);
        struct net_frame f =
            net_arp(cases[c].vlan, net_broadcast, ARP_ASK, net_peer, cases[c].spa, cases[c].tpa);
        union gid spa = gid_of(cases[c].spa), tpa = gid_of(cases[c].tpa);

        net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
        net_kit_address(k, 0, "10.0.7.1/24", 7);
        net_kit_run(k, 10 * SEC);
        net_kit_clear(k);
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, cases[c].answered && !quiet);
        if (k->sent) {
            struct arp_view a = net_parse_arp(net_kit_sent(k, 0));

            assert_int_equal(a.op, ARP_ANSWER);
            assert_int_equal(a.vlan, cases[c].vlan);
            assert_memory_equal(a.dmac, net_peer, 6);
            assert_memory_equal(a.tha, net_peer, 6);
            assert_memory_equal(a.sha, k->node[0].mac, 6);
            assert_true(gid_eq(&a.spa, &tpa) && gid_eq(&a.tpa, &spa));
        }
        net_kit_free(k);
    }
}

static void test_nd_answers(void **state)
{
    static const struct {
        struct net_nd nd;
        const char *to; /* NULL: no answer */
        uint8_t flags;
        bool malformed;
    } cases[] = {
        {{"fe80::2", "ff02::1:ff00:1", "fe80::1", 135, 0, 1, net_peer}, "fe80::2", 0x60, false},
        {{"fe80::2", "fe80::1", "fe80::1", 135, 0, 1, net_peer}, "fe80::2", 0x60, false},
        {{"fe80::2", "fe80::1", "fe80::1", 135}, "fe80::2", 0x60, false},
        {{"::", "ff02::1:ff00:1", "fe80::1", 135}, "ff02::1", 0x20, false},
        {{"fe80::2", "ff02::1:ff00:1", "fe80::9", 135, 0, 1, net_peer}, NULL, 0, false},
        {{"fe80::2", "ff02::1:ff00:1", "fe80::1", 135, 0, 1, net_peer, .vlan = 3}, NULL, 0, false},
        {{"fe80::1", "ff02::1:ff00:1", "fe80::1", 135, 0, 1, net_peer}, NULL, 0, false},
        /* RFC 4861 7.1.1 */
        {{"fe80::2", "fe80::1", "10.0.0.1", 135, 0, 1, net_peer}, NULL, 0, true},
        {{"fe80::2", "fe80::1", "::", 135, 0, 1, net_peer}, NULL, 0, true},
        {{"fe80::2", "fe80::1", "fe80::1", 135, 0, 1, net_peer, .hops = 254}, NULL, 0, true},
        {{"fe80::2", "fe80::1", "ff02::1", 135, 0, 1, net_peer}, NULL, 0, true},
        {{"::", "ff02::1:ff00:1", "fe80::1", 135, 0, 1, net_peer}, NULL, 0, true},
        {{"::", "ff02::1", "fe80::1", 135}, NULL, 0, true},
        {{"::", "fe80::1", "fe80::1", 135}, NULL, 0, true},
        {{"fe80::2", "fe80::1", "fe80::1", 135, 0, 1, net_broadcast}, NULL, 0, true},
        /* 7.1.2 */
        {{"fe80::2", "ff02::1", "fe80::2", 136, 0x60, 2, net_peer}, NULL, 0, true},
        {{"fe80::2", "fe80::1", "fe80::2", 136, 0x60, 2, net_peer, .hops = 64}, NULL, 0, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
        bool quiet = i >= ARRAY_SIZE(cases);
        size_t c = i % ARRAY_SIZE(cases);
        struct net_kit *k = net_kit_new(1, quiet);
        struct net_frame f = net_nd(&cases[c].nd);

        if (cases[c].nd.mac == net_broadcast) /* from a sound MAC */
            memcpy(f.bytes + 6, net_peer, 6);
        net_kit_address(k, 0, "fe80::1/64", VLAN_NONE);
        net_kit_run(k, 10 * SEC);
        net_kit_clear(k);
        net_kit_rx(k, &f);
        assert_int_equal(net_kit_count(k)->malformed, cases[c].malformed);
        assert_int_equal(k->sent, cases[c].to && !quiet);
        if (k->sent) {
            struct inet_rx r = net_parse(net_kit_sent(k, 0));
            union gid to = gid_of(cases[c].to), us = gid_of("fe80::1");

            assert_int_equal(r.data[0], 136);
            assert_int_equal(r.data[4], cases[c].flags);
            assert_int_equal(r.hop_limit, 255);
            assert_true(gid_eq(&r.src, &us) && gid_eq(&r.dst, &to));
            assert_memory_equal(r.data + 8, us.raw, 16);
            assert_memory_equal(r.data + ND_OPTIONS_OFF, ((uint8_t[]){2, 1, 2, 0, 0, 0, 0, 1}), 8);
            if (gid_is_multicast(&to))
                assert_memory_equal(r.dmac, ((uint8_t[]){0x33, 0x33, 0, 0, 0, 1}), 6);
            else
                assert_memory_equal(r.dmac, net_peer, 6);
        }
        net_kit_free(k);
    }
}

/* A solicitation without the sender's MAC: the answer goes to the known MAC, or to the frame's
 * source. */
static void test_nd_answer_by_cache(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    struct net_frame f = net_nd(
        &(struct net_nd){.src = "fe80::2", .dst = "fe80::1", .target = "fe80::1", .type = 135});
    union gid peer = gid_of("fe80::2");

    net_kit_address(k, 0, "fe80::1/64", VLAN_NONE);
    net_kit_rx(k, &f);
    assert_memory_equal(net_kit_sent(k, 0)->bytes, net_peer, 6);
    assert_int_equal(net_host_add_neighbour(k->node[0].h, &peer, VLAN_NONE, net_other), 0);
    net_kit_rx(k, &f);
    assert_memory_equal(net_kit_sent(k, 1)->bytes, net_other, 6);
    net_kit_free(k);
}

/* Options of no length, cut ones, and one behind another. */
static void test_nd_options(void **state)
{
    static const struct {
        uint8_t options[24];
        uint8_t len;
        bool ok;
    } cases[] = {
        {{14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 0x10}, 16, true},
        {{1, 1, 2, 0, 0, 0, 0, 0x10, 14, 2}, 24, true},
        {{1, 0, 2, 0, 0, 0, 0, 0x10}, 8, false},
        {{1, 2, 2, 0, 0, 0, 0, 0x10}, 8, false},
        {{1, 1, 2, 0, 0, 0, 0, 0x10, 14}, 9, false},
        {{1, 1, 2, 0, 0, 0, 0, 0x10, 14, 1}, 12, false},
        {{1, 1, 2, 0, 0}, 5, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = net_kit_new(1, false);
        struct inet_tx tx = {.dmac = {2, 0, 0, 0, 0, 1},
                             .vlan = VLAN_NONE,
                             .src = gid_of("fe80::2"),
                             .dst = gid_of("fe80::1"),
                             .proto = IP_PROTO_ICMPV6,
                             .hop_limit = 255};
        uint8_t message[48] = {135};
        struct net_frame f;

        memcpy(message + 8, tx.dst.raw, 16);
        memcpy(message + 24, cases[i].options, cases[i].len);
        f = net_packet(net_other, &tx, message, 24u + cases[i].len);
        net_kit_address(k, 0, "fe80::1/64", VLAN_NONE);
        net_kit_rx(k, &f);
        assert_int_equal(k->sent, cases[i].ok);
        assert_int_equal(net_kit_count(k)->malformed, !cases[i].ok);
        if (cases[i].ok) /* by the option, not by the frame */
            assert_memory_equal(net_kit_sent(k, 0)->bytes, net_peer, 6);
        net_kit_free(k);
    }
}

/* Another host has the same addresses and answers for them. */
static void test_quiet(void **state)
{
    struct net_kit *k = net_kit_new(1, true);
    struct net_frame f =
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.1", "10.0.0.1");

    net_kit_detect(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_detect(k, 0, "fe80::1/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_rx(k, &f);
    net_host_link(k->node[0].h, false, k->now);
    net_host_link(k->node[0].h, true, k->now);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 0);
    assert_int_equal(net_kit_count(k)->conflicts, 0);
    assert_int_equal(k->node[0].states, 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", VLAN_NONE), -EINPROGRESS);
    assert_int_equal(k->sent, 1);
    net_kit_free(k);
}

/* RFC 4429: used from the start; advertised without the override flag; given up in a conflict. */
static void test_optimistic(void **state)
{
    static const struct net_host_config config = {.mtu = 1500, .optimistic = true};
    const struct net_frame ask[] = {
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1"),
        net_nd(&(struct net_nd){.src = "fe80::2",
                                .dst = "ff02::1:ff00:1",
                                .target = "fe80::1",
                                .type = 135,
                                .option = 1,
                                .mac = net_peer})};
    const struct net_frame claim[] = {
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_other, "10.0.0.1", "10.0.0.9"),
        net_nd(&(struct net_nd){.src = "fe80::1",
                                .dst = "ff02::1",
                                .target = "fe80::1",
                                .type = 136,
                                .flags = 0x20,
                                .option = 2,
                                .mac = net_other})};

    for (unsigned i = 0; i < 4; i++) {
        struct net_kit *k = net_kit_make(1, &config);
        bool ipv4 = i & 1, conflict = i & 2;

        net_kit_detect(k, 0, ipv4 ? "10.0.0.1/24" : "fe80::1/64", VLAN_NONE);
        net_kit_rx(k, &ask[!ipv4]);
        assert_int_equal(k->sent, 1);
        if (!ipv4)
            assert_int_equal(net_parse(net_kit_sent(k, 0)).data[4], 0x40);
        assert_int_equal(net_kit_resolve(k, 0, ipv4 ? "10.0.0.1" : "fe80::1",
                                         ipv4 ? "10.0.0.3" : "fe80::3", VLAN_NONE),
                         -EINPROGRESS);
        assert_int_equal(k->sent, 2); /* resolved at once */
        if (conflict) {
            net_kit_rx(k, &claim[!ipv4]);
            assert_int_equal(k->node[0].state, NET_DUPLICATE);
        }
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        assert_int_equal(k->node[0].states, 1);
        assert_int_equal(k->node[0].state, conflict ? NET_DUPLICATE : NET_PREFERRED);
        net_kit_rx(k, &ask[!ipv4]);
        assert_int_equal(k->sent, !conflict);
        if (!ipv4 && !conflict)
            assert_int_equal(net_parse(net_kit_sent(k, 0)).data[4], 0x60);
        net_kit_free(k);
    }
}

/* From the unspecified address: a part of detection. */
static bool is_probe(const struct net_frame *f)
{
    struct inet_rx r;

    if (get_be16(f->bytes + ETH_TYPE_OFF) == ETHERTYPE_ARP)
        return inet_is_unspecified((union gid[]){net_parse_arp(f).spa});
    r = net_parse(f);
    return r.data[0] == 135 && gid_is_zero(&r.src);
}

/* RFC 4429 3.2: an optimistic address avoids that a neighbour learns its MAC. */
static void test_optimistic_asks_from_another(void **state)
{
    static const struct net_host_config config = {.mtu = 1500, .optimistic = true};
    static const struct {
        const char *certain, *tentative, *src, *dst, *from;
    } cases[] = {
        {"fe80::1/64", "fd00::1/64", "fd00::1", "fd00::2", "fe80::1"},
        {"10.0.0.7/24", "10.0.0.1/24", "10.0.0.1", "10.0.0.2", "10.0.0.7"},
        {"10.9.0.7/24", "10.0.0.1/24", "10.0.0.1", "10.0.0.2", "10.0.0.1"},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = net_kit_make(1, &config);
        union gid from = gid_of(cases[i].from);
        const struct net_frame *f;

        net_kit_address(k, 0, cases[i].certain, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_detect(k, 0, cases[i].tentative, VLAN_NONE);
        net_kit_clear(k);
        assert_int_equal(net_kit_resolve(k, 0, cases[i].src, cases[i].dst, VLAN_NONE),
                         -EINPROGRESS);
        f = net_kit_sent(k, 0);
        assert_true(gid_eq(&from, gid_is_ipv4(&from) ? (union gid[]){net_parse_arp(f).spa}
                                                     : (union gid[]){net_parse(f).src}));
        net_kit_free(k);
    }
}

/* Another host begins to answer for an address of this host, and later stops. */
static void test_quiet_address(void **state)
{
    static const char *const addresses[] = {"10.0.0.1/24", "fe80::1/64"}, *const names[] = {
                                                                              "10.0.0.1",
                                                                              "fe80::1"};
    const struct net_frame ask[] = {
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1"),
        net_nd(&(struct net_nd){.src = "fe80::2",
                                .dst = "ff02::1:ff00:1",
                                .target = "fe80::1",
                                .type = 135,
                                .option = 1,
                                .mac = net_peer})};

    for (unsigned i = 0; i < 2; i++) {
        struct net_kit *k = net_kit_new(1, false);
        struct net_host *h = k->node[0].h;
        union gid us = gid_of(names[i]), other = gid_of("10.0.0.77");

        net_kit_detect(k, 0, addresses[i], VLAN_NONE);
        assert_int_equal(net_host_set_quiet(h, &other, VLAN_NONE, true, k->now), -ENOENT);
        assert_int_equal(net_host_set_quiet(h, &us, VLAN_NONE, true, k->now), 0);
        assert_int_equal(k->node[0].states, 1);
        assert_int_equal(k->node[0].state, NET_PREFERRED);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        net_kit_rx(k, &ask[i]);
        assert_int_equal(k->sent, 0);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(net_host_set_quiet(h, &us, VLAN_NONE, false, k->now), 0);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        net_kit_rx(k, &ask[i]);
        assert_int_equal(k->sent, 1);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(net_host_set_quiet(h, &us, VLAN_NONE, true, k->now), 0);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        net_host_link(h, false, k->now);
        net_host_link(h, true, k->now);
        net_kit_run(k, 20 * SEC);
        for (unsigned n = 0; n < k->sent; n++)
            assert_false(is_probe(net_kit_sent(k, n)));
        assert_int_equal(k->node[0].states, 1);
        assert_int_equal(net_host_remove_address(h, &us, VLAN_NONE), 0);
        net_kit_run(k, 20 * SEC);
        net_kit_free(k);
    }
}

/* The host that answered for the address stops: it found a duplicate, and this host finds
 * it too. */
static void test_quiet_address_becomes_ours(void **state)
{
    struct net_kit *k = net_kit_new(2, false);
    struct net_host *h = k->node[0].h;
    struct net_address a = {.prefix = 64, .vlan = VLAN_NONE, .quiet = true};

    for (unsigned i = 0; i < 2; i++) {
        a.addr = gid_of(i ? "10.0.0.1" : "fd00::1");
        a.prefix = i ? 24 : 64;
        net_kit_address(k, 1, i ? "10.0.0.1/24" : "fd00::1/64", VLAN_NONE);
        assert_int_equal(net_host_add_address(h, &a, false, k->now), 0);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->node[0].states, i);
        assert_int_equal(net_host_set_quiet(h, &a.addr, VLAN_NONE, false, k->now), 0);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->node[0].states, i + 1);
        assert_int_equal(k->node[0].state, NET_DUPLICATE);
    }
    net_kit_free(k);
}

/* An address stays in use while detection is repeated; a duplicate may become usable. */
static void test_link(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    struct net_frame ask = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2",
                                   "10.0.0.1"),
                     claim = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_other, "10.0.0.1",
                                     "10.0.0.1");
    struct net_host *h = k->node[0].h;

    net_kit_detect(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->node[0].states, 1);
    net_kit_clear(k);
    net_host_link(h, false, k->now);
    net_kit_run(k, 20 * SEC);
    net_kit_rx(k, &ask);
    assert_int_equal(k->sent, 0);
    net_host_link(h, true, k->now);
    net_kit_rx(k, &ask);
    assert_int_equal(k->sent, 1);
    net_kit_run(k, 20 * SEC);
    /* and three probes, two announcements */
    assert_int_equal(k->sent, 1 + 3 + 2);
    assert_int_equal(k->node[0].states, 1);
    net_host_link(h, true, k->now); /* no news */
    assert_true(net_host_next_timer(h) == NS_NEVER);
    net_host_link(h, false, k->now);
    net_host_link(h, true, k->now);
    net_kit_rx(k, &claim);
    assert_int_equal(k->node[0].states, 2);
    assert_int_equal(k->node[0].state, NET_DUPLICATE);
    net_host_link(h, false, k->now);
    net_host_link(h, true, k->now);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->node[0].states, 3);
    assert_int_equal(k->node[0].state, NET_PREFERRED);
    net_kit_free(k);
}

/* A duplicate is another host's address until detection has found that it no longer is: until then
 * the host neither answers for it nor asks from it, and its packets go to the other one. */
static void test_duplicate_is_detected_again(void **state)
{
    struct net_kit *k = net_kit_make(1, &(struct net_host_config){.mtu = 1500, .optimistic = true});
    struct net_frame ask = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2",
                                   "10.0.0.1"),
                     claim = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_other, "10.0.0.1",
                                     "10.0.0.1"),
                     answer;
    struct net_host *h = k->node[0].h;

    net_kit_address(k, 0, "10.0.0.3/24", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_detect(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_rx(k, &claim);
    assert_int_equal(k->node[0].state, NET_DUPLICATE);
    for (unsigned i = 0; i < 2; i++) { /* the link flaps twice */
        net_host_link(h, false, k->now);
        net_host_link(h, true, k->now);
    }
    net_kit_clear(k);
    net_kit_rx(k, &ask);
    assert_int_equal(k->sent, 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.3", "10.0.0.1", VLAN_NONE), -EINPROGRESS);
    answer = net_arp(VLAN_NONE, k->node[0].mac, ARP_ANSWER, net_peer, "10.0.0.9", "10.0.0.3");
    net_kit_rx(k, &answer);
    net_kit_rx(k, &claim);
    assert_int_equal(k->node[0].state, NET_DUPLICATE);
    net_host_link(h, false, k->now);
    net_host_link(h, true, k->now);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->node[0].state, NET_PREFERRED);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.3", "10.0.0.1", VLAN_NONE), 0);
    assert_memory_equal(net_kit_path.mac, k->node[0].mac, 6);
    net_kit_clear(k);
    net_kit_rx(k, &ask);
    assert_int_equal(k->sent, 1);
    net_kit_free(k);
}

/* Detection makes no progress while the link is down. */
static void test_added_while_down(void **state)
{
    struct net_kit *k = net_kit_new(1, false);

    net_host_link(k->node[0].h, false, k->now);
    net_kit_detect(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->node[0].states, 0);
    assert_int_equal(k->sent, 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", VLAN_NONE), -EINPROGRESS);
    net_kit_run(k, 3 * SEC);
    assert_int_equal(k->node[0].resolved, 1); /* without success, but reported */
    net_host_link(k->node[0].h, true, k->now);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->node[0].states, 1);
    assert_int_equal(k->sent, 5);
    net_kit_free(k);
}

/* A request is not sent from an address still in detection: it waits, or uses another address. */
static void test_questions_of_a_tentative_address(void **state)
{
    static const struct {
        const char *tentative, *other, *src, *dst;
    } cases[] = {{"10.0.0.1/24", "10.0.0.7/24", "10.0.0.1", "10.0.0.2"},
                 {"fd00::1/64", "fd00::7/64", "fd00::1", "fd00::2"}};

    for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
        struct net_kit *k = net_kit_new(1, false);
        bool another = i & 1;
        bool ipv4 = i < 2;
        unsigned questions = 0;
        ns_t first = 0, preferred = 0;

        net_kit_detect(k, 0, cases[i / 2].tentative, VLAN_NONE);
        if (another)
            net_kit_address(k, 0, cases[i / 2].other, VLAN_NONE);
        assert_int_equal(net_kit_resolve(k, 0, cases[i / 2].src, cases[i / 2].dst, VLAN_NONE),
                         -EINPROGRESS);
        while (!k->node[0].resolved) {
            net_kit_run(k, 100 * MS);
            if (k->node[0].states && !preferred)
                preferred = k->now;
            assert_true(k->now < 120 * SEC);
        }
        for (unsigned n = 0; n < k->sent; n++) {
            const struct net_frame *f = net_kit_sent(k, n);
            union gid target = gid_of(cases[i / 2].dst), src = gid_of(cases[i / 2].src);
            bool question;

            if (ipv4) {
                struct arp_view a = net_parse_arp(f);

                question = gid_eq(&a.tpa, &target);
                assert_true(!question || another || gid_eq(&a.spa, &src));
            } else {
                struct inet_rx r = net_parse(f);

                question = r.data[0] == 135 && !memcmp(r.data + 8, target.raw, 16);
                assert_true(!question || another || gid_eq(&r.src, &src));
            }
            if (question && !questions++)
                first = f->at;
        }
        assert_int_equal(questions, 3);
        if (another)
            assert_int_equal(first, 100 * SEC);
        else /* at once when possible */
            assert_in_range(first, preferred - 100 * MS, preferred);
        net_kit_free(k);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *addr;
        uint8_t prefix;
        uint16_t vlan;
        int err;
    } cases[] = {
        {"10.0.0.1", 24, VLAN_NONE, 0},
        {"10.0.0.1", 25, VLAN_NONE, -EEXIST},
        {"10.0.0.1", 24, 1, 0},
        {"10.0.0.2", 33, VLAN_NONE, -EINVAL},
        {"10.0.0.2", 32, 4094, 0},
        {"10.0.0.2", 32, 4095, -EINVAL},
        {"10.0.0.2", 32, 0, -EINVAL},
        {"0.0.0.0", 0, VLAN_NONE, -EINVAL},
        {"224.0.0.5", 4, VLAN_NONE, -EINVAL},
        {"255.255.255.255", 0, VLAN_NONE, -EINVAL},
        {"::", 0, VLAN_NONE, -EINVAL},
        {"ff02::5", 64, VLAN_NONE, -EINVAL},
        {"fd00::1", 129, VLAN_NONE, -EINVAL},
        {"fd00::1", 128, VLAN_NONE, 0},
        {"10.0.0.3", 0, VLAN_NONE, 0},
    };
    struct net_kit *k = net_kit_new(1, false);
    struct net_address a;
    int added = 0;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        a = (struct net_address){gid_of(cases[i].addr), cases[i].prefix, cases[i].vlan};
        assert_int_equal(net_host_add_address(k->node[0].h, &a, true, k->now), cases[i].err);
        added += !cases[i].err;
    }
    for (; added < NET_ADDRESS_MAX; added++) {
        a = (struct net_address){gid_of("10.7.0.0"), 24, VLAN_NONE};
        a.addr.raw[15] = (uint8_t)added;
        assert_int_equal(net_host_add_address(k->node[0].h, &a, true, k->now), 0);
    }
    a.addr.raw[15] = 200;
    assert_int_equal(net_host_add_address(k->node[0].h, &a, true, k->now), -ENOSPC);
    assert_int_equal(net_host_remove_address(k->node[0].h, &a.addr, VLAN_NONE), -ENOENT);
    a.addr.raw[15] = NET_ADDRESS_MAX - 1;
    assert_int_equal(net_host_remove_address(k->node[0].h, &a.addr, 5), -ENOENT);
    assert_int_equal(net_host_remove_address(k->node[0].h, &a.addr, VLAN_NONE), 0);
    assert_int_equal(net_host_add_address(k->node[0].h, &a, true, k->now), 0);
    net_kit_free(k);
}

/* No event follows for an address that was removed. */
static void test_removed(void **state)
{
    struct net_kit *k = detecting("10.0.0.1/24");
    struct net_frame f =
        net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.1");
    union gid us = gid_of("10.0.0.1");

    net_kit_run(k, SEC);
    net_kit_clear(k);
    assert_int_equal(net_host_remove_address(k->node[0].h, &us, VLAN_NONE), 0);
    net_kit_rx(k, &f);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 0);
    assert_int_equal(k->node[0].states, 0);
    assert_int_equal(net_kit_count(k)->ignored, 1);
    net_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detection_ipv4),
        cmocka_unit_test(test_detection_ipv6),
        cmocka_unit_test(test_when_preferred),
        cmocka_unit_test(test_conflicts_while_detecting),
        cmocka_unit_test(test_no_conflict),
        cmocka_unit_test(test_own_sender),
        cmocka_unit_test(test_echoing_port),
        cmocka_unit_test(test_two_hosts),
        cmocka_unit_test(test_skip_detection),
        cmocka_unit_test(test_defence),
        cmocka_unit_test(test_arp_answers),
        cmocka_unit_test(test_nd_answers),
        cmocka_unit_test(test_nd_answer_by_cache),
        cmocka_unit_test(test_nd_options),
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_optimistic),
        cmocka_unit_test(test_optimistic_asks_from_another),
        cmocka_unit_test(test_quiet_address),
        cmocka_unit_test(test_quiet_address_becomes_ours),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_duplicate_is_detected_again),
        cmocka_unit_test(test_added_while_down),
        cmocka_unit_test(test_questions_of_a_tentative_address),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
