/* SPDX-License-Identifier: BSD-3-Clause */
/* Priority flow control: nothing is lost, pauses go back to the senders, and other priorities go
 * on. */
#include "fabric_kit.h"

#define LEN 4000u

static struct fabric_switch lossless(void)
{
    struct fabric_switch c = fabric_switch_default;

    c.buffer = 1 << 20;
    c.lossless = 1 << 3;
    c.mark = FABRIC_MARK_NONE;
    return c;
}

static struct net *incast(const struct fabric_switch *c, uint64_t bps, ns_t delay, unsigned senders)
{
    struct net *n = net_create(1);

    make_star(n, senders + 1, c, bps, delay);
    for (unsigned i = 0; i < senders; i++)
        n->source[i][0] = (struct source){.to = senders, .left = 1000, .len = LEN, .dscp = 26};
    run_until(n, NS_NEVER);
    check_conserved(n);
    return n;
}

/* The headroom that a switch takes by itself is enough for every link. */
static void nothing_is_dropped(void **state)
{
    static const uint64_t rates[] = {10 * GBPS, 100 * GBPS, 400 * GBPS};
    static const ns_t delays[] = {0, 100, 1000, 20000};

    for (unsigned i = 0; i < ARRAY_SIZE(rates); i++)
        for (unsigned j = 0; j < ARRAY_SIZE(delays); j++) {
            struct fabric_switch c = lossless();
            struct net *n = incast(&c, rates[i], delays[j], 15);

            assert_int_equal(fabric_totals(n->f)->dropped, 0);
            assert_int_equal(frames_at(n, 15), 15000);
            for (unsigned k = 0; k < 15; k++)
                assert_true(fabric_counters(n->f, 2 * k)->pauses > 0);
            net_destroy(n);
        }
}

static void too_little_headroom_drops(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n;

    c.headroom = 2 * LEN;
    n = incast(&c, 100 * GBPS, 1000, 15);
    assert_true(fabric_totals(n->f)->dropped > 0);
    net_destroy(n);
}

static void without_pfc_it_drops(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n;

    c.lossless = 1 << 4;
    n = incast(&c, 100 * GBPS, 1000, 15);
    assert_true(fabric_totals(n->f)->dropped > 0);
    assert_int_equal(fabric_counters(n->f, 0)->pauses, 0);
    net_destroy(n);
}

/* A fixed threshold: the bytes of one sender beyond it are what the link holds. */
static void a_fixed_threshold_counts(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n;

    c.xoff = 10 * LEN;
    n = incast(&c, 100 * GBPS, 100, 4);
    assert_int_equal(fabric_totals(n->f)->dropped, 0);
    assert_true(fabric_counters(n->f, 9)->queue_most >= 4 * 9 * LEN);
    assert_true(fabric_counters(n->f, 9)->queue_most <= 4 * (10 + 2) * LEN);
    net_destroy(n);
}

/* Three switches in a row; the last link is slow. The first host is paused in the end. */
static void pauses_go_back(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n = net_create(1);
    unsigned a = add_host(n), b = add_host(n), s[3];

    c.buffer = 200000;
    for (unsigned i = 0; i < 3; i++)
        s[i] = add_switch(n, &c);
    connect_nodes(n, a, s[0], 100 * GBPS, 500);
    connect_nodes(n, s[0], s[1], 100 * GBPS, 500);
    connect_nodes(n, s[1], s[2], 100 * GBPS, 500);
    connect_nodes(n, s[2], b, 10 * GBPS, 500);
    n->source[a][0] = (struct source){.to = b, .left = 2000, .len = LEN, .dscp = 26};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, b), 2000);
    for (unsigned port = 0; port < 6; port += 2) {
        assert_true(fabric_counters(n->f, port)->pauses > 0);
        assert_true(n->port_pauses[port + 1] > 0);
        assert_true(fabric_counters(n->f, port)->paused > 100 * NS_PER_US);
    }
    check_conserved(n);
    net_destroy(n);
}

/* Priority 3 is paused at its host; priority 1 of the same host, to another one, goes on. */
static void other_priorities_go_on(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n = net_create(1);
    unsigned s = add_switch(n, &c), fast;

    for (unsigned i = 0; i < 4; i++)
        connect_nodes(n, add_host(n), s, i == 2 ? GBPS / 10 : 100 * GBPS, 500);
    n->source[0][0] = (struct source){.to = 2, .left = 2000, .len = LEN, .dscp = 26};
    n->source[0][1] = (struct source){.to = 3, .left = 2000, .len = LEN, .dscp = 8};
    run_until(n, 2 * NS_PER_MS);
    fast = n->seen[3][1].frames;
    assert_true(fabric_counters(n->f, 0)->pauses > 0);
    assert_true(n->seen[2][3].frames < 10);
    assert_true(fast > 30); /* until frames of priority 3 alone fill the port */
    assert_int_equal(fabric_totals(n->f)->dropped, 0);
    net_destroy(n);
}

/* A pause is renewed before it ends: the host stays quiet for many times its length. */
static void long_pauses_are_renewed(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n = net_create(1);
    unsigned s = add_switch(n, &c);

    connect_nodes(n, add_host(n), s, 400 * GBPS, 100);
    connect_nodes(n, add_host(n), s, GBPS / 1000, 100);
    n->source[0][0] = (struct source){.to = 1, .left = 100, .len = LEN, .dscp = 26};
    run_until(n, 3000 * NS_PER_MS);
    assert_int_equal(fabric_totals(n->f)->dropped, 0);
    assert_true(n->port_pauses[1] > 100);
    net_destroy(n);
}

/* While it is paused, too; the pause frame comes again after 84 us. */
static void present_pauses_count(void **state)
{
    struct fabric_switch c = lossless();
    struct net *n = net_create(1);
    unsigned s = add_switch(n, &c);

    connect_nodes(n, add_host(n), s, 200 * GBPS, 100);
    connect_nodes(n, add_host(n), s, GBPS / 1000, 100);
    n->source[0][0] = (struct source){.to = 1, .left = 1000, .len = LEN, .dscp = 26};
    run_until(n, 70 * NS_PER_US);
    assert_in_range(fabric_counters(n->f, 0)->paused, 50 * NS_PER_US, 70 * NS_PER_US);
    run_until(n, 1000 * NS_PER_US);
    assert_in_range(fabric_counters(n->f, 0)->paused, 970 * NS_PER_US, 1000 * NS_PER_US);
    net_destroy(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_dropped),      cmocka_unit_test(too_little_headroom_drops),
        cmocka_unit_test(without_pfc_it_drops),    cmocka_unit_test(a_fixed_threshold_counts),
        cmocka_unit_test(pauses_go_back),          cmocka_unit_test(other_priorities_go_on),
        cmocka_unit_test(long_pauses_are_renewed), cmocka_unit_test(present_pauses_count),
    };

    return cmocka_run_group_tests_name("fabric_pfc", tests, NULL, NULL);
}
