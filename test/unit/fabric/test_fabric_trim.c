/* SPDX-License-Identifier: BSD-3-Clause */
/* Switches that trim: which frames, what becomes of them, and what they count. */
#include "fabric_kit.h"

#define LEN  1000u
#define RATE (8 * GBPS) /* a byte takes a nanosecond */
#define DSCP 50
#define HEAD 60u /* the headers of a SEND, and what a port adds for the shortest frame */

/* Two hosts fill the port of a third one; the kit's frames are MIDDLEs of a SEND. */
static struct net *crowd(const struct fabric_switch *c, uint8_t dscp)
{
    struct net *n = net_create(1);

    make_star(n, 3, c, RATE, 100);
    for (unsigned i = 0; i < 2; i++)
        n->source[i][0] =
            (struct source){.to = 2, .left = 200, .len = LEN, .dscp = dscp, .ecn = ECN_ECT0};
    run_until(n, NS_NEVER);
    check_conserved(n);
    return n;
}

static struct fabric_switch small_buffer(uint8_t trim)
{
    struct fabric_switch c = fabric_switch_default;

    c.buffer = 20 * LEN;
    c.mark = FABRIC_MARK_NONE;
    c.trim = trim;
    return c;
}

/* All arrive, those without room as headers of priority 6. */
static void what_finds_no_room_is_trimmed(void **state)
{
    struct fabric_switch c = small_buffer(DSCP);
    struct net *n = crowd(&c, 26);
    const struct fabric_totals *t = fabric_totals(n->f);

    assert_int_equal(t->dropped, 0);
    assert_int_equal(t->delivered, 400);
    assert_in_range(t->trimmed, 150, 250);
    assert_int_equal(n->seen[2][6].frames, t->trimmed);
    assert_int_equal(n->seen[2][6].bytes, t->trimmed * HEAD);
    assert_int_equal(n->seen[2][3].frames, 400 - t->trimmed);
    assert_int_equal(n->seen[2][3].bytes, n->seen[2][3].frames * LEN);
    assert_int_equal(n->seen[2][6].marked, 0);
    assert_int_equal(fabric_counters(n->f, 5)->trimmed, t->trimmed);
    assert_int_equal(fabric_counters(n->f, 5)->dropped, 0);
    assert_true(n->seen[2][6].last < n->seen[2][3].last); /* what waited came later */
    net_destroy(n);
}

static void without_the_setting_it_is_dropped(void **state)
{
    struct fabric_switch c = small_buffer(0);
    struct net *n = crowd(&c, 26);

    assert_int_equal(fabric_totals(n->f)->trimmed, 0);
    assert_in_range(fabric_totals(n->f)->dropped, 150, 250);
    net_destroy(n);
}

/* The queue that was full makes the mark, and not that of the headers. */
static void trimmed_frames_are_marked(void **state)
{
    struct fabric_switch c = small_buffer(DSCP);
    struct net *n;

    c.mark = FABRIC_MARK_STEP;
    c.mark_min = 20 * LEN; /* beyond the buffer */
    n = crowd(&c, 26);
    assert_true(n->seen[2][6].frames > 0);
    assert_int_equal(n->seen[2][6].marked, n->seen[2][6].frames);
    assert_int_equal(n->seen[2][3].marked, 0);
    assert_int_equal(fabric_counters(n->f, 5)->marked, n->seen[2][6].marked);
    net_destroy(n);
}

/* The headers need room, too: with a code point whose priority is full they are dropped. */
static void headers_without_room_are_dropped(void **state)
{
    struct fabric_switch c = small_buffer(26);
    struct net *n;

    c.buffer = LEN + HEAD; /* what is free is never more than headers behind a frame */
    n = crowd(&c, 26);
    assert_true(fabric_totals(n->f)->dropped > 0);
    assert_int_equal(fabric_counters(n->f, 5)->dropped, fabric_totals(n->f)->dropped);
    assert_int_equal(fabric_totals(n->f)->delivered + fabric_totals(n->f)->dropped, 400);
    net_destroy(n);
}

/* PFC's priorities lose nothing, or lose all of a frame. */
static void lossless_priorities_are_not_trimmed(void **state)
{
    struct fabric_switch c = small_buffer(DSCP);
    struct net *n;

    c.lossless = 1 << 3;
    c.headroom = 1; /* too little */
    n = crowd(&c, 26);
    assert_int_equal(fabric_totals(n->f)->trimmed, 0);
    assert_true(fabric_totals(n->f)->dropped > 0);
    net_destroy(n);
}

/* A second switch that has no room drops the headers; it finds nothing to trim. */
static void nothing_is_trimmed_twice(void **state)
{
    struct fabric_switch first = small_buffer(DSCP), second = small_buffer(26);
    struct net *n = net_create(1);
    unsigned a, b;

    second.buffer = 3 * HEAD;
    for (unsigned i = 0; i < 2; i++)
        add_host(n);
    add_host(n);
    a = add_switch(n, &first);
    b = add_switch(n, &second);
    for (unsigned i = 0; i < 2; i++)
        connect_nodes(n, i, a, RATE, 100);
    connect_nodes(n, a, b, RATE, 100);
    connect_nodes(n, 2, b, RATE / 100, 100);
    for (unsigned i = 0; i < 2; i++)
        n->source[i][0] = (struct source){.to = 2, .left = 200, .len = LEN, .dscp = 26};
    run_until(n, NS_NEVER);
    check_conserved(n);
    assert_true(fabric_counters(n->f, 4)->trimmed > 0);
    assert_true(n->seen[2][6].frames > 0); /* the code point of the first one stays */
    assert_true(fabric_totals(n->f)->dropped > 0);
    assert_int_equal(n->seen[2][6].bytes, n->seen[2][6].frames * HEAD);
    net_destroy(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_finds_no_room_is_trimmed),
        cmocka_unit_test(without_the_setting_it_is_dropped),
        cmocka_unit_test(trimmed_frames_are_marked),
        cmocka_unit_test(headers_without_room_are_dropped),
        cmocka_unit_test(lossless_priorities_are_not_trimmed),
        cmocka_unit_test(nothing_is_trimmed_twice),
    };

    return cmocka_run_group_tests_name("fabric_trim", tests, NULL, NULL);
}
