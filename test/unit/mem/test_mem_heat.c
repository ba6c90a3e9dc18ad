/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that are copied a lot: each is reported once, by whichever worker counts it. */
#include <pthread.h>

#include "mem_heat.h"
#include "unit.h"

#define LIMIT   10
#define THREADS 4
#define REGIONS 50

static _Atomic uint32_t word;

static bool use(struct mem_heat *h, struct mem_region *mr)
{
    struct mem_io io = {.mr = mr};

    return mem_heat_note(h, &io, 1);
}

static void once_at_the_limit(void **state)
{
    struct mem_heat h = {.word = &word};
    struct mem_region mr = {.heat.limit = LIMIT}, never = {0};

    word = 0;
    for (unsigned i = 1; i < LIMIT; i++) {
        assert_false(use(&h, &mr));
        assert_false(use(&h, &never));
    }
    assert_null(mem_heat_take(&h));
    assert_true(use(&h, &mr));
    assert_int_equal(word, 1);
    assert_ptr_equal(mem_heat_take(&h), &mr);
    for (unsigned i = 0; i < 3 * LIMIT; i++) {
        assert_false(use(&h, &mr));
        assert_false(use(&h, &never));
    }
    assert_null(mem_heat_take(&h));
    assert_int_equal(mr.heat.uses, 4 * LIMIT);
    mem_heat_restart(&mr, 2);
    assert_int_equal(mr.heat.uses, 0);
    assert_false(use(&h, &mr));
    assert_false(use(&h, &mr)); /* on the list, but the control thread is already woken */
    assert_ptr_equal(mem_heat_take(&h), &mr);
    mem_heat_restart(&mr, 0);
    for (unsigned i = 0; i < LIMIT; i++)
        assert_false(use(&h, &mr));
    assert_null(mem_heat_take(&h));
}

/* One call counts once for a region, however many packets it carries. */
static void calls_count(void **state)
{
    struct mem_heat h = {0};
    struct mem_region a = {.heat.limit = 2}, b = {.heat.limit = 2};
    struct mem_io io[] = {{.mr = &a}, {.mr = &a}, {.mr = &a}, {.mr = &b}, {.mr = &b}};

    assert_false(mem_heat_note(&h, io, 5));
    assert_int_equal(a.heat.uses, 1);
    assert_int_equal(b.heat.uses, 1);
    assert_false(mem_heat_note(&h, io, 5)); /* hot, but not collected */
    assert_ptr_equal(mem_heat_take(&h), &b);
    assert_ptr_equal(b.heat.next, &a);
    assert_null(a.heat.next);
}

static struct mem_heat shared;
static struct mem_region region[REGIONS];
static _Atomic unsigned wakes;

static void *worker(void *arg)
{
    for (unsigned round = 0; round < 20 * LIMIT; round++)
        for (unsigned i = 0; i < REGIONS; i++)
            wakes += use(&shared, &region[i]);
    return NULL;
}

static void many_workers(void **state)
{
    pthread_t thread[THREADS];
    unsigned told[REGIONS] = {0};
    unsigned found = 0;

    word = wakes = 0;
    shared.word = &word;
    for (unsigned i = 0; i < REGIONS; i++)
        region[i].heat.limit = LIMIT;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, worker, NULL);
    while (found < REGIONS) {
        struct mem_region *mr = mem_heat_take(&shared);

        for (; mr; mr = mr->heat.next, found++)
            told[mr - region]++;
        atomic_store(&word, 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_null(mem_heat_take(&shared));
    for (unsigned i = 0; i < REGIONS; i++)
        assert_int_equal(told[i], 1);
    assert_in_range(wakes, 1, REGIONS);
}

/* A worker has marked a region as hot and has not put it on the list yet. */
static void not_listed_twice(void **state)
{
    struct mem_heat h = {0};
    struct mem_region mr = {.heat = {.limit = 1, .listed = true}};

    mem_heat_restart(&mr, 1);
    assert_false(use(&h, &mr));
    assert_null(mem_heat_take(&h));
}

static _Atomic bool stop;

static void *user(void *arg)
{
    while (!stop)
        use(&shared, &region[0]);
    return NULL;
}

/* Restarted while workers count: the region is on the list at most once, and is on it if it was
 * reported. */
static void restarted_meanwhile(void **state)
{
    pthread_t thread[THREADS];

    shared = (struct mem_heat){0};
    region[0] = (struct mem_region){.heat.limit = 1};
    stop = false;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, user, NULL);
    for (unsigned round = 0; round < 300000; round++) {
        if (atomic_load(&region[0].heat.listed)) {
            struct mem_region *mr = mem_heat_take(&shared);

            assert_true(!mr || !mr->heat.next);
        }
        mem_heat_restart(&region[0], 1);
    }
    stop = true;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    if (!region[0].heat.listed)
        assert_null(mem_heat_take(&shared));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_at_the_limit),   cmocka_unit_test(calls_count),
        cmocka_unit_test(many_workers),        cmocka_unit_test(not_listed_twice),
        cmocka_unit_test(restarted_meanwhile),
    };

    return cmocka_run_group_tests_name("mem_heat", tests, NULL, NULL);
}
