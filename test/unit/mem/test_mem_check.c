/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"
#include "mr_check.h"
#include "unit.h"

#define PD   7u
#define BASE UINT64_C(0x10000)
#define LEN  UINT64_C(0x1000)
#define TOP  UINT64_MAX

#define ALL_REMOTE (MEM_REMOTE_READ | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)

static const uint64_t secret[2] = {1, 2};
static struct mr_table table;
static struct mr_cache cache = {.table = &table};
static struct mem_region plain = {
    .pd = PD, .access = MEM_LOCAL_WRITE | ALL_REMOTE, .iova = BASE, .addr = BASE, .len = LEN};
/* The last 16 bytes of the address space: iova + len is 2^64. */
static struct mem_region last = {.pd = PD, .iova = TOP - 15, .addr = 0x5000, .len = 16};
static struct mem_region everything = {.pd = PD, .len = TOP};

static int setup(void **state)
{
    return mr_table_init(&table, 16, secret) || mr_insert(&table, &plain, 3) ||
           mr_insert(&table, &last, 4) || mr_insert(&table, &everything, 5);
}

static int teardown(void **state)
{
    mr_table_fini(&table);
    return 0;
}

static enum mr_fault check(const struct mem_region *mr, uint64_t va, uint64_t len)
{
    struct mem_region *found = NULL;
    enum mr_fault fault = mr_check(&cache, mr->key, PD, va, len, 0, &found);

    if (fault == MR_OK)
        assert_ptr_equal(found, mr);
    else
        assert_null(found);
    return fault;
}

/* Accesses that come later fail, also those of a worker that knows the region, and through windows;
 * other regions are as before. */
static void test_failed(void **state)
{
    static uint8_t bytes[LEN + 1];
    struct mem_region failing = plain, window = {.kind = MEM_WINDOW_1, .pd = PD};
    struct mr_hint hint;
    struct mr_span span;

    failing.direct = bytes;
    window.parent = &failing;
    window.len = LEN;
    window.access = ALL_REMOTE;
    assert_int_equal(mr_insert(&table, &failing, 6), 0);
    assert_int_equal(mr_insert(&table, &window, 7), 0);
    window.bound = true;
    assert_ptr_equal(mr_find_direct(&table, bytes), &failing);
    assert_ptr_equal(mr_find_direct(&table, bytes + LEN - 1), &failing);
    assert_null(mr_find_direct(&table, bytes + LEN));
    assert_null(mr_find_direct(&table, NULL));
    assert_int_equal(check(&failing, BASE, 1), MR_OK);
    assert_true(mr_hint_note(&hint, &cache, failing.key, PD, 0));
    assert_int_equal(mr_check_remote(&cache, window.key, PD, 0, 0, 1, MEM_REMOTE_READ, &span),
                     MR_OK);
    mr_span_end(&span);
    mr_fail(&table, &failing);
    assert_false(mr_hint_holds(&hint, &table, failing.key));
    assert_int_equal(check(&failing, BASE, 1), MR_BAD_PD);
    assert_int_equal(mr_check_remote(&cache, window.key, PD, 0, 0, 1, MEM_REMOTE_READ, &span),
                     MR_BAD_PD);
    assert_int_equal(check(&plain, BASE, LEN), MR_OK);
    mr_remove(&table, &failing);
    mr_remove(&table, &window);
}

/* A fault costs what the table has had of regions, and not what it has room for. */
static void test_unused_slots(void **state)
{
    static uint8_t bytes[LEN];
    struct mem_region never = plain;

    never.direct = bytes;
    atomic_store(&table.region[table.slots - 1], &never);
    assert_null(mr_find_direct(&table, bytes));
    atomic_store(&table.region[table.slots - 1], NULL);
}

/* A worker that uses a region while it is removed, or replaced, may find its memory failing. */
static void test_fails_while_it_leaves(void **state)
{
    static uint8_t bytes[2][LEN];
    struct mem_region many[MR_LEAVING], one = plain, two = plain;

    one.direct = bytes[0];
    two.direct = bytes[1];
    assert_int_equal(mr_insert(&table, &one, 1), 0);
    mr_replace(&table, &one, &two);
    assert_ptr_equal(mr_find_direct(&table, bytes[0]), &one);
    assert_ptr_equal(mr_find_direct(&table, bytes[1]), &two);
    mr_left(&table, &one);
    assert_null(mr_find_direct(&table, bytes[0]));
    mr_remove(&table, &two);
    assert_int_equal(check(&two, BASE, 1), MR_BAD_KEY);
    assert_ptr_equal(mr_find_direct(&table, bytes[1] + LEN - 1), &two);
    assert_null(mr_find_direct(&table, bytes[1] + LEN));
    mr_left(&table, &two);
    assert_null(mr_find_direct(&table, bytes[1]));
    for (unsigned i = 0; i < MR_LEAVING; i++) {
        many[i] = plain;
        many[i].len = 1;
        many[i].direct = bytes[0] + i;
        assert_int_equal(mr_insert(&table, &many[i], 1), 0);
        mr_remove(&table, &many[i]);
    }
    for (unsigned i = 0; i < MR_LEAVING; i++)
        assert_ptr_equal(mr_find_direct(&table, bytes[0] + i), &many[i]);
    for (unsigned i = 0; i < MR_LEAVING; i++)
        mr_left(&table, &many[i]);
    assert_null(mr_find_direct(&table, bytes[0]));
}

static void test_ranges(void **state)
{
    static const struct {
        const struct mem_region *mr;
        uint64_t va, len;
        enum mr_fault fault;
    } cases[] = {
        {&plain, BASE, LEN, MR_OK},
        {&plain, BASE, 1, MR_OK},
        {&plain, BASE + LEN - 1, 1, MR_OK},
        {&plain, BASE, LEN + 1, MR_BAD_RANGE},
        {&plain, BASE - 1, 1, MR_BAD_RANGE},
        {&plain, BASE - 1, LEN, MR_BAD_RANGE},
        {&plain, BASE + LEN, 1, MR_BAD_RANGE},
        {&plain, BASE + LEN - 1, 2, MR_BAD_RANGE},
        {&plain, 0, TOP, MR_BAD_RANGE},
        {&plain, BASE, TOP, MR_BAD_RANGE},
        {&plain, BASE + 1, TOP, MR_BAD_RANGE},
        {&plain, TOP - 7, 16, MR_BAD_RANGE}, /* wraps to the bottom */
        {&plain, TOP - 7, BASE + 16, MR_BAD_RANGE},
        {&plain, BASE + 8, TOP - 7, MR_BAD_RANGE}, /* ends at its own start */
        /* no bytes: a point from the start up to the end */
        {&plain, BASE, 0, MR_OK},
        {&plain, BASE + LEN, 0, MR_OK},
        {&plain, BASE + LEN + 1, 0, MR_BAD_RANGE},
        {&plain, BASE - 1, 0, MR_BAD_RANGE},
        {&plain, 0, 0, MR_BAD_RANGE},
        {&plain, TOP, 0, MR_BAD_RANGE},
        {&last, TOP - 15, 16, MR_OK},
        {&last, TOP, 1, MR_OK},
        {&last, TOP - 7, 16, MR_BAD_RANGE},
        {&last, TOP, 2, MR_BAD_RANGE},
        {&last, 0, 1, MR_BAD_RANGE},
        {&last, 0, 0, MR_BAD_RANGE},
        {&everything, 0, TOP, MR_OK},
        {&everything, TOP - 7, 7, MR_OK},
        {&everything, TOP - 7, 16, MR_BAD_RANGE},
        {&everything, 1, TOP, MR_BAD_RANGE},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
        if (check(cases[i].mr, cases[i].va, cases[i].len) != cases[i].fault)
            fail_msg("case %u", i);
}

/* Every set of rights of a region against every requested set. */
static void test_rights(void **state)
{
    const uint32_t rights = MEM_LOCAL_WRITE | ALL_REMOTE | MEM_MW_BIND;
    uint32_t saved = plain.access;
    struct mem_region *mr;

    for (uint32_t has = 0; has <= rights; has++)
        for (uint32_t asks = 0; asks <= rights; asks++) {
            plain.access = has;
            assert_int_equal(mr_check(&cache, plain.key, PD, BASE, 8, asks, &mr),
                             asks & ~has ? MR_BAD_ACCESS : MR_OK);
        }
    plain.access = saved;
}

/* The first failing check decides the verdict: key, domain, rights, range. */
static void test_order(void **state)
{
    uint32_t lacks = MEM_MW_BIND;
    struct mem_region *mr;

    assert_int_equal(mr_check(&cache, 0, PD + 1, 0, 1, lacks, &mr), MR_BAD_KEY);
    assert_int_equal(mr_check(&cache, plain.key ^ 1, PD + 1, 0, 1, lacks, &mr), MR_BAD_KEY);
    assert_int_equal(mr_check(&cache, plain.key ^ 0x100, PD, BASE, 1, 0, &mr), MR_BAD_KEY);
    assert_int_equal(mr_check(&cache, plain.key, PD + 1, 0, 1, lacks, &mr), MR_BAD_PD);
    assert_int_equal(mr_check(&cache, plain.key, PD, 0, 1, lacks, &mr), MR_BAD_ACCESS);
    assert_int_equal(mr_check(&cache, plain.key, PD, 0, 1, 0, &mr), MR_BAD_RANGE);
    assert_int_equal(mr_check(&cache, plain.key, PD, BASE, 1, 0, &mr), MR_OK);
}

/* A removed region stays removed, for every later check; the next region in its slot has a key of
 * its own. */
static void test_removed(void **state)
{
    struct mem_region one = {.pd = PD, .len = 8}, *mr;
    uint32_t key;

    assert_int_equal(mr_insert(&table, &one, 6), 0);
    key = one.key;
    assert_int_equal(mr_check(&cache, key, PD, 0, 8, 0, &mr), MR_OK);
    assert_ptr_equal(mr, &one);
    mr_remove(&table, &one);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(mr_check(&cache, key, PD, 0, 8, 0, &mr), MR_BAD_KEY);
        assert_int_equal(mr_check(&cache, plain.key, PD, BASE, 1, 0, &mr), MR_OK);
    }
}

static void test_host_address(void **state)
{
    assert_int_equal(mr_host_addr(&last, TOP - 15), 0x5000);
    assert_int_equal(mr_host_addr(&last, TOP), 0x500F);
    assert_int_equal(mr_host_addr(&plain, BASE + 5), BASE + 5);
}

/* A hint holds what a check of its region would find, until any region is removed. */
static void test_hints(void **state)
{
    struct mem_region other = {.pd = PD, .access = MEM_LOCAL_WRITE, .len = 5};
    struct mem_region window = {.kind = MEM_WINDOW_1, .pd = PD, .access = ALL_REMOTE, .len = 5};
    struct mem_region wraps = {.pd = PD, .iova = TOP - 5, .len = 100};
    struct mr_hint h = {0};

    assert_int_equal(mr_insert(&table, &other, 9), 0);
    assert_int_equal(mr_insert(&table, &window, 9), 0);
    assert_int_equal(mr_insert(&table, &wraps, 9), 0);
    assert_false(mr_hint_holds(&h, &table, 0));
    assert_false(mr_hint_note(&h, &cache, plain.key, PD + 1, 0));
    assert_false(mr_hint_note(&h, &cache, other.key, PD, MEM_REMOTE_WRITE));
    assert_false(mr_hint_note(&h, &cache, plain.key ^ 1, PD, 0));
    assert_false(mr_hint_note(&h, &cache, window.key, PD, 0));
    assert_false(mr_hint_note(&h, &cache, wraps.key, PD, 0));
    assert_false(mr_hint_holds(&h, &table, other.key));
    assert_true(mr_hint_note(&h, &cache, plain.key, PD, MEM_REMOTE_WRITE));
    assert_ptr_equal(h.mr, &plain);
    assert_true(mr_hint_holds(&h, &table, plain.key));
    assert_false(mr_hint_holds(&h, &table, other.key));
    mr_remove(&table, &other);
    assert_false(mr_hint_holds(&h, &table, plain.key));
    assert_true(mr_hint_note(&h, &cache, plain.key, PD, MEM_REMOTE_WRITE));
    assert_true(mr_hint_holds(&h, &table, plain.key));
    mr_remove(&table, &window);
    mr_remove(&table, &wraps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_unused_slots),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_rights),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_host_address),
        cmocka_unit_test(test_fails_while_it_leaves),
    };

    return cmocka_run_group_tests_name("mem_check", tests, setup, teardown);
}
