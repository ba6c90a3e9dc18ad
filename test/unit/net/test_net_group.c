/* SPDX-License-Identifier: BSD-3-Clause */
/* Membership: joins and leaves, answers to queriers of every version, groups that are never
 * reported. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "frame_layout.h"
#include "net_kit.h"
#include "unit.h"

enum { IS_EXCLUDE = 2, TO_INCLUDE = 3, TO_EXCLUDE = 4 };

static const struct family {
    const char *address, *us, *group, *other, *all, *routers, *reports, *querier;
    bool ipv4;
    uint8_t query, old_report, old_leave, report;
} families[] = {
    {"10.0.0.1/24", "10.0.0.1", "239.1.2.3", "239.1.2.4", "224.0.0.1", "224.0.0.2", "224.0.0.22",
     "10.0.0.254", true, 0x11, 0x16, 0x17, 0x22},
    {"fe80::1/64", "fe80::1", "ff0e::123", "ff0e::124", "ff02::1", "ff02::2", "ff02::16",
     "fe80::ff", false, 130, 131, 132, 143},
};

static struct net_kit *member(const struct family *f)
{
    struct net_kit *k = net_kit_new(1, false);

    net_kit_address(k, 0, f->address, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    return k;
}

static int join(struct net_kit *k, const char *group, uint16_t vlan)
{
    union gid g = gid_of(group);

    return net_host_join(k->node[0].h, &g, vlan, k->now);
}

static int leave(struct net_kit *k, const char *group, uint16_t vlan)
{
    union gid g = gid_of(group);

    return net_host_leave(k->node[0].h, &g, vlan, k->now);
}

/* The fields of a query; len 0: of the current version. */
struct query {
    uint32_t code; /* maximum response */
    const char *group;
    uint8_t len, qrv, hops;
    bool no_alert;
    const char *src;
    uint16_t vlan, sources;
};

static struct net_frame query_frame(const struct family *f, const struct query *q)
{
    union gid group = q->group ? gid_of(q->group) : inet_unspecified(f->ipv4);
    struct inet_tx tx = {.vlan = q->vlan ? q->vlan : VLAN_NONE,
                         .src = gid_of(q->src ? q->src : f->querier),
                         .dst = gid_of(q->group ? q->group : f->all),
                         .proto = f->ipv4 ? IP_PROTO_IGMP : IP_PROTO_ICMPV6,
                         .hop_limit = q->hops ? q->hops : 1,
                         .router_alert = !q->no_alert};
    uint8_t message[64] = {f->query};

    if (f->ipv4) {
        message[1] = (uint8_t)q->code;
        memcpy(message + 4, group.raw + 12, 4);
        message[8] = q->qrv;
        put_be16(message + 10, q->sources);
    } else {
        put_be16(message + 4, (uint16_t)q->code);
        memcpy(message + 8, group.raw, 16);
        message[24] = q->qrv;
        put_be16(message + 26, q->sources);
    }
    gid_multicast_mac(&tx.dst, tx.dmac);
    return net_packet(net_peer, &tx, message, q->len ? q->len : f->ipv4 ? 12 : 28);
}

static void ask(struct net_kit *k, const struct family *f, const struct query *q)
{
    struct net_frame frame = query_frame(f, q);

    net_kit_rx(k, &frame);
}

/* A report of the current version: the type of the group's record, or 0. */
static unsigned record(const struct net_kit *k, const struct family *f, unsigned index,
                       const char *group)
{
    struct inet_rx r = net_parse(net_kit_sent(k, index));
    union gid to = gid_of(f->reports), us = gid_of(f->us), g = gid_of(group);
    uint32_t size = f->ipv4 ? 8 : 20, len = f->ipv4 ? 4 : 16;
    uint8_t mac[6];

    gid_multicast_mac(&to, mac);
    assert_memory_equal(r.dmac, mac, 6);
    assert_true(gid_eq(&r.dst, &to) && gid_eq(&r.src, &us));
    assert_int_equal(r.hop_limit, 1);
    assert_true(f->ipv4 || r.router_alert);
    assert_int_equal(r.data[0], f->report);
    assert_int_equal(r.len, 8 + get_be16(r.data + 6) * size);
    for (uint32_t at = 8; at < r.len; at += size) {
        assert_int_equal(r.data[at + 1], 0);
        assert_int_equal(get_be16(r.data + at + 2), 0);
        if (!memcmp(r.data + at + 4, g.raw + 16 - len, len))
            return r.data[at];
    }
    return 0;
}

/* A report or leave of an older version. */
static void check_old(const struct net_kit *k, const struct family *f, unsigned index, uint8_t type,
                      const char *to, const char *group)
{
    struct inet_rx r = net_parse(net_kit_sent(k, index));
    union gid dst = gid_of(to), g = gid_of(group);

    assert_true(gid_eq(&r.dst, &dst));
    assert_int_equal(r.hop_limit, 1);
    assert_int_equal(r.data[0], type);
    assert_int_equal(r.len, f->ipv4 ? 8 : 24);
    assert_memory_equal(r.data + (f->ipv4 ? 4 : 8), g.raw + (f->ipv4 ? 12 : 0), f->ipv4 ? 4 : 16);
}

/* Twice each: at once and within a second. */
static void test_join_and_leave(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);
        ns_t start = k->now;

        for (unsigned n = 0; n < 2; n++)
            assert_int_equal(join(k, f->group, VLAN_NONE), 0); /* counted */
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 2);
        assert_int_equal(record(k, f, 0, f->group), TO_EXCLUDE);
        assert_int_equal(record(k, f, 1, f->group), TO_EXCLUDE);
        assert_int_equal(net_kit_sent(k, 0)->at, start);
        assert_in_range(net_kit_sent(k, 1)->at, start + 1, start + SEC);
        net_kit_clear(k);
        assert_int_equal(leave(k, f->group, VLAN_NONE), 0);
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 0); /* one is left */
        start = k->now;
        assert_int_equal(leave(k, f->group, VLAN_NONE), 0);
        assert_int_equal(leave(k, f->group, VLAN_NONE), -ENOENT);
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 2);
        assert_int_equal(record(k, f, 0, f->group), TO_INCLUDE);
        assert_int_equal(record(k, f, 1, f->group), TO_INCLUDE);
        assert_int_equal(net_kit_sent(k, 0)->at, start);
        assert_true(net_host_next_timer(k->node[0].h) == NS_NEVER);
        net_kit_free(k);
    }
}

/* A change that follows before the report is sent replaces the first one in it. */
static void test_second_thoughts(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);

        join(k, f->group, VLAN_NONE);
        net_kit_settle(k);
        leave(k, f->group, VLAN_NONE);
        net_kit_settle(k);
        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 4);
        assert_int_equal(record(k, f, 1, f->group), TO_INCLUDE);
        assert_int_equal(record(k, f, 2, f->group), TO_EXCLUDE);
        assert_int_equal(record(k, f, 3, f->group), TO_EXCLUDE);
        net_kit_free(k);
    }
}

static void test_never_reported(void **state)
{
    static const char *const groups[] = {"224.0.0.1", "ff02::1", "ff01::5", "ff00::5"};
    struct net_kit *k = member(&families[0]);

    net_kit_address(k, 0, "fe80::1/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        assert_int_equal(join(k, groups[i], VLAN_NONE), 0);
    net_kit_run(k, 20 * SEC);
    ask(k, &families[0], &(struct query){.code = 10});
    net_kit_run(k, 20 * SEC);
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        assert_int_equal(leave(k, groups[i], VLAN_NONE), 0);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 0);
    net_kit_free(k);
}

static void test_refused(void **state)
{
    struct net_kit *k = member(&families[0]);
    char text[32];

    assert_int_equal(join(k, "10.0.0.5", VLAN_NONE), -EINVAL);
    assert_int_equal(join(k, "fd00::5", VLAN_NONE), -EINVAL);
    assert_int_equal(join(k, "239.0.0.1", 0), -EINVAL);
    assert_int_equal(join(k, "239.0.0.1", 4095), -EINVAL);
    assert_int_equal(leave(k, "10.0.0.5", VLAN_NONE), -EINVAL);
    assert_int_equal(leave(k, "239.0.0.1", VLAN_NONE), -ENOENT);
    for (unsigned i = 0; i < NET_GROUP_MAX; i++) {
        snprintf(text, sizeof(text), "239.0.1.%u", i);
        assert_int_equal(join(k, text, VLAN_NONE), 0);
    }
    assert_int_equal(join(k, "239.0.0.1", VLAN_NONE), -ENOSPC);
    assert_int_equal(join(k, "239.0.1.0", VLAN_NONE), 0); /* a second time */
    assert_int_equal(join(k, "239.0.1.0", 7), 0);         /* another VLAN has room of its own */
    /* The host's own groups have slots of their own. */
    for (unsigned i = 1; i < NET_ADDRESS_MAX; i++) {
        snprintf(text, sizeof(text), "fe80::%u/64", i);
        net_kit_address(k, 0, text, VLAN_NONE);
    }
    /* A group that was left frees its slot at once, reported or not. */
    assert_int_equal(leave(k, "239.0.1.7", VLAN_NONE), 0);
    assert_int_equal(join(k, "239.0.0.1", VLAN_NONE), 0);
    assert_int_equal(join(k, "239.0.1.7", VLAN_NONE), -ENOSPC);
    net_kit_run(k, 20 * SEC);
    net_kit_free(k);
}

/* Many groups are reported in few packets, none longer than the port's MTU. */
static void test_many(void **state)
{
    static const unsigned per_packet[] = {(1500 - 24 - 8) / 8, (1500 - 48 - 8) / 20};

    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);
        unsigned packets = (NET_GROUP_MAX + per_packet[i] - 1) / per_packet[i], records = 0;
        char text[32];

        for (unsigned n = 0; n < NET_GROUP_MAX; n++) {
            snprintf(text, sizeof(text), f->ipv4 ? "239.0.1.%u" : "ff0e::%u", n);
            assert_int_equal(join(k, text, VLAN_NONE), 0);
        }
        net_kit_settle(k);
        assert_int_equal(k->sent, packets);
        for (unsigned n = 0; n < packets; n++) {
            assert_in_range(net_kit_sent(k, n)->len, 14, 1514);
            records += get_be16(net_parse(net_kit_sent(k, n)).data + 6);
        }
        assert_int_equal(records, NET_GROUP_MAX);
        net_kit_free(k);
    }
}

/* A port joins a group in each of its VLANs: all of them have room for as many groups, and there is
 * an end to it. */
static void test_many_in_many_vlans(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    char text[32];

    for (uint16_t vlan = 1; vlan <= NET_VLAN_MAX; vlan++) {
        for (unsigned i = 0; i < NET_GROUP_MAX; i++) {
            snprintf(text, sizeof(text), "239.0.1.%u", i);
            assert_int_equal(join(k, text, vlan), 0);
        }
        assert_int_equal(join(k, "239.0.2.1", vlan), -ENOSPC);
    }
    assert_int_equal(join(k, "239.0.1.1", NET_VLAN_MAX + 1), -ENOSPC);
    assert_int_equal(leave(k, "239.0.1.7", 7), 0);
    assert_int_equal(join(k, "239.0.2.1", 7), 0);
    net_kit_free(k);
}

/* A general query is answered for all groups at one random time within its maximum response time.
 */
static void test_general_query(void **state)
{
    static const struct {
        uint32_t code[2];
        ns_t most;
    } cases[] = {{{100, 10000}, 10 * SEC},
                 {{1, 100}, 100 * MS},
                 {{0, 0}, 10 * MS},
                 /* floating point: (15 + 16) << 3 tenths, (0x200 + 0x1000) << 4 milliseconds */
                 {{0x8F, 0x8200 | 0x1000}, 0}};

    for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
        const struct family *f = &families[i % 2];
        struct net_kit *k = member(f);
        ns_t most = cases[i / 2].most, start;

        if (!most)
            most = f->ipv4 ? 248 * 100 * MS : (ns_t)((0x200 + 0x1000) << 4) * MS;
        join(k, f->group, VLAN_NONE);
        join(k, f->other, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        start = k->now;
        ask(k, f, &(struct query){.code = cases[i / 2].code[!f->ipv4]});
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 1);
        assert_in_range(net_kit_sent(k, 0)->at, start + 10 * MS, start + most);
        assert_int_equal(record(k, f, 0, f->group), IS_EXCLUDE);
        assert_int_equal(record(k, f, 0, f->other), IS_EXCLUDE);
        net_kit_free(k);
    }
}

/* The delay is random: over many queries all tenths of the interval occur. */
static void test_delay_is_spread(void **state)
{
    struct net_kit *k = member(&families[0]);
    unsigned tenths = 0;

    join(k, "239.1.2.3", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    for (unsigned i = 0; i < 200; i++) {
        ns_t start = k->now;

        net_kit_clear(k);
        ask(k, &families[0], &(struct query){.code = 100});
        net_kit_run(k, 10 * SEC);
        assert_int_equal(k->sent, 1);
        tenths |= 1u << (net_kit_sent(k, 0)->at - start) / SEC;
    }
    assert_int_equal(tenths & 0x3FF, 0x3FF);
    net_kit_free(k);
}

static void test_group_query(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);

        join(k, f->group, VLAN_NONE);
        join(k, f->other, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        ask(k, f, &(struct query){.code = 10, .group = f->group});
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 1);
        assert_int_equal(record(k, f, 0, f->group), IS_EXCLUDE);
        assert_int_equal(record(k, f, 0, f->other), 0);
        /* So is a query for sources: the host accepts all sources. */
        ask(k, f,
            &(struct query){.code = 10, .group = f->other, .len = f->ipv4 ? 16 : 44, .sources = 1});
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 2);
        assert_int_equal(record(k, f, 1, f->other), IS_EXCLUDE);
        /* A query for a group without a local member. */
        ask(k, f, &(struct query){.code = 10, .group = f->ipv4 ? "239.9.9.9" : "ff0e::9"});
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 2);
        net_kit_free(k);
    }
}

/* Of two pending answers the earlier one serves both queries. */
static void test_queries_merge(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);
        ns_t start;

        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        start = k->now;
        for (unsigned n = 0; n < 100; n++)
            ask(k, f, &(struct query){.code = f->ipv4 ? 100 : 10000});
        ask(k, f, &(struct query){.code = f->ipv4 ? 1 : 100, .group = f->group});
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 1);
        assert_in_range(net_kit_sent(k, 0)->at, start, start + 100 * MS);
        net_kit_free(k);
    }
}

/* A flood of queries that ask for an immediate answer causes few reports. */
static void test_query_flood(void **state)
{
    struct net_kit *k = member(&families[0]);

    join(k, "239.1.2.3", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    for (unsigned i = 0; i < 1000; i++) {
        ask(k, &families[0], &(struct query){.code = 0});
        net_kit_run(k, MS);
    }
    assert_in_range(k->sent, 1, 100);
    net_kit_free(k);
}

/* RFC 3376 7, RFC 3810 8: one report per group, and a leave, while the old querier is present. */
static void test_old_querier(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);
        struct query old = {.code = f->ipv4 ? 100 : 10000, .len = f->ipv4 ? 8 : 24};
        ns_t start;

        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        start = k->now;
        ask(k, f, &old);
        net_kit_run(k, 10 * SEC);
        assert_int_equal(k->sent, f->ipv4 ? 1 : 2); /* and the solicited-node group */
        for (unsigned n = 0; n < k->sent; n++)
            if (net_parse(net_kit_sent(k, n)).dst.raw[1] != 2)
                check_old(k, f, n, f->old_report, f->group, f->group);
        net_kit_clear(k);
        join(k, f->other, VLAN_NONE);
        net_kit_run(k, 11 * SEC);
        assert_int_equal(k->sent, 2);
        check_old(k, f, 0, f->old_report, f->other, f->other);
        check_old(k, f, 1, f->old_report, f->other, f->other);
        net_kit_clear(k);
        leave(k, f->other, VLAN_NONE);
        net_kit_run(k, 11 * SEC);
        assert_int_equal(k->sent, 1);
        check_old(k, f, 0, f->old_leave, f->routers, f->other);
        net_kit_clear(k);
        /* A query of the current version does not end this; 260 seconds without an old query do. */
        ask(k, f, &(struct query){.code = 10});
        net_kit_run(k, start + 260 * SEC - 1 - k->now);
        assert_int_equal(k->sent, f->ipv4 ? 1 : 2);
        assert_int_equal(net_parse(net_kit_sent(k, 0)).data[0], f->old_report);
        net_kit_clear(k);
        join(k, f->other, VLAN_NONE);
        net_kit_settle(k);
        check_old(k, f, 0, f->old_report, f->other, f->other);
        leave(k, f->other, VLAN_NONE);
        net_kit_settle(k);
        net_kit_clear(k);
        net_kit_run(k, 1);
        join(k, f->other, VLAN_NONE);
        net_kit_settle(k);
        assert_int_equal(k->sent, 1);
        assert_int_equal(record(k, f, 0, f->other), TO_EXCLUDE);
        net_kit_free(k);
    }
}

/* IGMPv1: other reports, no leave, ten seconds. */
static void test_igmp_v1(void **state)
{
    const struct family *f = &families[0];
    struct net_kit *k = member(f);

    join(k, f->group, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    ask(k, f, &(struct query){.len = 8});
    net_kit_run(k, 10 * SEC);
    assert_int_equal(k->sent, 1);
    check_old(k, f, 0, 0x12, f->group, f->group);
    leave(k, f->group, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 1);
    assert_true(net_host_next_timer(k->node[0].h) == NS_NEVER);
    net_kit_free(k);
}

/* When the version changes, what was pending is not sent; the query is answered. */
static void test_version_changes(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);

        join(k, f->group, VLAN_NONE);
        join(k, f->other, VLAN_NONE);
        net_kit_settle(k);
        leave(k, f->other, VLAN_NONE);
        net_kit_clear(k);
        ask(k, f, &(struct query){.code = 10, .len = f->ipv4 ? 8 : 24, .group = f->group});
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 1);
        check_old(k, f, 0, f->old_report, f->group, f->group);
        net_kit_free(k);
    }
}

/* In one VLAN an old querier, in the other none. */
static void test_vlans(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);

        net_kit_address(k, 0, f->address, 9);
        net_kit_run(k, 20 * SEC);
        ask(k, f, &(struct query){.code = 10, .len = f->ipv4 ? 8 : 24, .vlan = 9});
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        join(k, f->group, 9);
        net_kit_settle(k);
        join(k, f->group, VLAN_NONE);
        net_kit_settle(k);
        assert_int_equal(k->sent, 2);
        assert_int_equal(net_parse(net_kit_sent(k, 0)).vlan, 9);
        check_old(k, f, 0, f->old_report, f->group, f->group);
        assert_int_equal(record(k, f, 1, f->group), TO_EXCLUDE);
        net_kit_free(k);
    }
}

/* The querier's robustness: a change is reported this many times. */
static void test_robustness(void **state)
{
    static const struct {
        uint8_t qrv, reports;
    } cases[] = {{1, 1}, {2, 2}, {7, 7}, {0, 2}};

    for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
        const struct family *f = &families[i % 2];
        struct net_kit *k = member(f);

        ask(k, f, &(struct query){.code = 10, .qrv = 3});
        ask(k, f, &(struct query){.code = 10, .qrv = cases[i / 2].qrv});
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, cases[i / 2].reports);
        net_kit_free(k);
    }
}

static void test_bad_queries(void **state)
{
    static const struct {
        unsigned family;
        struct query q;
        bool malformed;
    } cases[] = {
        {0, {.code = 10, .hops = 2}, false},
        {0, {.code = 10, .len = 9}, true},
        {0, {.code = 10, .len = 11}, true},
        {0, {.code = 10, .sources = 1}, true},
        {0, {.code = 10, .group = "239.1.2.3", .len = 15, .sources = 1}, true},
        {0, {.code = 10, .group = "10.0.0.1"}, true},
        {1, {.code = 10, .hops = 2}, false},
        {1, {.code = 10, .no_alert = true}, false},
        {1, {.code = 10, .src = "fd00::1"}, false},
        {1, {.code = 10, .src = "::"}, false},
        {1, {.code = 10, .len = 20}, true},
        {1, {.code = 10, .len = 25}, true},
        {1, {.code = 10, .len = 27}, true},
        {1, {.code = 10, .sources = 1}, true},
        {1, {.code = 10, .group = "fe80::1"}, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct family *f = &families[cases[i].family];
        struct net_kit *k = member(f);
        struct net_frame frame = query_frame(f, &cases[i].q);

        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        if (!inet_mac_is_group(frame.bytes)) /* for an address that is no group */
            memcpy(frame.bytes, net_broadcast, 6);
        net_kit_rx(k, &frame);
        net_kit_run(k, 100 * SEC);
        assert_int_equal(k->sent, 0);
        assert_int_equal(net_kit_count(k)->malformed, cases[i].malformed);
        assert_int_equal(net_kit_count(k)->ignored, !cases[i].malformed);
        net_kit_free(k);
    }
}

/* The host is in a solicited-node group as long as one of its addresses needs it. */
static void test_solicited_nodes(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    const struct family *f = &families[1];
    union gid second = gid_of("fd00::1"), first = gid_of("fe80::1");
    static const char node[] = "ff02::1:ff00:1";

    net_kit_address(k, 0, "fe80::1/64", VLAN_NONE);
    net_kit_settle(k);
    net_kit_address(k, 0, "fd00::1/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    for (unsigned i = 0, n = 0; i < k->sent; i++)
        if (net_parse(net_kit_sent(k, i)).data[0] == 143) {
            assert_int_equal(record(k, f, i, node), TO_EXCLUDE);
            assert_in_range(++n, 1, 2);
        }
    net_kit_clear(k);
    net_host_remove_address(k->node[0].h, &second, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 0);
    join(k, node, VLAN_NONE); /* a program has joined it too */
    net_host_remove_address(k->node[0].h, &first, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 0);
    leave(k, node, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 2);
    assert_int_equal(net_parse(net_kit_sent(k, 0)).data[8], TO_INCLUDE);
    net_kit_free(k);
}

/* Without an address or a program that needs it the host leaves the group. */
static void test_solicited_node_left(void **state)
{
    struct net_kit *k = net_kit_new(1, false);
    union gid us = gid_of("fd00::77");

    net_kit_address(k, 0, "fe80::1/64", VLAN_NONE);
    net_kit_address(k, 0, "fd00::77/64", VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    net_host_remove_address(k->node[0].h, &us, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 2);
    assert_int_equal(record(k, &families[1], 0, "ff02::1:ff00:77"), TO_INCLUDE);
    net_kit_free(k);
}

/* A host in more VLANs than it remembers queriers of still answers in each of them. */
static void test_many_vlans(void **state)
{
    const struct family *f = &families[0];
    struct net_kit *k = member(f);

    for (uint16_t vlan = 1; vlan <= 100; vlan++)
        join(k, f->group, vlan);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    for (uint16_t vlan = 1; vlan <= 101; vlan++) /* the last VLAN is none of the host's */
        ask(k, f, &(struct query){.code = 10, .len = 8, .vlan = vlan});
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 100);
    /* A VLAN that was left frees its slot for another. */
    for (uint16_t vlan = 1; vlan <= 100; vlan++)
        leave(k, f->group, vlan);
    net_kit_run(k, 20 * SEC);
    join(k, f->group, 200);
    net_kit_run(k, 20 * SEC);
    net_kit_clear(k);
    ask(k, f, &(struct query){.code = 10, .len = 8, .vlan = 200});
    net_kit_run(k, 20 * SEC);
    assert_int_equal(k->sent, 1);
    check_old(k, f, 0, f->old_report, f->group, f->group);
    net_kit_free(k);
}

/* The link fails while a group is being left: no report is due any more. */
static void test_link_while_leaving(void **state)
{
    const struct family *f = &families[0];
    struct net_kit *k = member(f);

    join(k, f->group, VLAN_NONE);
    net_kit_run(k, 20 * SEC);
    leave(k, f->group, VLAN_NONE);
    net_kit_settle(k);
    net_host_link(k->node[0].h, false, k->now);
    net_kit_clear(k);
    net_host_link(k->node[0].h, true, k->now);
    net_kit_run(k, 20 * SEC);
    for (unsigned n = 0; n < k->sent; n++)
        assert_int_equal(get_be16(k->frame[n].bytes + ETH_TYPE_OFF), ETHERTYPE_ARP);
    net_kit_free(k);
}

/* Reports made when there was no address are made again when there is one (RFC 3590). */
static void test_no_address(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = net_kit_new(1, false);
        union gid unspecified = inet_unspecified(f->ipv4);
        unsigned reports = 0;

        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 2);
        assert_true(gid_eq((union gid[]){net_parse(net_kit_sent(k, 0)).src}, &unspecified));
        net_kit_clear(k);
        net_kit_address(k, 0, f->address, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        for (unsigned n = 0; n < k->sent; n++)
            if (get_be16(k->frame[n].bytes + ETH_TYPE_OFF) != ETHERTYPE_ARP &&
                net_parse(net_kit_sent(k, n)).data[0] == f->report)
                reports += record(k, f, n, f->group) == TO_EXCLUDE;
        assert_int_equal(reports, 2);
        net_kit_free(k);
    }
}

static void test_link(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = member(f);
        unsigned reports = 0;

        join(k, f->group, VLAN_NONE);
        join(k, f->other, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        net_kit_clear(k);
        ask(k, f, &(struct query){.code = f->ipv4 ? 8 : 24, .len = f->ipv4 ? 8 : 24});
        net_host_link(k->node[0].h, false, k->now);
        leave(k, f->other, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 0);
        net_host_link(k->node[0].h, true, k->now);
        net_kit_run(k, 20 * SEC);
        for (unsigned n = 0; n < k->sent; n++)
            if (get_be16(k->frame[n].bytes + ETH_TYPE_OFF) != ETHERTYPE_ARP &&
                net_parse(net_kit_sent(k, n)).data[0] == f->report) {
                assert_int_equal(record(k, f, n, f->other), 0);
                reports += record(k, f, n, f->group) == TO_EXCLUDE;
            }
        assert_int_equal(reports, 2);
        net_kit_free(k);
    }
}

/* A host that is quiet about addresses still reports the groups that programs joined, and no
 * others. */
static void test_quiet(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct family *f = &families[i];
        struct net_kit *k = net_kit_new(1, true);

        net_kit_address(k, 0, f->address, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 0);
        join(k, f->group, VLAN_NONE);
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 2);
        assert_int_equal(record(k, f, 1, f->group), TO_EXCLUDE);
        ask(k, f, &(struct query){.code = 10});
        net_kit_run(k, 20 * SEC);
        assert_int_equal(k->sent, 3);
        assert_int_equal(record(k, f, 2, f->group), IS_EXCLUDE);
        net_kit_free(k);
    }
}

struct listed {
    unsigned groups, members;
};

static void list(void *ctx, const union gid *group, uint16_t vlan, unsigned members)
{
    struct listed *l = ctx;

    l->groups++;
    l->members += members;
}

static void test_each_group(void **state)
{
    struct net_kit *k = member(&families[1]);
    struct listed l = {0};

    join(k, "239.0.0.1", VLAN_NONE);
    join(k, "239.0.0.1", 5);
    join(k, "239.0.0.1", 5);
    join(k, "239.0.0.2", 5);
    leave(k, "239.0.0.2", 5);
    net_host_each_group(k->node[0].h, &l, list);
    assert_int_equal(l.groups, 3); /* with the solicited-node group */
    assert_int_equal(l.members, 4);
    net_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_and_leave),
        cmocka_unit_test(test_second_thoughts),
        cmocka_unit_test(test_never_reported),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_many_in_many_vlans),
        cmocka_unit_test(test_general_query),
        cmocka_unit_test(test_delay_is_spread),
        cmocka_unit_test(test_group_query),
        cmocka_unit_test(test_queries_merge),
        cmocka_unit_test(test_query_flood),
        cmocka_unit_test(test_old_querier),
        cmocka_unit_test(test_igmp_v1),
        cmocka_unit_test(test_version_changes),
        cmocka_unit_test(test_vlans),
        cmocka_unit_test(test_robustness),
        cmocka_unit_test(test_bad_queries),
        cmocka_unit_test(test_solicited_nodes),
        cmocka_unit_test(test_solicited_node_left),
        cmocka_unit_test(test_many_vlans),
        cmocka_unit_test(test_link_while_leaving),
        cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_each_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
