/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of a switch: time, order, room and marks. */
#include "fabric_kit.h"

#define LEN  1000u
#define RATE (8 * GBPS) /* a byte takes a nanosecond */

/* Each frame takes its bytes and the gap on each link, and the links' delays once. */
static void times_are_exact(void **state)
{
    struct net *n = net_create(1);
    ns_t frame = LEN + FABRIC_GAP;

    make_star(n, 2, &fabric_switch_default, RATE, 700);
    n->source[0][0] = (struct source){.to = 1, .left = 10, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, 1), 10);
    assert_int_equal(n->seen[1][0].last, 11 * frame + 2 * 700);
    net_destroy(n);
}

/* At a rate that divides nothing the remainders are kept. */
static void odd_rates_add_up(void **state)
{
    struct net *n = net_create(1);
    uint64_t bps = 7 * GBPS + 1;
    uint64_t bits = UINT64_C(10000) * (LEN + FABRIC_GAP) * 8;

    connect_nodes(n, add_host(n), add_host(n), bps, 0);
    n->source[0][0] = (struct source){.to = 1, .left = 10000, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, 1), 10000);
    assert_true(n->seen[1][0].last >= bits * NS_PER_SEC / bps - 1);
    assert_true(n->seen[1][0].last <= bits * NS_PER_SEC / bps + 10000 / 8);
    net_destroy(n);
}

/* Two send to one: half is dropped once the buffer is full, and nothing is forgotten. */
static void a_full_buffer_drops(void **state)
{
    struct fabric_switch c = fabric_switch_default;
    struct net *n = net_create(1);
    unsigned s;

    c.buffer = 20 * LEN;
    c.alpha = 1 << 20; /* all of it */
    s = make_star(n, 3, &c, RATE, 100);
    for (unsigned i = 0; i < 2; i++)
        n->source[i][0] = (struct source){.to = 2, .left = 200, .len = LEN};
    run_until(n, 50000);
    assert_true(fabric_buffer_used(n->f, s) <= c.buffer);
    assert_true(fabric_buffer_used(n->f, s) > c.buffer - LEN);
    check_conserved(n);
    run_until(n, NS_NEVER);
    check_conserved(n);
    assert_int_equal(fabric_frames_inside(n->f), 0);
    assert_int_equal(fabric_buffer_used(n->f, s), 0);
    assert_in_range(fabric_totals(n->f)->dropped, 170, 190);
    assert_int_equal(fabric_counters(n->f, 5)->dropped, fabric_totals(n->f)->dropped);
    assert_int_equal(fabric_counters(n->f, 5)->queue_most, c.buffer);
    net_destroy(n);
}

/* With alpha 1 one queue gets half of the buffer, so that room is left for others. */
static void a_queue_has_its_share(void **state)
{
    struct fabric_switch c = fabric_switch_default;
    struct net *n = net_create(1);

    c.buffer = 100 * LEN;
    make_star(n, 3, &c, RATE, 100);
    for (unsigned i = 0; i < 2; i++)
        n->source[i][0] = (struct source){.to = 2, .left = 500, .len = LEN};
    run_until(n, NS_NEVER);
    assert_in_range(fabric_counters(n->f, 5)->queue_most, 49 * LEN, 51 * LEN);
    assert_true(fabric_totals(n->f)->dropped > 0);
    net_destroy(n);
}

static struct net *marking(enum fabric_mark mark, uint8_t ecn)
{
    struct fabric_switch c = fabric_switch_default;
    struct net *n = net_create(1);

    c.mark = mark;
    c.mark_min = 10 * LEN;
    c.mark_max = 30 * LEN;
    c.mark_chance = 500000;
    make_star(n, 3, &c, RATE, 100);
    for (unsigned i = 0; i < 2; i++)
        n->source[i][0] = (struct source){.to = 2, .left = 20, .len = LEN, .ecn = ecn};
    run_until(n, NS_NEVER);
    assert_int_equal(frames_at(n, 2), 40);
    return n;
}

/* The queue grows by a frame with each pair: both of the 12th and later ones find more than 10. */
static void marks_begin_at_a_step(void **state)
{
    struct net *n = marking(FABRIC_MARK_STEP, ECN_ECT0);

    assert_int_equal(n->seen[2][0].marked, 2 * (20 - 11));
    assert_int_equal(fabric_counters(n->f, 5)->marked, n->seen[2][0].marked);
    net_destroy(n);
}

static void marks_grow_by_chance(void **state)
{
    struct net *n = marking(FABRIC_MARK_RED, ECN_ECT0);

    assert_in_range(n->seen[2][0].marked, 1, 8);
    net_destroy(n);
}

static void only_who_reacts_is_marked(void **state)
{
    struct net *n = marking(FABRIC_MARK_STEP, 0);

    assert_int_equal(n->seen[2][0].marked, 0);
    net_destroy(n);
    n = marking(FABRIC_MARK_NONE, ECN_ECT0);
    assert_int_equal(n->seen[2][0].marked, 0);
    net_destroy(n);
}

/* One frame of a row, when it is asked for. */
static void one_frame_is_marked_or_lost(void **state)
{
    struct net *n = net_create(1);

    make_star(n, 2, &fabric_switch_default, RATE, 100);
    n->source[0][0] = (struct source){.to = 1, .left = 50, .len = LEN, .ecn = ECN_ECT0};
    fabric_mark_next(n->f, 3, 1);
    fabric_lose_next(n->f, 3, 2);
    run_until(n, NS_NEVER);
    assert_int_equal(fabric_counters(n->f, 3)->marked, 1);
    assert_int_equal(frames_at(n, 1), 48);
    assert_int_equal(fabric_totals(n->f)->lost, 2);
    check_conserved(n);
    net_destroy(n);
}

/* Code point 48 (priority 6) before 26 (3), whatever waits. */
static void high_priorities_go_first(void **state)
{
    struct net *n = net_create(1);

    make_star(n, 3, &fabric_switch_default, RATE, 100);
    n->source[0][0] = (struct source){.to = 2, .left = 300, .len = LEN, .dscp = 26};
    n->source[1][0] = (struct source){.to = 2, .left = 300, .len = LEN, .dscp = 48};
    run_until(n, 303 * (LEN + FABRIC_GAP) + 200);
    assert_int_equal(n->seen[2][6].frames, 300);
    assert_true(n->seen[2][3].frames <= 3);
    net_destroy(n);
}

/* Priorities below share by bytes, whatever the sizes of their frames. */
static void low_priorities_share(void **state)
{
    struct net *n = net_create(1);
    uint64_t small, large;

    make_star(n, 3, &fabric_switch_default, RATE, 100);
    n->source[0][0] = (struct source){.to = 2, .left = 20000, .len = 300, .dscp = 26};
    n->source[1][0] = (struct source){.to = 2, .left = 2000, .len = 3000, .dscp = 8};
    run_until(n, 3000000);
    small = n->seen[2][3].bytes;
    large = n->seen[2][1].bytes;
    assert_true(small > large * 95 / 100 && large > small * 95 / 100);
    net_destroy(n);
}

static void chance_loses_frames(void **state)
{
    struct net *n = net_create(1);
    struct fabric_link link = {.bps = RATE, .delay = 10, .loss = UINT32_MAX / 100};

    add_host(n);
    add_host(n);
    assert_int_equal(fabric_add_link(n->f, 0, 1, &link), 0);
    n->source[0][0] = (struct source){.to = 1, .left = 10000, .len = LEN};
    run_until(n, NS_NEVER);
    assert_in_range(fabric_totals(n->f)->lost, 60, 140);
    check_conserved(n);
    net_destroy(n);
}

/* Also one of 2^32: by this seed the first frame draws the largest number that there is. */
static void a_certain_loss_loses_all(void **state)
{
    struct net *n = net_create(UINT64_C(0x311ac8a4348728e6));
    struct fabric_link link = {.bps = RATE, .delay = 10, .loss = UINT32_MAX};

    add_host(n);
    add_host(n);
    assert_int_equal(fabric_add_link(n->f, 0, 1, &link), 0);
    n->source[0][0] = (struct source){.to = 1, .left = 10, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(fabric_totals(n->f)->lost, 10);
    net_destroy(n);
}

static void what_goes_nowhere_is_counted(void **state)
{
    struct net *n = net_create(1);

    make_star(n, 2, &fabric_switch_default, RATE, 10);
    add_host(n); /* without a link */
    n->source[0][0] = (struct source){.to = 1000, .left = 3, .len = LEN};
    n->source[1][0] = (struct source){.to = 2, .left = 4, .len = LEN};
    run_until(n, NS_NEVER);
    assert_int_equal(fabric_totals(n->f)->misplaced, 3);
    assert_int_equal(fabric_totals(n->f)->unrouted, 4);
    check_conserved(n);
    net_destroy(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_exact),
        cmocka_unit_test(odd_rates_add_up),
        cmocka_unit_test(a_full_buffer_drops),
        cmocka_unit_test(a_queue_has_its_share),
        cmocka_unit_test(marks_begin_at_a_step),
        cmocka_unit_test(marks_grow_by_chance),
        cmocka_unit_test(only_who_reacts_is_marked),
        cmocka_unit_test(one_frame_is_marked_or_lost),
        cmocka_unit_test(high_priorities_go_first),
        cmocka_unit_test(low_priorities_share),
        cmocka_unit_test(chance_loses_frames),
        cmocka_unit_test(a_certain_loss_loses_all),
        cmocka_unit_test(what_goes_nowhere_is_counted),
    };

    return cmocka_run_group_tests_name("fabric_queues", tests, NULL, NULL);
}
