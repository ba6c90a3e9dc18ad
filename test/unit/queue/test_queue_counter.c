/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <string.h>

#include "comp_counter.h"
#include "unit.h"

#define LANES 3u

static struct counter_line line[LANES];

static struct comp_counter counter(bool bytes)
{
    memset(line, 0, sizeof(line));
    return (struct comp_counter){.line = line, .bytes = bytes};
}

static void expect(const struct counter_reader *r, uint64_t done, uint64_t failed)
{
    assert_int_equal(counter_reader_get(r, COUNTER_DONE), done);
    assert_int_equal(counter_reader_get(r, COUNTER_FAILED), failed);
}

/* The counts are the sums of the lanes. */
static void test_work_requests(void **state)
{
    struct counter_reader r = {.line = line, .lines = LANES};
    struct comp_counter c = counter(false);

    expect(&r, 0, 0);
    comp_counter_add(&c, 0, 3, 4096, 0);
    comp_counter_add(&c, 2, 1, 0, 0);
    comp_counter_add(&c, 1, 0, 0, 5);
    expect(&r, 4, 5);
}

/* Failed work requests have no bytes. */
static void test_bytes(void **state)
{
    struct counter_reader r = {.line = line, .lines = LANES};
    struct comp_counter c = counter(true);

    comp_counter_add(&c, 0, 3, 4096, 0);
    comp_counter_add(&c, 1, 1, 8, 2);
    expect(&r, 4104, 2);
}

/* What the application sets and adds concerns one of the two counts. */
static void test_own(void **state)
{
    struct counter_reader r = {.line = line, .lines = LANES};
    struct comp_counter c = counter(false);

    comp_counter_add(&c, 0, 7, 0, 2);
    counter_reader_set(&r, COUNTER_DONE, 100);
    expect(&r, 100, 2);
    comp_counter_add(&c, 1, 1, 0, 1);
    counter_reader_add(&r, COUNTER_FAILED, 10);
    expect(&r, 101, 13);
    counter_reader_set(&r, COUNTER_FAILED, 0);
    counter_reader_set(&r, COUNTER_DONE, 0);
    expect(&r, 0, 0);
}

static void test_wraps_to_zero(void **state)
{
    struct counter_reader r = {.line = line, .lines = LANES};
    struct comp_counter c = counter(false);

    counter_reader_set(&r, COUNTER_DONE, UINT64_MAX);
    counter_reader_set(&r, COUNTER_FAILED, UINT64_MAX);
    expect(&r, UINT64_MAX, UINT64_MAX);
    comp_counter_add(&c, 0, 1, 0, 0);
    counter_reader_add(&r, COUNTER_FAILED, 2);
    expect(&r, 0, 1);
}

/* The worker goes on from what an application wrote there, and touches nothing else. */
static void test_hostile_application(void **state)
{
    struct counter_reader r = {.line = line, .lines = LANES};
    struct comp_counter c = counter(false);

    memset(line, 0xFF, sizeof(line[0]));
    comp_counter_add(&c, 0, 2, 0, 3);
    expect(&r, 1, 2);
    assert_int_equal(line[1].done, 0);
}

/* ---- threads ---- */

#define ROUNDS 20000u

static void *work(void *arg)
{
    struct comp_counter *c = arg;

    for (unsigned i = 0; i < ROUNDS; i++)
        comp_counter_add(c, 1, 1, 0, 1);
    return NULL;
}

/* What a thread reads while the workers add never becomes less, and nothing is lost. */
static void test_while_workers_add(void **state)
{
    struct counter_reader r = {.line = line, .lines = LANES};
    struct comp_counter c = counter(false);
    uint64_t last = 0, now;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, work, &c), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        comp_counter_add(&c, 0, 1, 0, 0);
        counter_reader_add(&r, COUNTER_FAILED, 1);
        now = counter_reader_get(&r, COUNTER_DONE);
        assert_true(now > last);
        last = now;
    }
    pthread_join(thread, NULL);
    expect(&r, 2 * ROUNDS, 2 * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_requests),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_wraps_to_zero),
        cmocka_unit_test(test_hostile_application),
        cmocka_unit_test(test_while_workers_add),
    };

    return cmocka_run_group_tests_name("queue_counter", tests, NULL, NULL);
}
