/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace: order, forgetting, and a reader beside the writer. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "trace.h"
#include "unit.h"

static struct trace trace;
static struct trace_record got[TRACE_RECORDS];

/* All fields of a record follow from its number. */
static void put(uint64_t n)
{
    trace_put(&trace, n, (enum trace_event)(1 + n % 9), (uint32_t)(n * 3), (uint32_t)(n * 5),
              (uint32_t)(n * 7));
}

static bool is(const struct trace_record *r, uint64_t n)
{
    return r->time == n && r->event == 1 + n % 9 && r->qpn == (uint32_t)(n * 3) &&
           r->a == (uint32_t)(n * 5) && r->b == (uint32_t)(n * 7);
}

static void test_order(void **state)
{
    trace = (struct trace){0};
    assert_int_equal(trace_read(&trace, got), 0);
    for (uint64_t n = 0; n < 10; n++)
        put(n);
    assert_int_equal(trace_read(&trace, got), 10);
    for (uint64_t n = 0; n < 10; n++)
        assert_true(is(&got[n], n));
}

/* In a ring that has wrapped, the writer may be overwriting the oldest record. */
static void test_forgets_the_oldest(void **state)
{
    trace = (struct trace){0};
    for (uint64_t n = 0; n < 3 * TRACE_RECORDS + 5; n++)
        put(n);
    assert_int_equal(trace_read(&trace, got), TRACE_RECORDS - 1);
    for (uint64_t n = 0; n < TRACE_RECORDS - 1; n++)
        assert_true(is(&got[n], 2 * TRACE_RECORDS + 6 + n));
}

#define WRITES 400000u

static void *write_many(void *arg)
{
    for (uint64_t n = 0; n < WRITES; n++)
        put(n);
    return NULL;
}

/* A reader beside a writer gets whole records without gaps. */
static void test_reader_beside_writer(void **state)
{
    uint64_t last = 0;
    pthread_t writer;

    trace = (struct trace){0};
    assert_int_equal(pthread_create(&writer, NULL, write_many, NULL), 0);
    while (last + 1 < WRITES) {
        unsigned n = trace_read(&trace, got);

        for (unsigned i = 0; i < n; i++)
            if (!is(&got[i], got[0].time + i))
                fail_msg("record %u of %u is torn or out of order", i, n);
        if (n) {
            assert_true(got[n - 1].time >= last);
            last = got[n - 1].time;
        }
    }
    pthread_join(writer, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_forgets_the_oldest),
        cmocka_unit_test(test_reader_beside_writer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
