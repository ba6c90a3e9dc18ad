/* SPDX-License-Identifier: BSD-3-Clause */
/* Intervals against an array with a count for every number. */
#include <string.h>

#include "interval.h"
#include "unit.h"

#define LINE 200u

static unsigned users[LINE], model_unused[LINE];

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void compare(const struct interval_set *s)
{
    unsigned at = 0;

    for (size_t i = 0; i < s->used; i++) {
        const struct interval *e = &s->entry[i];

        assert_true(e->start >= at && e->end > e->start && e->users);
        if (i && e[-1].end == e->start)
            assert_int_not_equal(e[-1].users, e->users);
        for (; at < e->start; at++)
            assert_int_equal(users[at], 0);
        for (; at < e->end; at++)
            assert_int_equal(users[at], e->users);
    }
    for (; at < LINE; at++)
        assert_int_equal(users[at], 0);
}

static void unused(void *arg, uint64_t start, uint64_t end)
{
    unsigned *told = arg;

    for (; start < end; start++)
        told[start]++;
}

static void like_counting_each(void **state)
{
    struct interval_set s;
    struct {
        uint64_t start, end;
    } live[20];
    unsigned lives = 0;
    uint64_t seed = 42;

    assert_int_equal(interval_init(&s, 128), 0);
    for (unsigned round = 0; round < 20000; round++) {
        if (lives < 20 && next(&seed) % 2) {
            uint64_t start = next(&seed) % LINE, end = start + next(&seed) % (LINE - start);

            assert_int_equal(interval_add(&s, start, end), 0);
            for (uint64_t i = start; i < end; i++)
                users[i]++;
            live[lives].start = start;
            live[lives++].end = end;
        } else if (lives) {
            unsigned which = next(&seed) % lives, told[LINE] = {0};

            memset(model_unused, 0, sizeof(model_unused));
            for (uint64_t i = live[which].start; i < live[which].end; i++)
                model_unused[i] = --users[i] == 0;
            interval_remove(&s, live[which].start, live[which].end, unused, told);
            assert_memory_equal(told, model_unused, sizeof(told));
            live[which] = live[--lives];
        }
        compare(&s);
        if (round % 8 == 0) {
            uint64_t start = next(&seed) % LINE, end = start + next(&seed) % (LINE - start);
            bool any = false;

            for (uint64_t i = start; i < end; i++)
                any = any || users[i];
            assert_int_equal(interval_any(&s, start, end), any);
        }
    }
    interval_fini(&s);
}

static void widens_to_the_neighbours(void **state)
{
    uint64_t start = 40, end = 50;
    struct interval_set s;

    assert_int_equal(interval_init(&s, 16), 0);
    interval_widen(&s, 10, 90, &start, &end);
    assert_int_equal(start, 10);
    assert_int_equal(end, 90);
    interval_add(&s, 0, 20);
    interval_add(&s, 60, 70);
    start = 40;
    end = 50;
    interval_widen(&s, 10, 90, &start, &end);
    assert_int_equal(start, 20);
    assert_int_equal(end, 60);
    interval_fini(&s);
}

static void full(void **state)
{
    struct interval_set s;
    unsigned n = 0;

    assert_int_equal(interval_init(&s, 16), 0);
    while (!interval_add(&s, n * 10, n * 10 + 5))
        n++;
    assert_true(n >= 8 && n <= 16);
    assert_int_equal(s.used, n);
    for (unsigned i = 0; i < n; i++)
        interval_remove(&s, i * 10, i * 10 + 5, NULL, NULL);
    assert_int_equal(s.used, 0);
    interval_fini(&s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_counting_each),
        cmocka_unit_test(widens_to_the_neighbours),
        cmocka_unit_test(full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
