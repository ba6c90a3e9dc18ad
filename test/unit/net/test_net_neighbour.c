/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolution: two hosts resolve each other by ARP and neighbour discovery; every state of an entry.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net_kit.h"
#include "unit.h"

/* The same for both IP versions. */
static const struct family {
    const char *net, *us, *peer, *absent;
} families[] = {{"10.0.0.1/24", "10.0.0.1", "10.0.0.2", "10.0.0.99"},
                {"fd00::1/64", "fd00::1", "fd00::2", "fd00::99"}};

static struct net_kit *pair(void)
{
    struct net_kit *k = net_kit_new(2, false);

    net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_address(k, 0, "fd00::1/64", VLAN_NONE);
    net_kit_address(k, 1, "10.0.0.2/24", VLAN_NONE);
    net_kit_address(k, 1, "fd00::2/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    return k;
}

/* One host; the frames of its peers are written by hand. */
static struct net_kit *alone(void)
{
    struct net_kit *k = net_kit_new(1, false);

    net_kit_address(k, 0, "10.0.0.1/24", VLAN_NONE);
    net_kit_address(k, 0, "fd00::1/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    return k;
}

/* The peer answers a request, or announces its MAC (unsolicited). */
static void answer(struct net_kit *k, const struct family *f, const uint8_t *mac, bool solicited)
{
    struct net_frame frame;

    if (f == families)
        frame = net_arp(VLAN_NONE, solicited ? k->node[0].mac : net_broadcast, ARP_ANSWER, mac,
                        f->peer, f->us);
    else
        frame = net_nd(&(struct net_nd){.src = f->peer,
                                        .dst = solicited ? f->us : "ff02::1",
                                        .target = f->peer,
                                        .type = 136,
                                        .flags = solicited ? 0x60 : 0x20,
                                        .option = 2,
                                        .mac = mac});
    net_kit_rx(k, &frame);
}

static int resolve_peer(struct net_kit *k, const struct family *f)
{
    return net_kit_resolve(k, 0, f->us, f->peer, VLAN_NONE);
}

static int peer_state(struct net_kit *k, const struct family *f)
{
    return net_kit_state(k, 0, f->peer, VLAN_NONE);
}

static void test_two_hosts(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = pair();
        union gid peer;

        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        assert_int_equal(peer_state(k, f), NET_INCOMPLETE);
        net_kit_settle(k);
        assert_int_equal(k->sent, 2); /* the request and the answer */
        assert_int_equal(k->node[0].resolved, 1);
        peer = gid_of(f->peer);
        assert_true(gid_eq(&k->node[0].resolved_hop, &peer));
        assert_int_equal(k->node[0].resolved_vlan, VLAN_NONE);
        assert_int_equal(peer_state(k, f), NET_REACHABLE);
        assert_int_equal(resolve_peer(k, f), 0);
        assert_memory_equal(net_kit_path.mac, k->node[1].mac, 6);
        assert_int_equal(net_kit_path.mtu, 1500);
        /* The peer learned the MAC from the request, and confirms it before it relies on it. */
        assert_int_equal(net_kit_state(k, 1, f->us, VLAN_NONE), NET_STALE);
        assert_int_equal(net_kit_resolve(k, 1, f->peer, f->us, VLAN_NONE), 0);
        assert_memory_equal(net_kit_path.mac, k->node[0].mac, 6);
        assert_int_equal(net_kit_state(k, 1, f->us, VLAN_NONE), NET_PROBE);
        net_kit_settle(k);
        assert_int_equal(net_kit_state(k, 1, f->us, VLAN_NONE), NET_REACHABLE);
        assert_int_equal(k->node[1].resolved, 0);
        assert_int_equal(k->sent, 4);
        net_kit_free(k);
    }
}

/* Any two of the three requests, or of the answers, are lost. */
static void test_loss(void **state)
{
    static const uint64_t losses[] = {1, 2, 3, 5, 10};

    for (size_t i = 0; i < ARRAY_SIZE(families) * ARRAY_SIZE(losses); i++) {
        const struct family *f = &families[i % 2];
        struct net_kit *k = pair();

        k->lose = losses[i / 2];
        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        net_kit_run(k, 3 * SEC - 1);
        assert_int_equal(k->node[0].resolved, 1);
        assert_int_equal(resolve_peer(k, f), 0);
        net_kit_free(k);
    }
}

static void test_nobody_answers(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = pair();
        ns_t start = k->now;

        assert_int_equal(net_kit_resolve(k, 0, f->us, f->absent, VLAN_NONE), -EINPROGRESS);
        net_kit_run(k, 3 * SEC - 1);
        assert_int_equal(k->sent, 3);
        for (unsigned n = 0; n < 3; n++)
            assert_int_equal(net_kit_sent(k, n)->at, start + n * SEC);
        assert_int_equal(k->node[0].resolved, 0);
        net_kit_run(k, 1);
        assert_int_equal(k->node[0].resolved, 1);
        assert_int_equal(net_kit_state(k, 0, f->absent, VLAN_NONE), NET_FAILED);
        assert_int_equal(net_kit_resolve(k, 0, f->us, f->absent, VLAN_NONE), -EHOSTUNREACH);
        net_kit_run(k, SEC - 1);
        assert_int_equal(net_kit_resolve(k, 0, f->us, f->absent, VLAN_NONE), -EHOSTUNREACH);
        assert_int_equal(k->sent, 3);
        net_kit_run(k, 1);
        assert_int_equal(net_kit_state(k, 0, f->absent, VLAN_NONE), -1);
        assert_int_equal(net_kit_resolve(k, 0, f->us, f->absent, VLAN_NONE), -EINPROGRESS);
        assert_int_equal(k->sent, 4);
        assert_int_equal(k->node[0].resolved, 1);
        net_kit_free(k);
    }
}

/* A second ends by the clock, whether or not the timers have run. */
static void test_failure_without_timers(void **state)
{
    struct net_kit *k = alone();

    assert_int_equal(resolve_peer(k, families), -EINPROGRESS);
    net_kit_run(k, 3 * SEC);
    assert_int_equal(resolve_peer(k, families), -EHOSTUNREACH);
    k->now += SEC;
    assert_int_equal(resolve_peer(k, families), -EINPROGRESS);
    net_kit_free(k);
}

/* So do thirty seconds. */
static void test_staleness_without_timers(void **state)
{
    struct net_kit *k = alone();

    resolve_peer(k, families);
    answer(k, families, net_peer, true);
    net_kit_clear(k);
    k->now += 30 * SEC - 1;
    assert_int_equal(resolve_peer(k, families), 0);
    assert_int_equal(k->sent, 0);
    k->now++;
    assert_int_equal(resolve_peer(k, families), 0);
    assert_int_equal(peer_state(k, families), NET_PROBE);
    assert_int_equal(k->sent, 1);
    net_kit_free(k);
}

static void test_stale_and_probe(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = alone();
        ns_t start;

        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        answer(k, f, net_peer, true);
        net_kit_run(k, 30 * SEC - 1);
        assert_int_equal(peer_state(k, f), NET_REACHABLE);
        net_kit_run(k, 1);
        assert_int_equal(peer_state(k, f), NET_STALE);
        net_kit_clear(k);
        /* Nothing happens until the entry is used. */
        net_kit_run(k, 1000 * SEC);
        assert_int_equal(k->sent, 0);
        assert_int_equal(resolve_peer(k, f), 0);
        assert_memory_equal(net_kit_path.mac, net_peer, 6);
        assert_int_equal(peer_state(k, f), NET_PROBE);
        start = k->now;
        net_kit_run(k, SEC);
        assert_int_equal(k->sent, 2);
        assert_memory_equal(net_kit_sent(k, 0)->bytes, net_peer, 6); /* unicast */
        assert_int_equal(net_kit_sent(k, 1)->at, start + SEC);
        answer(k, f, net_peer, true);
        assert_int_equal(peer_state(k, f), NET_REACHABLE);
        net_kit_run(k, 29 * SEC);
        assert_int_equal(k->sent, 2);
        assert_int_equal(k->node[0].resolved, 1);
        assert_int_equal(k->node[0].moved, 0);
        net_kit_free(k);
    }
}

/* After three unicast requests to the old MAC, three broadcasts: another machine answers. */
static void test_probe_in_vain(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families) * 2; i++) {
        const struct family *f = &families[i / 2];
        struct net_kit *k = alone();
        bool heir = i & 1;

        resolve_peer(k, f);
        answer(k, f, net_peer, true);
        net_kit_run(k, 30 * SEC);
        net_kit_clear(k);
        assert_int_equal(resolve_peer(k, f), 0);
        net_kit_run(k, 3 * SEC - 1);
        assert_int_equal(peer_state(k, f), NET_PROBE);
        assert_int_equal(resolve_peer(k, f), 0);
        assert_int_equal(k->sent, 3);
        net_kit_run(k, 1);
        assert_int_equal(peer_state(k, f), NET_INCOMPLETE);
        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        assert_int_equal(k->sent, 4);
        assert_true(net_kit_sent(k, 2)->bytes[0] == 2 && net_kit_sent(k, 3)->bytes[0] & 1);
        if (heir) {
            answer(k, f, net_other, true);
            assert_int_equal(k->node[0].moved, 1);
            assert_memory_equal(k->node[0].moved_mac, net_other, 6);
            assert_int_equal(k->node[0].resolved, 2);
            assert_int_equal(peer_state(k, f), NET_REACHABLE);
        } else {
            net_kit_run(k, 3 * SEC);
            assert_int_equal(k->sent, 6);
            assert_int_equal(k->node[0].moved, 0);
            assert_int_equal(k->node[0].resolved, 2);
            assert_int_equal(peer_state(k, f), NET_FAILED);
        }
        net_kit_free(k);
    }
}

/* A resolution that begins just before a probe fails, after the link came back, still succeeds. */
static void test_late_to_a_question(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = alone();

        resolve_peer(k, f);
        answer(k, f, net_peer, true);
        net_host_link(k->node[0].h, false, k->now);
        net_host_link(k->node[0].h, true, k->now);
        net_kit_run(k, 2 * SEC + 999 * MS); /* three times, beginning within the first second */
        assert_int_equal(peer_state(k, f), NET_INCOMPLETE);
        net_kit_clear(k);
        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        net_kit_run(k, 2 * SEC);
        assert_int_equal(peer_state(k, f), NET_INCOMPLETE);
        assert_int_equal(k->node[0].resolved, 1);
        answer(k, f, net_peer, true);
        assert_int_equal(k->node[0].resolved, 2);
        assert_int_equal(resolve_peer(k, f), 0);
        net_kit_free(k);
    }
}

static void test_moved(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = alone();
        union gid peer = gid_of(f->peer);

        answer(k, f, net_peer, false); /* ignored: there is no entry */
        assert_int_equal(peer_state(k, f), -1);
        resolve_peer(k, f);
        answer(k, f, net_peer, true);
        answer(k, f, net_peer, false);
        assert_int_equal(k->node[0].moved, 0);
        assert_int_equal(peer_state(k, f), NET_REACHABLE);
        answer(k, f, net_other, false); /* gratuitous */
        assert_int_equal(k->node[0].moved, 1);
        assert_true(gid_eq(&k->node[0].moved_hop, &peer));
        assert_int_equal(k->node[0].moved_vlan, VLAN_NONE);
        assert_memory_equal(k->node[0].moved_mac, net_other, 6);
        assert_int_equal(peer_state(k, f), NET_STALE);
        assert_int_equal(resolve_peer(k, f), 0);
        assert_memory_equal(net_kit_path.mac, net_other, 6);
        answer(k, f, net_other, true);
        assert_int_equal(k->node[0].moved, 1);
        assert_int_equal(k->node[0].resolved, 1);
        net_kit_free(k);
    }
}

/* A gratuitous request, ARP's other announcement. */
static void test_moved_by_request(void **state)
{
    struct net_kit *k = alone();
    struct net_frame f;

    resolve_peer(k, families);
    answer(k, families, net_peer, true);
    f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_other, "10.0.0.2", "10.0.0.2");
    net_kit_rx(k, &f);
    assert_int_equal(k->node[0].moved, 1);
    assert_int_equal(peer_state(k, families), NET_STALE);
    net_kit_free(k);
}

/* RFC 4861 7.2.5, each combination in each state. */
static void test_advertisements(void **state)
{
    enum { S = 0x40, O = 0x20 };
    static const struct {
        enum net_neighbour_state before;
        uint8_t flags;
        enum { NO_MAC, SAME_MAC, NEW_MAC } mac;
        enum net_neighbour_state after;
        bool moved;
    } cases[] = {
        {NET_INCOMPLETE, S | O, NO_MAC, NET_INCOMPLETE, false},
        {NET_INCOMPLETE, 0, NEW_MAC, NET_STALE, false},
        {NET_INCOMPLETE, S, NEW_MAC, NET_REACHABLE, false},
        {NET_REACHABLE, 0, NEW_MAC, NET_STALE, false},
        {NET_REACHABLE, S, NEW_MAC, NET_STALE, false},
        {NET_REACHABLE, O, NEW_MAC, NET_STALE, true},
        {NET_REACHABLE, S | O, NEW_MAC, NET_REACHABLE, true},
        {NET_REACHABLE, 0, SAME_MAC, NET_REACHABLE, false},
        {NET_REACHABLE, O, NO_MAC, NET_REACHABLE, false},
        {NET_STALE, S, NO_MAC, NET_REACHABLE, false},
        {NET_STALE, S, SAME_MAC, NET_REACHABLE, false},
        {NET_STALE, S, NEW_MAC, NET_STALE, false},
        {NET_STALE, O, NEW_MAC, NET_STALE, true},
        {NET_STALE, 0, SAME_MAC, NET_STALE, false},
        {NET_PROBE, S, SAME_MAC, NET_REACHABLE, false},
        {NET_PROBE, S, NO_MAC, NET_REACHABLE, false},
        {NET_PROBE, O, SAME_MAC, NET_PROBE, false},
        {NET_PROBE, 0, NEW_MAC, NET_PROBE, false},
        {NET_PROBE, O, NEW_MAC, NET_STALE, true},
        {NET_FAILED, S, SAME_MAC, NET_REACHABLE, false},
        {NET_FAILED, S, NO_MAC, NET_FAILED, false},
    };
    const struct family *v6 = &families[1];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_kit *k = alone();
        bool was = cases[i].before == NET_REACHABLE || cases[i].before == NET_STALE ||
                   cases[i].before == NET_PROBE;
        struct net_frame f =
            net_nd(&(struct net_nd){.src = v6->peer,
                                    .dst = v6->us,
                                    .target = v6->peer,
                                    .type = 136,
                                    .flags = cases[i].flags,
                                    .option = cases[i].mac == NO_MAC ? 0 : 2,
                                    .mac = cases[i].mac == NEW_MAC ? net_other : net_peer});

        resolve_peer(k, v6);
        if (was)
            answer(k, v6, net_peer, true);
        if (cases[i].before == NET_STALE || cases[i].before == NET_PROBE)
            net_kit_run(k, 30 * SEC);
        if (cases[i].before == NET_PROBE)
            resolve_peer(k, v6);
        if (cases[i].before == NET_FAILED)
            net_kit_run(k, 3 * SEC);
        assert_int_equal(peer_state(k, v6), cases[i].before);
        net_kit_rx(k, &f);
        assert_int_equal(peer_state(k, v6), cases[i].after);
        assert_int_equal(k->node[0].moved, cases[i].moved);
        net_kit_free(k);
    }
}

/* No host has the MAC that they name. */
static void test_macs_of_none(void **state)
{
    static const uint8_t macs[][6] = {{0}, {0x33, 0x33, 0, 0, 0, 1}};

    for (size_t i = 0; i < ARRAY_SIZE(macs); i++)
        for (size_t f = 0; f < ARRAY_SIZE(families); f++) {
            struct net_kit *k = alone();

            resolve_peer(k, &families[f]);
            answer(k, &families[f], macs[i], true);
            assert_int_equal(peer_state(k, &families[f]), NET_INCOMPLETE);
            answer(k, &families[f], net_peer, true);
            answer(k, &families[f], macs[i], false);
            assert_int_equal(peer_state(k, &families[f]), NET_REACHABLE);
            assert_int_equal(k->node[0].moved, 0);
            net_kit_free(k);
        }
}

static void test_learning_from_requests(void **state)
{
    static const struct {
        const char *spa, *tpa;
        int state;
    } cases[] = {
        {"10.0.0.2", "10.0.0.1", NET_STALE},
        {"10.0.0.2", "10.0.0.3", -1}, /* not for this host */
        {"10.1.0.2", "10.0.0.1", -1}, /* not on this link */
    };
    struct net_kit *k;
    struct net_frame f;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        k = alone();
        f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, cases[i].spa, cases[i].tpa);
        net_kit_rx(k, &f);
        assert_int_equal(net_kit_state(k, 0, cases[i].spa, VLAN_NONE), cases[i].state);
        net_kit_free(k);
    }
    /* A request from the host that is being resolved. */
    k = alone();
    resolve_peer(k, families);
    f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.2", "10.0.0.7");
    net_kit_rx(k, &f);
    assert_int_equal(k->node[0].resolved, 1);
    assert_int_equal(peer_state(k, families), NET_STALE);
    assert_int_equal(resolve_peer(k, families), 0);
    net_kit_free(k);
    k = alone();
    f = net_nd(&(struct net_nd){.src = "fd00::2",
                                .dst = "ff02::1:ff00:1",
                                .target = "fd00::1",
                                .type = 135,
                                .option = 1,
                                .mac = net_peer});
    net_kit_rx(k, &f);
    assert_int_equal(peer_state(k, &families[1]), NET_STALE);
    net_kit_free(k);
}

static void test_static(void **state)
{
    struct net_kit *k = alone();
    union gid peer = gid_of("10.0.0.2");
    struct net_host *h = k->node[0].h;

    resolve_peer(k, families);
    assert_int_equal(net_host_add_neighbour(h, &peer, VLAN_NONE, net_peer), 0);
    assert_int_equal(k->node[0].resolved, 1);
    assert_int_equal(peer_state(k, families), NET_STATIC);
    net_kit_clear(k);
    answer(k, families, net_other, true);
    net_kit_run(k, 100 * SEC);
    assert_int_equal(resolve_peer(k, families), 0);
    assert_memory_equal(net_kit_path.mac, net_peer, 6);
    assert_int_equal(k->sent, 0);
    assert_int_equal(k->node[0].moved, 0);
    net_host_link(h, false, k->now);
    net_host_link(h, true, k->now);
    assert_int_equal(resolve_peer(k, families), 0);
    assert_int_equal(net_host_add_neighbour(h, &peer, VLAN_NONE, net_other), 0);
    assert_int_equal(k->node[0].moved, 1);
    assert_int_equal(resolve_peer(k, families), 0);
    assert_memory_equal(net_kit_path.mac, net_other, 6);
    /* In every VLAN, unless the VLAN has its own. */
    net_kit_address(k, 0, "10.0.0.1/24", 7);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 7), 0);
    assert_memory_equal(net_kit_path.mac, net_other, 6);
    assert_int_equal(net_host_add_neighbour(h, &peer, 7, net_peer), 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 7), 0);
    assert_memory_equal(net_kit_path.mac, net_peer, 6);
    assert_int_equal(resolve_peer(k, families), 0);
    assert_memory_equal(net_kit_path.mac, net_other, 6);
    net_kit_free(k);
}

/* A static neighbour for every VLAN replaces the learned entries of each VLAN. */
static void test_static_everywhere(void **state)
{
    struct net_kit *k = alone();
    union gid peer = gid_of("10.0.0.2");
    struct net_frame f;

    net_kit_address(k, 0, "10.0.0.1/24", 7);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 7), -EINPROGRESS);
    f = net_arp(7, k->node[0].mac, ARP_ANSWER, net_peer, "10.0.0.2", "10.0.0.1");
    net_kit_rx(k, &f);
    assert_int_equal(net_kit_state(k, 0, "10.0.0.2", 7), NET_REACHABLE);
    assert_int_equal(net_host_add_neighbour(k->node[0].h, &peer, VLAN_NONE, net_other), 0);
    assert_int_equal(k->node[0].moved, 1);
    assert_int_equal(k->node[0].moved_vlan, 7);
    assert_int_equal(net_kit_state(k, 0, "10.0.0.2", 7), -1);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 7), 0);
    assert_memory_equal(net_kit_path.mac, net_other, 6);
    net_kit_free(k);
}

static void test_static_refused(void **state)
{
    static const uint8_t none[6] = {0};
    struct net_kit *k = alone();
    struct net_host *h = k->node[0].h;
    union gid peer = gid_of("10.0.0.2"), group = gid_of("224.0.0.9");

    assert_int_equal(net_host_add_neighbour(h, &peer, VLAN_NONE, net_broadcast), -EINVAL);
    assert_int_equal(net_host_add_neighbour(h, &peer, VLAN_NONE, none), -EINVAL);
    assert_int_equal(net_host_add_neighbour(h, &peer, 0, net_peer), -EINVAL);
    assert_int_equal(net_host_add_neighbour(h, &peer, 4095, net_peer), -EINVAL);
    assert_int_equal(net_host_add_neighbour(h, &group, VLAN_NONE, net_peer), -EINVAL);
    net_kit_free(k);
}

static const char *numbered(char text[32], unsigned i)
{
    snprintf(text, 32, "10.0.%u.%u", 1 + i / 200, 1 + i % 200);
    return text;
}

/* Unsolicited announcements never evict an entry in use. */
static void test_table_full(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    struct net_frame f;
    char text[32];

    net_kit_address(k, 0, "10.0.0.1/16", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    for (unsigned i = 0; i < 4 * NET_NEIGHBOUR_MAX; i++) { /* a flood */
        f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, numbered(text, i), "10.0.0.1");
        net_kit_rx(k, &f);
        net_kit_clear(k);
    }
    for (unsigned i = 0; i < NET_NEIGHBOUR_MAX; i++) { /* all of them evicted by entries in use */
        union gid addr = gid_of(numbered(text, 5000 + i));

        assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", text, VLAN_NONE), -EINPROGRESS);
        assert_true(gid_eq(&addr, &net_kit_path.next_hop));
        f = net_arp(VLAN_NONE, k->node[0].mac, ARP_ANSWER, net_peer, text, "10.0.0.1");
        net_kit_rx(k, &f);
        net_kit_clear(k);
    }
    assert_int_equal(k->node[0].resolved, NET_NEIGHBOUR_MAX);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.77", VLAN_NONE), -EHOSTUNREACH);
    f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.78", "10.0.0.1");
    net_kit_rx(k, &f);
    assert_int_equal(k->sent, 1); /* answered, but not learned */
    assert_int_equal(net_kit_state(k, 0, "10.0.0.78", VLAN_NONE), -1);
    net_kit_run(k, 50 * SEC);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", numbered(text, 5000), VLAN_NONE), 0);
    f = net_arp(VLAN_NONE, k->node[0].mac, ARP_ANSWER, net_peer, text, "10.0.0.1");
    net_kit_rx(k, &f);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.77", VLAN_NONE), -EHOSTUNREACH);
    net_kit_run(k, 10 * SEC);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.77", VLAN_NONE), -EINPROGRESS);
    /* The entry used ten seconds ago is not evicted. */
    assert_int_not_equal(net_kit_state(k, 0, numbered(text, 5000), VLAN_NONE), -1);
    assert_int_equal(net_kit_state(k, 0, numbered(text, 5001), VLAN_NONE), -1);
    net_kit_free(k);
}

/* The peer did not answer probes and has another MAC now: traffic to the old MAC follows. */
static void test_moved_while_away(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families) * 2; i++) {
        const struct family *f = &families[i / 2];
        struct net_kit *k = alone();

        resolve_peer(k, f);
        answer(k, f, net_peer, true);
        if (i & 1) { /* no requests until the link is back */
            net_host_link(k->node[0].h, false, k->now);
            net_host_link(k->node[0].h, true, k->now);
        } else {
            net_kit_run(k, 40 * SEC);
            resolve_peer(k, f);
            net_kit_run(k, 4 * SEC);
            resolve_peer(k, f);
        }
        net_kit_run(k, 20 * SEC);
        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        assert_int_equal(k->node[0].moved, 0);
        answer(k, f, net_other, true);
        assert_int_equal(k->node[0].moved, 1);
        assert_memory_equal(k->node[0].moved_mac, net_other, 6);
        net_kit_free(k);
    }
}

/* Unanswered requests do not block other resolutions. */
static void test_table_full_of_questions(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    struct net_frame f;
    char text[32];

    net_kit_address(k, 0, "10.0.0.1/16", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    for (unsigned i = 0; i < NET_NEIGHBOUR_MAX; i++) {
        assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", numbered(text, 5000 + i), VLAN_NONE),
                         -EINPROGRESS);
        k->now += 100 * NS_PER_US;
        net_kit_clear(k);
    }
    assert_int_equal(k->node[0].resolved, 0);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.77", VLAN_NONE), -EINPROGRESS);
    assert_int_equal(k->sent, 1);
    /* The oldest resolution fails, and its caller is notified. */
    assert_int_equal(k->node[0].resolved, 1);
    assert_true(gid_eq(&k->node[0].resolved_hop, (union gid[]){gid_of(numbered(text, 5000))}));
    f = net_arp(VLAN_NONE, k->node[0].mac, ARP_ANSWER, net_peer, "10.0.0.77", "10.0.0.1");
    net_kit_rx(k, &f);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.77", VLAN_NONE), 0);
    /* Peers cannot cause this: their announcements are not learned. */
    f = net_arp(VLAN_NONE, net_broadcast, ARP_ASK, net_peer, "10.0.0.78", "10.0.0.1");
    net_kit_rx(k, &f);
    assert_int_equal(net_kit_state(k, 0, "10.0.0.78", VLAN_NONE), -1);
    net_kit_free(k);
}

/* Questions without an answer leave the known neighbours in the table, also those that were not
 * asked for lately: when one of these moves, connections to it follow. */
static void test_questions_leave_neighbours(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    char text[32];

    net_kit_address(k, 0, "10.0.0.1/16", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    resolve_peer(k, &families[0]);
    answer(k, &families[0], net_peer, true);
    net_kit_run(k, 100 * SEC);
    for (unsigned i = 0; i < 8 * NET_NEIGHBOUR_MAX; i++) { /* some fail, and are free again */
        assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", numbered(text, 5000 + i), VLAN_NONE),
                         -EINPROGRESS);
        net_kit_run(k, MS + (i < NET_NEIGHBOUR_MAX ? 0 : 5 * MS));
        net_kit_clear(k);
    }
    answer(k, &families[0], net_other, false);
    assert_int_equal(k->node[0].moved, 1);
    assert_memory_equal(k->node[0].moved_mac, net_other, 6);
    net_kit_free(k);
}

/* After the link was down every neighbour is probed again, and a changed MAC is reported. */
static void test_link(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families) * 2; i++) {
        const struct family *f = &families[i / 2];
        const uint8_t *mac = i & 1 ? net_other : net_peer;
        struct net_kit *k = alone();

        resolve_peer(k, f);
        answer(k, f, net_peer, true);
        net_host_link(k->node[0].h, false, k->now);
        net_kit_clear(k);
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 0);
        net_host_link(k->node[0].h, true, k->now);
        assert_int_equal(resolve_peer(k, f), -EINPROGRESS);
        net_kit_settle(k);
        answer(k, f, mac, true);
        assert_int_equal(resolve_peer(k, f), 0);
        assert_memory_equal(net_kit_path.mac, mac, 6);
        assert_int_equal(k->node[0].moved, i & 1);
        assert_int_equal(k->node[0].resolved, 2);
        /* Also when the entry is not in use at that moment. */
        net_host_link(k->node[0].h, false, k->now);
        net_host_link(k->node[0].h, true, k->now);
        net_kit_run(k, SEC);
        answer(k, f, net_broadcast, true); /* malformed */
        answer(k, f, i & 1 ? net_peer : net_other, true);
        assert_int_equal(k->node[0].moved, (i & 1) + 1);
        assert_int_equal(k->node[0].resolved, 2);
        net_kit_free(k);
    }
}

/* No frame is sent while the link is down, and pending resolutions fail. */
static void test_link_down(void **state)
{
    struct net_kit *k = alone();
    uint64_t before = net_kit_count(k)->arp_tx;

    net_host_link(k->node[0].h, false, k->now);
    assert_int_equal(resolve_peer(k, families), -EINPROGRESS);
    net_kit_run(k, 3 * SEC);
    assert_int_equal(k->node[0].resolved, 1);
    assert_int_equal(resolve_peer(k, families), -EHOSTUNREACH);
    assert_int_equal(k->sent, 0);
    assert_int_equal(net_kit_count(k)->arp_tx, before);
    net_kit_free(k);
}

static void resolve_again(struct net_node *n)
{
    assert_int_equal(net_kit_resolve(n->kit, 0, "10.0.0.1", "10.0.0.2", VLAN_NONE), 0);
    assert_int_equal(net_kit_resolve(n->kit, 0, "10.0.0.1", "10.0.0.3", VLAN_NONE), -EINPROGRESS);
}

static void test_callback_calls(void **state)
{
    struct net_kit *k = alone();

    k->node[0].on_resolved = resolve_again;
    resolve_peer(k, families);
    answer(k, families, net_peer, true);
    assert_int_equal(k->node[0].resolved, 1);
    assert_int_equal(net_kit_state(k, 0, "10.0.0.3", VLAN_NONE), NET_INCOMPLETE);
    net_kit_free(k);
}

/* A neighbour in one VLAN is unknown in another. */
static void test_vlans(void **state)
{
    struct net_kit *k = net_kit_new(2, false);

    for (unsigned i = 0; i < 2; i++) {
        net_kit_address(k, i, i ? "10.0.0.2/24" : "10.0.0.1/24", 5);
        net_kit_address(k, i, i ? "10.0.0.2/24" : "10.0.0.1/24", i ? 7 : 6);
    }
    net_kit_run(k, 10 * SEC);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 5), -EINPROGRESS);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 6), -EINPROGRESS);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", VLAN_NONE), -ENETUNREACH);
    net_kit_settle(k);
    assert_int_equal(net_kit_state(k, 0, "10.0.0.2", 5), NET_REACHABLE);
    assert_int_equal(net_kit_state(k, 0, "10.0.0.2", 6), NET_INCOMPLETE);
    net_kit_run(k, 3 * SEC);
    assert_int_equal(net_kit_resolve(k, 0, "10.0.0.1", "10.0.0.2", 6), -EHOSTUNREACH);
    net_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hosts),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_failure_without_timers),
        cmocka_unit_test(test_staleness_without_timers),
        cmocka_unit_test(test_stale_and_probe),
        cmocka_unit_test(test_probe_in_vain),
        cmocka_unit_test(test_late_to_a_question),
        cmocka_unit_test(test_moved),
        cmocka_unit_test(test_moved_by_request),
        cmocka_unit_test(test_advertisements),
        cmocka_unit_test(test_macs_of_none),
        cmocka_unit_test(test_learning_from_requests),
        cmocka_unit_test(test_static),
        cmocka_unit_test(test_static_everywhere),
        cmocka_unit_test(test_static_refused),
        cmocka_unit_test(test_table_full),
        cmocka_unit_test(test_moved_while_away),
        cmocka_unit_test(test_table_full_of_questions),
        cmocka_unit_test(test_questions_leave_neighbours),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_link_down),
        cmocka_unit_test(test_callback_calls),
        cmocka_unit_test(test_vlans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
