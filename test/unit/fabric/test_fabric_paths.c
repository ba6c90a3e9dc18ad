/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways through a network: equal paths, failures, and that a seed decides everything. */
#include <errno.h>

#include "fabric_kit.h"

#define LEN           1000u
#define LEAVES        4u
#define SPINES        4u
#define HOSTS_OF_LEAF 4u

/* Link of leaf and spine: LEAVES * HOSTS_OF_LEAF + leaf * SPINES + spine. */
static struct net *make_clos(const struct fabric_switch *c, uint64_t seed)
{
    struct net *n = net_create(seed);
    unsigned leaf[LEAVES], spine[SPINES];

    for (unsigned i = 0; i < LEAVES; i++)
        leaf[i] = add_switch(n, c);
    for (unsigned i = 0; i < SPINES; i++)
        spine[i] = add_switch(n, c);
    for (unsigned i = 0; i < LEAVES * HOSTS_OF_LEAF; i++)
        connect_nodes(n, add_host(n), leaf[i / HOSTS_OF_LEAF], 100 * GBPS, 100);
    for (unsigned i = 0; i < LEAVES; i++)
        for (unsigned j = 0; j < SPINES; j++)
            connect_nodes(n, leaf[i], spine[j], 100 * GBPS, 100);
    return n;
}

static unsigned up_port(unsigned leaf, unsigned spine)
{
    return 2 * (LEAVES * HOSTS_OF_LEAF + leaf * SPINES + spine);
}

static struct fabric_switch spreading(enum fabric_spread spread)
{
    struct fabric_switch c = fabric_switch_default;

    c.spread = spread;
    return c;
}

/* Frames on the fullest and the emptiest of leaf 0's ways up, and how many ways are used. */
static unsigned ways_used(const struct net *n, unsigned *least, unsigned *most)
{
    unsigned used = 0;

    *least = UINT32_MAX;
    *most = 0;
    for (unsigned i = 0; i < SPINES; i++) {
        unsigned frames = n->port_frames[up_port(0, i)];

        used += frames != 0;
        *least = min_of(*least, frames);
        *most = max_of(*most, frames);
    }
    return used;
}

static void a_flow_has_one_way(void **state)
{
    struct fabric_switch c = spreading(FABRIC_FLOW);
    struct net *n = make_clos(&c, 1);
    unsigned least, most;

    n->source[0][0] = (struct source){.to = 5, .left = 100, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, 5), 100);
    assert_int_equal(ways_used(n, &least, &most), 1);
    net_destroy(n);
}

static void flows_take_all_ways(void **state)
{
    struct fabric_switch c = spreading(FABRIC_FLOW);
    struct net *n = make_clos(&c, 1);
    unsigned least, most;

    n->source[0][0] = (struct source){.to = 5, .left = 4000, .flows = 4000, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, 5), 4000);
    assert_int_equal(ways_used(n, &least, &most), 4);
    assert_true(least > 900 && most < 1100);
    net_destroy(n);
}

static void frames_take_all_ways(void **state)
{
    static const enum fabric_spread kinds[] = {FABRIC_SPRAY, FABRIC_ROUND_ROBIN, FABRIC_ADAPTIVE};

    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct fabric_switch c = spreading(kinds[i]);
        struct net *n = make_clos(&c, 1);
        unsigned least, most;

        n->source[0][0] = (struct source){.to = 5, .left = 4000, .len = LEN};
        run_until(n, NS_NEVER);
        assert_int_equal(frames_at(n, 5), 4000);
        assert_int_equal(ways_used(n, &least, &most), 4);
        assert_true(least > 900 && most < 1100);
        if (kinds[i] == FABRIC_ROUND_ROBIN)
            assert_int_equal(least, most);
        net_destroy(n);
    }
}

/* The shortest queue is taken: four hosts of a leaf never queue behind each other. */
static void adaptive_avoids_queues(void **state)
{
    uint64_t most[2] = {0};

    for (unsigned k = 0; k < 2; k++) {
        struct fabric_switch c = spreading(k ? FABRIC_ADAPTIVE : FABRIC_SPRAY);
        struct net *n = make_clos(&c, 1);

        for (unsigned i = 0; i < 4; i++)
            n->source[i][0] = (struct source){.to = 4 + i, .left = 2000, .len = LEN};
        run_until(n, NS_NEVER);
        for (unsigned i = 0; i < SPINES; i++)
            most[k] = max_of(most[k], fabric_counters(n->f, up_port(0, i))->queue_most);
        net_destroy(n);
    }
    assert_true(most[1] <= 2 * LEN);
    assert_true(most[0] > 4 * most[1]);
}

/* Two stages of switches that hash alike: the second one sees only flows that the first one sent
 * the same way, and takes one way for all of them. With a hash of its own it takes all. */
static unsigned second_stage_ways(enum fabric_spread spread)
{
    struct fabric_switch c = spreading(spread);
    struct net *n = net_create(1);
    unsigned a = add_host(n), b = add_host(n), s[6], last, used = 0, links[4];

    for (unsigned i = 0; i < 6; i++)
        s[i] = add_switch(n, &c);
    last = add_switch(n, &c);
    connect_nodes(n, a, s[0], 100 * GBPS, 10);
    connect_nodes(n, b, last, 100 * GBPS, 10);
    /* s0 has two ways, s1 and s2, and each of these has two, to s3 and s4. */
    for (unsigned i = 1; i < 3; i++) {
        connect_nodes(n, s[0], s[i], 100 * GBPS, 10);
        for (unsigned j = 0; j < 2; j++)
            links[(i - 1) * 2 + j] = connect_nodes(n, s[i], s[3 + j], 100 * GBPS, 10);
    }
    for (unsigned j = 0; j < 2; j++)
        connect_nodes(n, s[3 + j], last, 100 * GBPS, 10);
    n->source[a][0] = (struct source){.to = b, .left = 1000, .flows = 1000, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, b), 1000);
    for (unsigned i = 0; i < 4; i++)
        used += n->port_frames[2 * links[i]] != 0;
    net_destroy(n);
    return used;
}

static void linear_hashes_polarise(void **state)
{
    assert_int_equal(second_stage_ways(FABRIC_LINEAR), 2);
    assert_int_equal(second_stage_ways(FABRIC_FLOW), 4);
}

/* A leaf notices at once that its link is down; the other leaves still send to that spine until
 * routes have converged, and it has no way on. */
static void a_link_goes_down(void **state)
{
    struct fabric_switch c = spreading(FABRIC_ROUND_ROBIN);
    struct net *n = make_clos(&c, 1);
    unsigned lost;

    n->source[0][0] = (struct source){.to = 5, .left = 1u << 30, .len = LEN};
    n->source[4][0] = (struct source){.to = 0, .left = 1u << 30, .len = LEN};
    run_until(n, 100 * NS_PER_US);
    assert_int_equal(fabric_totals(n->f)->lost + fabric_totals(n->f)->unrouted, 0);
    fabric_set_link(n->f, up_port(0, 2) / 2, FABRIC_DOWN);
    run_until(n, 150 * NS_PER_US);
    lost = n->port_frames[up_port(0, 2)];
    assert_true(fabric_totals(n->f)->unrouted > 50);
    run_until(n, 202 * NS_PER_US);
    assert_int_equal(n->port_frames[up_port(0, 2)], lost);  /* the leaf left it out at once */
    assert_int_equal(fabric_totals(n->f)->lost <= 3, true); /* those on the link */
    lost = (unsigned)fabric_totals(n->f)->unrouted;
    run_until(n, 400 * NS_PER_US);
    assert_int_equal(fabric_totals(n->f)->unrouted, lost);
    fabric_set_link(n->f, up_port(0, 2) / 2, FABRIC_UP);
    lost = n->port_frames[up_port(0, 2)];
    run_until(n, 600 * NS_PER_US);
    assert_true(n->port_frames[up_port(0, 2)] > lost + 100);
    check_conserved(n);
    net_destroy(n);
}

/* No switch notices: a quarter is lost, for ever. */
static void a_black_link_loses(void **state)
{
    struct fabric_switch c = spreading(FABRIC_ROUND_ROBIN);
    struct net *n = make_clos(&c, 1);

    n->source[0][0] = (struct source){.to = 5, .left = 4000, .len = LEN};
    fabric_set_link(n->f, up_port(0, 2) / 2, FABRIC_BLACK);
    run_until(n, NS_NEVER);
    assert_int_equal(fabric_totals(n->f)->lost, 1000);
    assert_int_equal(fabric_counters(n->f, up_port(0, 2))->lost, 1000);
    assert_int_equal(frames_at(n, 5), 3000);
    net_destroy(n);
}

static void paths_are_measured(void **state)
{
    struct net *n = make_clos(&fabric_switch_default, 1);
    struct fabric_path path;
    unsigned lonely = add_host(n);

    assert_true(fabric_path(n->f, 0, 5, 976, &path));
    assert_int_equal(path.links, 4);
    assert_int_equal(path.delay, 400);
    assert_int_equal(path.frame, 4 * 80);
    assert_int_equal(path.bps, 100 * GBPS);
    assert_true(fabric_path(n->f, 0, 1, 976, &path));
    assert_int_equal(path.links, 2);
    assert_false(fabric_path(n->f, 0, lonely, 976, &path));
    net_destroy(n);
}

static uint64_t order_of(uint64_t seed)
{
    struct fabric_switch c = spreading(FABRIC_SPRAY);
    struct net *n;
    uint64_t order;

    c.buffer = 40 * LEN;
    n = make_clos(&c, seed);
    for (unsigned i = 0; i < 12; i++)
        n->source[i][0] =
            (struct source){.to = 12 + i % 4, .left = 300, .len = LEN, .ecn = ECN_ECT0};
    run_until(n, NS_NEVER);
    check_conserved(n);
    assert_true(fabric_totals(n->f)->dropped > 0);
    order = n->order;
    net_destroy(n);
    return order;
}

static void a_seed_decides(void **state)
{
    assert_int_equal(order_of(1), order_of(1));
    assert_int_not_equal(order_of(1), order_of(2));
}

static void wrong_links_are_refused(void **state)
{
    struct net *n = net_create(1);
    unsigned h = add_host(n), s = add_switch(n, &fabric_switch_default);
    struct fabric_link link = {.bps = GBPS};

    assert_int_equal(fabric_add_link(n->f, h, h, &link), -EINVAL);
    assert_int_equal(fabric_add_link(n->f, h, s + 1, &link), -EINVAL);
    assert_int_equal(fabric_add_link(n->f, h + 1, s, &link), -EINVAL);
    assert_int_equal(fabric_add_link(n->f, h, s, &(struct fabric_link){0}), -EINVAL);
    assert_int_equal(fabric_add_link(n->f, h, s, &link), 0);
    assert_int_equal(fabric_add_link(n->f, h, s, &link), -EEXIST);
    net_destroy(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flow_has_one_way),     cmocka_unit_test(flows_take_all_ways),
        cmocka_unit_test(frames_take_all_ways),   cmocka_unit_test(adaptive_avoids_queues),
        cmocka_unit_test(linear_hashes_polarise), cmocka_unit_test(a_link_goes_down),
        cmocka_unit_test(a_black_link_loses),     cmocka_unit_test(paths_are_measured),
        cmocka_unit_test(a_seed_decides),         cmocka_unit_test(wrong_links_are_refused),
    };

    return cmocka_run_group_tests_name("fabric_paths", tests, NULL, NULL);
}
