/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC: what is sent again for a gap. The link holds many packets of a round trip; the peer keeps
 * what follows a gap, or drops it.
 */
#include "engine_private.h"
#include "rules.h"

#define DELAY (50 * NS_PER_US)
#define RATE  UINT64_C(10000000000) /* a packet of the path MTU in 0.9 us */
#define STORE 8

/* peer_keeps: the responder has stores for what follows a gap. */
static struct rules start(bool peer_keeps, ns_t delay)
{
    struct kit_link_config link = {.delay = delay, .bps = RATE};
    struct kit_config config = {.seed = 1, .log = true, .reorder = STORE, .link = {link, link}};
    struct kit *k = kit_create(&config);

    if (!peer_keeps)
        k->node[1].engine->cfg.reorder = 0;
    return rules_start_on(k, NULL);
}

/* A WRITE of that many packets; those in the mask `lost` are lost. What was sent again. */
static unsigned write_losing(struct rules *t, unsigned packets, uint64_t lost)
{
    uint64_t before = count_of(t->a, retransmits), timeouts = count_of(t->a, timeouts);

    memset(t->mb->bytes, 0, packets * MTU);
    kit_link_lose(t->ab, lost);
    kit_do(t->a, SQE_WRITE, 1, t->ma, 0, packets * MTU, t->mb, 0);
    kit_settle(t->k);
    completes(t->a->send_cq, 1, WC_SUCCESS);
    assert_memory_equal(t->mb->bytes, t->ma->bytes, packets * MTU);
    assert_int_equal(count_of(t->a, timeouts), timeouts);
    return (unsigned)(count_of(t->a, retransmits) - before);
}

static unsigned naks(const struct rules *t)
{
    return kit_link_acks(t->ba, AETH_NAK, NAK_PSN_SEQUENCE);
}

/* At the first gap nothing else is sent before the answer, which covers the rest. */
static void missing_packet_is_sent_alone(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    assert_int_equal(naks(&t), 1);
    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    assert_int_equal(write_losing(&t, 40, UINT64_C(1) << 38), 1);
    assert_int_equal(naks(&t), 3);
    assert_int_equal(count_of(t.a, probes), 0);
    rules_finish(&t);
}

static void nothing_is_sent_before_the_first_answer(void **state)
{
    struct rules t = start(true, DELAY);

    kit_link_lose(t.ab, 1 << 3);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 40 * MTU, t.mb, 0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, MTU, t.mb, 0);
    run_for(&t, 3 * DELAY);
    kit_do(t.a, SQE_WRITE, 3, t.ma, 0, MTU, t.mb, 0);
    assert_int_equal(t.ab->frames, 40 + 1 + 1);
    kit_settle(t.k);
    for (unsigned i = 1; i <= 3; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_int_equal(t.ab->frames, 40 + 1 + 1 + 1);
    rules_finish(&t);
}

static void gaps_are_filled_one_by_one(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3 | 1 << 10 | 1 << 12), 3);
    assert_int_equal(naks(&t), 3);
    assert_int_equal(count_of(t.a, probes), 0);
    rules_finish(&t);
}

/* What is new follows the missing packet, and waits for no answer. */
static void new_packets_follow(void **state)
{
    struct rules t = start(true, DELAY);
    const struct pkt *p;

    kit_link_lose(t.ab, 1 << 3);
    for (unsigned i = 0; i < 4; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, 0, 60 * MTU, t.mb, 0);
    kit_settle(t.k);
    for (unsigned i = 0; i < 4; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_int_equal(count_of(t.a, retransmits), 1);
    for (unsigned i = 4; (p = nth(t.ab, RC(OP_WRITE_MIDDLE), i))->psn.v != PSN_A + 3;)
        i++;
    assert_int_equal(t.ab->frames, 4 * 60 + 1);
    rules_finish(&t);
}

/* A peer that drops what follows is found out by one ACK; then all is sent again, at once. */
static void peers_that_drop_get_all(void **state)
{
    struct rules t = start(false, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 37);
    assert_int_equal(nth(t.ab, RC(OP_WRITE_MIDDLE), 38)->psn.v, PSN_A + 3);
    assert_int_equal(nth(t.ab, RC(OP_WRITE_MIDDLE), 39)->psn.v, PSN_A + 4);
    assert_int_equal(write_losing(&t, 40, 1 << 3), 37);
    assert_int_equal(naks(&t), 2);
    assert_int_equal(count_of(t.a, probes), 0);
    rules_finish(&t);
}

/* A peer that kept, and has no room any more: all is sent again, without a timer's help. */
static void peers_may_stop_keeping(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    t.k->node[1].engine->cfg.reorder = 0;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(write_losing(&t, 40, 1 << 3), 1 + 36);
    assert_int_equal(write_losing(&t, 40, 1 << 3), 37);
    assert_int_equal(count_of(t.a, probes), 0);
    rules_finish(&t);
}

/* New packets make it say so by a NAK of the very next packet. */
static void peers_that_stopped_send_a_nak(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    t.k->node[1].engine->cfg.reorder = 0;
    kit_link_lose(t.ab, 1 << 3);
    kit_link_lose(t.ba, 1 << 1); /* the ACK of what was sent alone */
    for (unsigned i = 0; i < 4; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, 0, 60 * MTU, t.mb, 0);
    kit_settle(t.k);
    for (unsigned i = 0; i < 4; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_in_range(naks(&t), 3, 4);
    assert_int_equal(count_of(t.a, probes) + count_of(t.a, timeouts), 0);
    assert_in_range(count_of(t.a, retransmits), 1 + 100, 1 + 2 * 240);
    rules_finish(&t);
}

/* Two neighbours may be lost. With three the peer may have stopped keeping. */
static void neighbours_are_lost(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    assert_int_equal(write_losing(&t, 40, 3 << 3), 2);
    assert_int_equal(write_losing(&t, 40, 3 << 3), 2); /* nothing is held against it */
    assert_int_equal(write_losing(&t, 40, 7 << 3), 2 + 35);
    assert_int_equal(write_losing(&t, 40, 1 << 3), 37);
    rules_finish(&t);
}

/* What was sent alone is lost, too: a probe sends it once more, alone. */
static void lost_again(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    assert_int_equal(write_losing(&t, 40, 1 << 3 | UINT64_C(1) << 40), 2);
    assert_int_equal(count_of(t.a, probes), 1);
    rules_finish(&t);
}

/* The window is full before the answer can be there: all is sent again, which fills all gaps. */
static void a_full_window_is_sent_again(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    kit_link_lose(t.ab, 1 << 3 | UINT64_C(1) << 50);
    for (unsigned i = 0; i < 10; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, 0, 60 * MTU, t.mb, 0);
    kit_settle(t.k);
    for (unsigned i = 0; i < 10; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_in_range(count_of(t.a, retransmits), 100, 384); /* a window */
    rules_finish(&t);
}

/* A READ and what follows it are kept as well; READs before the gap have all their responses. */
static void lost_read_is_sent_alone(void **state)
{
    struct rules t = start(true, DELAY);

    assert_int_equal(write_losing(&t, 40, 1 << 3), 1);
    memset(t.mb->bytes, 0x5C, 40 * MTU);
    kit_link_lose(t.ab, 1 << 1);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 8 * MTU, t.mb, 0);
    kit_do(t.a, SQE_READ, 2, t.ma, 8 * MTU, 8 * MTU, t.mb, 0);
    kit_do(t.a, SQE_WRITE, 3, t.ma, 16 * MTU, 8 * MTU, t.mb, 40 * MTU);
    kit_settle(t.k);
    for (unsigned i = 1; i <= 3; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_memory_equal(t.ma->bytes, t.mb->bytes, 8 * MTU);
    assert_memory_equal(t.ma->bytes + 8 * MTU, t.mb->bytes, 8 * MTU);
    assert_memory_equal(t.ma->bytes + 16 * MTU, t.mb->bytes + 40 * MTU, 8 * MTU);
    assert_int_equal(count_of(t.a, timeouts), 0);
    assert_int_equal(count_of(t.a, retransmits), 2);
    rules_finish(&t);
}

/* The last packet but one is lost: nothing that follows shows whether the peer keeps. */
static void nothing_follows(void **state)
{
    struct rules t = start(false, DELAY);

    kit_link_lose(t.ab, 1 << 3);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 5 * MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(count_of(t.a, retransmits), 2);
    assert_int_equal(count_of(t.a, probes) + count_of(t.a, timeouts), 0);
    rules_finish(&t);
}

/* When it is known that the path loses packets, a READ whose request is lost is missed a round trip
 * after it was sent, and not after the last response to another. */
static void last_read_is_missed_by_its_own_time(void **state)
{
    struct kit_link_config link = {.delay = 10 * DELAY, .bps = RATE};
    struct kit_config config = {.seed = 1, .log = true, .reorder = STORE, .link = {link, link}};
    const struct kit_rc rc = {
        .psn = {PSN_A, PSN_B}, .timeout = 16, .max_rd_atomic = 4, .agreed = true};
    struct rules t = rules_start_on(kit_create(&config), &rc);
    uint64_t probes;

    kit_link_lose(t.ba, 1 << 1);
    for (unsigned i = 0; i < 40; i++) {
        kit_do(t.a, SQE_READ, i, t.ma, 0, 4 * MTU, t.mb, 0);
        kit_settle(t.k);
        completes(t.a->send_cq, i, WC_SUCCESS);
    }
    probes = count_of(t.a, probes);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 8, t.mb, 0);
    run_for(&t, 10 * DELAY);
    kit_link_lose(t.ab, 1);
    kit_do(t.a, SQE_READ, 2, t.ma, 0, 8, t.mb, 0);
    run_for(&t, 20 * DELAY - NS_PER_US);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(count_of(t.a, probes), probes);
    run_for(&t, 20 * DELAY + 100 * NS_PER_US);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    assert_int_equal(count_of(t.a, probes), probes + 1);
    assert_int_equal(count_of(t.a, timeouts), 0);
    rules_finish(&t);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_packet_is_sent_alone),
        cmocka_unit_test(nothing_is_sent_before_the_first_answer),
        cmocka_unit_test(gaps_are_filled_one_by_one),
        cmocka_unit_test(new_packets_follow),
        cmocka_unit_test(peers_that_drop_get_all),
        cmocka_unit_test(peers_may_stop_keeping),
        cmocka_unit_test(peers_that_stopped_send_a_nak),
        cmocka_unit_test(neighbours_are_lost),
        cmocka_unit_test(lost_again),
        cmocka_unit_test(a_full_window_is_sent_again),
        cmocka_unit_test(last_read_is_missed_by_its_own_time),
        cmocka_unit_test(lost_read_is_sent_alone),
        cmocka_unit_test(nothing_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
