/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts that the manager is made of: hash tables, timers, communication IDs, times. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_kit.h"
#include "cm_state.h"
#include "unit.h"

#define MANY 5000

/* ---- hash tables ---- */

static void test_hash(void **state)
{
    struct cm_hash_node *node = calloc(MANY, sizeof(*node));
    struct cm_hash h;

    assert_int_equal(cm_hash_init(&h), 0);
    for (uint32_t i = 0; i < MANY; i++)
        cm_hash_add(&h, &node[i], i / 2); /* pairs with one hash */
    assert_int_equal(h.count, MANY);
    assert_true(h.buckets >= MANY);
    for (uint32_t i = 0; i < MANY; i += 4)
        cm_hash_remove(&h, &node[i]);
    cm_hash_remove(&h, &node[0]); /* it is in no table */
    assert_int_equal(h.count, MANY - MANY / 4);
    for (uint32_t i = 0; i < MANY / 2; i++) {
        unsigned found = 0;

        for (struct cm_hash_node *n = cm_hash_first(&h, i); n; n = cm_hash_next(n)) {
            assert_true(n == &node[2 * i] || n == &node[2 * i + 1]);
            found++;
        }
        assert_int_equal(found, i % 2 ? 2 : 1);
    }
    cm_hash_destroy(&h);
    free(node);
}

/* Keys that a peer chooses do not meet in few buckets, and other secrets give other hashes. */
static void test_hash_spreads(void **state)
{
    static const uint64_t secrets[][2] = {{1, 2}, {1, 3}, {2, 2}};
    unsigned in_bucket[64] = {0}, same = 0;

    for (uint64_t i = 0; i < 6400; i++) {
        uint64_t key[] = {7, i << 32}, h = cm_hash_of(secrets[0], key, 2);

        in_bucket[h % 64]++;
        same += h == cm_hash_of(secrets[1], key, 2) || h == cm_hash_of(secrets[2], key, 2);
    }
    for (unsigned i = 0; i < 64; i++)
        assert_in_range(in_bucket[i], 50, 150);
    assert_int_equal(same, 0);
}

/* ---- timers ---- */

/* Against a search through all of them. */
static void test_timers(void **state)
{
    static struct cm_timer timer[300];
    struct random rng = {.state = 5};
    struct cm_timers t = {0};

    memset(timer, 0, sizeof(timer));
    assert_int_equal(cm_timers_reserve(&t, ARRAY_SIZE(timer)), 0);
    for (unsigned step = 0; step < 20000; step++) {
        struct cm_timer *one = &timer[random_below(&rng, ARRAY_SIZE(timer))];
        ns_t first = NS_NEVER;
        unsigned armed = 0;

        if (random_below(&rng, 3))
            cm_timer_arm(&t, one, random_below(&rng, 1000));
        else
            cm_timer_disarm(&t, one);
        for (unsigned i = 0; i < ARRAY_SIZE(timer); i++)
            if (timer[i].at) {
                assert_ptr_equal(t.heap[timer[i].at], &timer[i]);
                first = min_of(first, timer[i].deadline);
                armed++;
            }
        assert_int_equal(armed, t.count);
        assert_true(armed ? cm_timers_first(&t)->deadline == first : !cm_timers_first(&t));
    }
    cm_timers_free(&t);
}

/* ---- times ---- */

/* 2^(code - 8) ms, as the kernel converts. */
static void test_times(void **state)
{
    assert_int_equal(cm_time_of(0), MS);
    assert_int_equal(cm_time_of(8), MS);
    assert_int_equal(cm_time_of(9), 2 * MS);
    assert_int_equal(cm_time_of(20), 4096 * MS);
    assert_true(cm_time_of(31) == (1u << 23) * MS);
}

/* The larger of the delay and twice the life time, rounded up if the other is at least half. */
static void test_ack_timeouts(void **state)
{
    static const struct {
        uint8_t delay, life, timeout;
    } cases[] = {
        {15, 18, 19}, {18, 18, 20}, {17, 18, 19}, {19, 18, 20}, {20, 18, 21}, {21, 18, 21},
        {0, 0, 2},    {0, 1, 2},    {31, 31, 31}, {31, 30, 31}, {15, 16, 17},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(cm_ack_timeout(cases[i].delay, cases[i].life), cases[i].timeout);
}

/* What a peer's REP, DREQ or MRA can make this end wait for. */
static void test_times_of_peers_are_bounded(void **state)
{
    struct cm_id id = {.state = CM_TIMEWAIT, .ack_timeout = 31};

    assert_true(cm_time_in_state(&id) <= 20 * SEC);
    id.state = CM_MRA_REP_RCVD;
    id.service_timeout = 31;
    assert_true(cm_time_in_state(&id) <= 300 * SEC);
    id.state = CM_ESTABLISHED;
    assert_true(cm_time_in_state(&id) == NS_NEVER);
}

/* ---- communication IDs ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void test_ids(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm *cm = k->node[0].cm;
    uint32_t *seen = calloc(2 * MANY, sizeof(*seen));
    struct cm_id **id = calloc(MANY, sizeof(struct cm_id *));
    unsigned steps = 0;
    int err;

    for (unsigned i = 0; i < 2 * MANY; i++) {
        struct cm_id **one = &id[i % MANY];

        if (i >= MANY)
            cm_ids_free(*one);
        *one = cm_ids_new(cm, &err);
        assert_non_null(*one);
        seen[i] = (*one)->local_comm_id;
        assert_int_not_equal(seen[i], 0);
        assert_ptr_equal(cm_ids_find(cm, seen[i]), *one);
        steps += i && seen[i] - seen[i - 1] < 1000;
    }
    assert_true(steps < 10); /* they do not count up */
    for (unsigned i = 0; i < MANY; i++) {
        assert_null(cm_ids_find(cm, seen[i])); /* of one that is gone */
        assert_null(cm_ids_find(cm, seen[MANY + i] + 1));
    }
    qsort(seen, 2 * MANY, sizeof(*seen), by_number);
    for (unsigned i = 1; i < 2 * MANY; i++)
        assert_int_not_equal(seen[i], seen[i - 1]);
    assert_int_equal(cm->ids, MANY);
    assert_null(cm_ids_find(cm, 0));
    free(seen);
    free(id);
    cm_kit_free(k);
}

/* The table is full: those that linger make room, the oldest first; then there is none. */
static void test_ids_run_out(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.max_ids = 4});
    struct cm *cm = k->node[0].cm;
    struct cm_id *active, *passive;
    int err;

    cm_kit_establish(k, &active, &passive);
    cm_id_destroy(active, k->now); /* its DREQ awaits an answer */
    for (unsigned i = 0; i < 4; i++)
        assert_non_null(cm_id_create(cm, IP_CM_PS_TCP, k, &err));
    assert_int_equal(cm_counters(cm)->reclaimed, 1);
    assert_int_equal(cm_next_timer(cm), NS_NEVER);
    assert_null(cm_id_create(cm, IP_CM_PS_TCP, k, &err));
    assert_int_equal(err, -ENOSPC);
    cm_kit_free(k);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),         cmocka_unit_test(test_hash_spreads),
        cmocka_unit_test(test_timers),       cmocka_unit_test(test_times),
        cmocka_unit_test(test_ack_timeouts), cmocka_unit_test(test_times_of_peers_are_bounded),
        cmocka_unit_test(test_ids),          cmocka_unit_test(test_ids_run_out),
    };

    return cmocka_run_group_tests_name("cm_parts", tests, NULL, NULL);
}
