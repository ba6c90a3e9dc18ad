/* SPDX-License-Identifier: BSD-3-Clause */
/* Causes: their numbers and texts. The ring of incidents: order, forgetting, a reader beside the
 * writer. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "incident.h"
#include "unit.h"

static struct incidents ring;
static struct incident got[INCIDENTS];

static void put(uint64_t n)
{
    struct incident i = {.time = n, .wr_id = n * 3, .qpn = (uint32_t)(n * 5), .cause = (uint8_t)n};

    i.detail[CAUSE_DETAILS - 1] = n * 7;
    i.counter.rx_discards = (uint32_t)(n * 11);
    incident_put(&ring, &i);
}

static bool is(const struct incident *i, uint64_t n)
{
    return i->time == n && i->wr_id == n * 3 && i->qpn == (uint32_t)(n * 5) &&
           i->cause == (uint8_t)n && i->detail[CAUSE_DETAILS - 1] == n * 7 &&
           i->counter.rx_discards == (uint32_t)(n * 11);
}

static void test_order(void **state)
{
    memset(&ring, 0, sizeof(ring));
    assert_int_equal(incident_read(&ring, got), 0);
    for (uint64_t n = 0; n < 10; n++)
        put(n);
    assert_int_equal(incident_read(&ring, got), 10);
    for (uint64_t n = 0; n < 10; n++)
        assert_true(is(&got[n], n));
}

/* In a ring that has wrapped, the writer may be overwriting the oldest record. */
static void test_forgets_the_oldest(void **state)
{
    memset(&ring, 0, sizeof(ring));
    for (uint64_t n = 0; n < 3 * INCIDENTS + 5; n++)
        put(n);
    assert_int_equal(incident_read(&ring, got), INCIDENTS - 1);
    for (uint64_t n = 0; n < INCIDENTS - 1; n++)
        assert_true(is(&got[n], 2 * INCIDENTS + 6 + n));
}

#define WRITES 100000u

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

    memset(&ring, 0, sizeof(ring));
    assert_int_equal(pthread_create(&writer, NULL, write_many, NULL), 0);
    while (last + 1 < WRITES) {
        unsigned n = incident_read(&ring, got);

        for (unsigned i = 0; i < n; i++)
            if (!is(&got[i], got[0].time + i))
                fail_msg("record %u of %u is torn or out of order", i, n);
        if (n)
            last = got[n - 1].time;
    }
    pthread_join(writer, NULL);
}

static unsigned words(const char *text)
{
    unsigned n = 0;

    for (const char *c = text; *c; c++)
        n += *c != ' ' && (c == text || c[-1] == ' ');
    return n;
}

/* Each has a name of its own, a sentence, advice, and no more details than there is room for. */
static void test_texts(void **state)
{
    unsigned n = 0;

    for (unsigned i = 1; i <= CAUSE_MAX; i++) {
        const struct cause_text *t = cause_text(i);

        if (!t)
            continue;
        n++;
        assert_true(words(t->details) <= CAUSE_DETAILS);
        assert_int_equal(t->sentence[strlen(t->sentence) - 1], '.');
        assert_int_equal(t->advice[strlen(t->advice) - 1], '.');
        for (unsigned k = 1; k < i; k++)
            if (cause_text(k))
                assert_string_not_equal(cause_text(k)->name, t->name);
    }
    assert_true(n >= 40);
    assert_null(cause_text(CAUSE_none));
    assert_null(cause_text(CAUSE_MAX + 1));
    assert_null(cause_text(UINT32_MAX));
}

/* Numbers are what programs have printed and people have written down. */
static void test_numbers(void **state)
{
    assert_int_equal(CAUSE_local_key_unknown, 1);
    assert_int_equal(CAUSE_no_answer, 30);
    assert_int_equal(CAUSE_refused_access, 51);
    assert_int_equal(CAUSE_receiver_not_ready, 53);
    assert_int_equal(CAUSE_remote_key_unknown, 60);
    assert_int_equal(CAUSE_cq_overrun, 75);
    assert_int_equal(CAUSE_no_neighbour, 90);
    assert_int_equal(CAUSE_program_ended_it, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_forgets_the_oldest),
        cmocka_unit_test(test_reader_beside_writer),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
