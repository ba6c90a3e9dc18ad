/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "mr_table.h"
#include "random.h"
#include "unit.h"

static const uint64_t secret[2] = {0x0123456789ABCDEF, 0xFEDCBA9876543210};

static void test_init(void **state)
{
    struct mem_region mr[5] = {0};
    struct mr_table t;

    assert_int_equal(mr_table_init(&t, MR_TABLE_MAX_SLOTS + 1, secret), -EINVAL);
    assert_int_equal(mr_table_init(&t, 3, secret), 0);
    assert_int_equal(t.slots, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(mr_insert(&t, &mr[i], 0), 0);
    assert_int_equal(mr_insert(&t, &mr[4], 0), -ENOSPC);
    mr_remove(&t, &mr[2]);
    mr_remove(&t, &mr[2]); /* twice is once */
    assert_int_equal(t.used, 3);
    assert_int_equal(mr_insert(&t, &mr[4], 0), 0);
    assert_int_equal(mr_insert(&t, &mr[2], 0), -ENOSPC);
    mr_table_fini(&t);

    assert_int_equal(mr_table_init(&t, MR_TABLE_MAX_SLOTS, secret), 0);
    mr_table_fini(&t);
    assert_int_equal(mr_table_init(&t, 1, secret), 0);
    assert_int_equal(mr_insert(&t, &mr[0], 0), 0);
    assert_ptr_equal(mr_lookup(&t, mr[0].key), &mr[0]);
    assert_null(mr_lookup(&t, 0));
    mr_table_fini(&t);
}

#define REGIONS 1000u

/* Regions are inserted and removed: every live key finds its region, every dead key finds none. */
static void test_random_life(void **state)
{
    static struct mem_region region[REGIONS];
    static uint32_t stale[100000];
    struct random r = {42};
    unsigned dead = 0;
    struct mr_table t;

    memset(region, 0, sizeof(region));
    assert_int_equal(mr_table_init(&t, 1024, secret), 0);
    for (unsigned i = 0; i < 200000; i++) {
        struct mem_region *mr = &region[random_below(&r, REGIONS)];
        uint32_t old = mr->key;

        if (old) {
            assert_ptr_equal(mr_lookup(&t, old), mr);
            mr_remove(&t, mr);
            assert_null(mr_lookup(&t, old));
            mr->key = 0;
            if (dead < ARRAY_SIZE(stale))
                stale[dead++] = old;
        } else {
            assert_int_equal(mr_insert(&t, mr, (uint8_t)random_next(&r)), 0);
            assert_int_not_equal(mr->key, 0);
            assert_ptr_equal(mr_lookup(&t, mr->key), mr);
        }
        assert_null(mr_lookup(&t, 0));
    }
    for (unsigned i = 0; i < dead; i++)
        assert_null(mr_lookup(&t, stale[i]));
    mr_table_fini(&t);
}

/*
 * 256 slots with 16 bits of generation use up all 2^24 ids, so each upper part of a key must come
 * exactly once, and with tag 0 the key 0 would be among them.
 */
static void test_all_keys(void **state)
{
    uint8_t *seen = calloc(1 << 21, 1);
    struct mem_region mr[256] = {0};
    struct mr_table t;

    assert_non_null(seen);
    assert_int_equal(mr_table_init(&t, 256, secret), 0);
    for (unsigned i = 0; i < 1u << 24; i++) {
        struct mem_region *m = &mr[i % 256];
        uint32_t id;

        if (m->key)
            mr_remove(&t, m);
        mr_insert(&t, m, 0);
        if (!m->key || mr_lookup(&t, m->key) != m)
            fail();
        id = m->key >> 8;
        if (seen[id / 8] & 1 << id % 8)
            fail();
        seen[id / 8] |= (uint8_t)(1 << id % 8);
    }
    mr_table_fini(&t);
    free(seen);
}

/* A guessed key is valid with the probability of live keys among 2^32; keys near a known one are no
 * likelier. */
static void test_guesses(void **state)
{
    static struct mem_region region[4096];
    struct random r = {5};
    unsigned hits = 0, near_hits = 0;
    uint32_t spread = 0;
    struct mr_table t;

    memset(region, 0, sizeof(region));
    assert_int_equal(mr_table_init(&t, 4096, secret), 0);
    for (unsigned i = 0; i < 4096; i++) {
        assert_int_equal(mr_insert(&t, &region[i], (uint8_t)random_next(&r)), 0);
        spread |= 1u << (region[i].key >> 27);
    }
    assert_int_equal(spread, UINT32_MAX); /* all over the space */
    for (unsigned i = 0; i < 1u << 22; i++)
        hits += mr_lookup(&t, (uint32_t)random_next(&r)) != NULL;
    assert_true(hits <= 16); /* 4 expected */
    for (unsigned i = 0; i < 4096; i++)
        for (int d = -256; d <= 256; d++)
            if (d)
                near_hits += mr_lookup(&t, region[i].key + (uint32_t)d) != NULL;
    assert_true(near_hits <= 12); /* 2 expected */
    mr_table_fini(&t);
}

static void test_secret_matters(void **state)
{
    const uint64_t other[2] = {secret[0], secret[1] ^ 1};
    struct mem_region a = {0}, b = {0};
    struct mr_table t, u;
    unsigned same = 0;

    assert_int_equal(mr_table_init(&t, 64, secret), 0);
    assert_int_equal(mr_table_init(&u, 64, other), 0);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(mr_insert(&t, &a, 1), 0);
        assert_int_equal(mr_insert(&u, &b, 1), 0);
        same += a.key == b.key;
        mr_remove(&t, &a);
        mr_remove(&u, &b);
    }
    assert_true(same <= 1);
    mr_table_fini(&t);
    mr_table_fini(&u);
}

/* A region takes another one's place and key; what remembers the old one looks again. */
static void test_replace(void **state)
{
    struct mem_region old = {0}, next = {0};
    struct mr_table t;
    uint64_t removals;

    assert_int_equal(mr_table_init(&t, 4, secret), 0);
    assert_int_equal(mr_insert(&t, &old, 5), 0);
    removals = t.removals;
    mr_replace(&t, &old, &next);
    assert_int_equal(next.key, old.key);
    assert_true(next.bound);
    assert_ptr_equal(mr_lookup(&t, next.key), &next);
    assert_int_equal(t.removals, removals + 1);
    assert_int_equal(t.used, 1);
    mr_remove(&t, &old); /* it has left */
    assert_ptr_equal(mr_lookup(&t, next.key), &next);
    mr_remove(&t, &next);
    assert_null(mr_lookup(&t, next.key));
    mr_table_fini(&t);
}

/* The latest removals are known, and when they were. */
static void test_removals(void **state)
{
    struct mem_region mr = {0};
    struct mr_table t;

    assert_int_equal(mr_table_init(&t, 4, secret), 0);
    assert_int_equal(mr_removed_at(&t, 0), 0);
    for (unsigned i = 1; i <= MR_REMOVALS_NOTED + 1; i++) {
        mr.key = i;
        assert_int_equal(mr_removed_at(&t, i), 0);
        mr_note_removal(&t, &mr, 10 * i);
        assert_int_equal(mr_removed_at(&t, i), 10 * i);
    }
    assert_int_equal(mr_removed_at(&t, 1), 0); /* forgotten */
    assert_int_equal(mr_removed_at(&t, 2), 20);
    assert_int_equal(mr_removed_at(&t, 0), 0);
    mr.key = 2;
    mr_note_removal(&t, &mr, 7); /* the key was another region's */
    assert_int_equal(mr_removed_at(&t, 2), 7);
    mr.key = MR_REMOVALS_NOTED + 1; /* the first time is still noted, before this one */
    mr_note_removal(&t, &mr, 8);
    assert_int_equal(mr_removed_at(&t, mr.key), 8);
    mr_table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),           cmocka_unit_test(test_random_life),
        cmocka_unit_test(test_all_keys),       cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_secret_matters), cmocka_unit_test(test_replace),
        cmocka_unit_test(test_removals),
    };

    return cmocka_run_group_tests_name("mem_table", tests, NULL, NULL);
}
