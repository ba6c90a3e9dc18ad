/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce-perf's histogram against sorted values, its contents of messages, and when they are due. */
#include <stdlib.h>
#include <string.h>

#include "arrivals.h"
#include "histogram.h"
#include "pattern.h"
#include "random.h"
#include "unit.h"

#define VALUES 20000

static struct histogram h, other;
static uint64_t value[VALUES];

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The value of that rank itself, told with at most 1/64 too much. */
static void check_quantile(const struct histogram *of, unsigned n, uint32_t parts)
{
    uint64_t rank = ((uint64_t)n * parts + 999999) / 1000000;
    uint64_t exact = value[rank ? rank - 1 : 0], told = histogram_quantile(of, parts);

    assert_true(told >= exact);
    assert_true(told - exact <= exact >> HISTOGRAM_BITS);
    assert_true(told <= value[n - 1]);
}

static void check_all(const struct histogram *of, unsigned n)
{
    static const uint32_t parts[] = {0,      1,      10000,  100000, 500000, 900000,
                                     990000, 999000, 999900, 999999, 1000000};
    double sum = 0;

    qsort(value, n, sizeof(value[0]), compare);
    for (unsigned i = 0; i < n; i++)
        sum += (double)value[i];
    assert_int_equal(counter_get(&of->count), n);
    assert_int_equal(histogram_min(of), value[0]);
    assert_int_equal(histogram_max(of), value[n - 1]);
    assert_true(histogram_mean(of) > sum / n * 0.999999 - 1);
    assert_true(histogram_mean(of) < sum / n * 1.000001 + 1);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        check_quantile(of, n, parts[i]);
}

/* Values of all magnitudes: up to this many bits, as many of each. */
static void fill(uint64_t seed, unsigned n, unsigned bits)
{
    struct random r = {seed};

    for (unsigned i = 0; i < n; i++)
        value[i] = random_next(&r) >> (64 - 1 - random_next(&r) % bits);
}

static void quantiles_are_those_of_the_sorted_values(void **state)
{
    static const unsigned counts[] = {1, 2, 3, 99, 100, 101, 9999, VALUES};

    for (uint64_t seed = 1; seed <= 24; seed++) {
        unsigned n = counts[seed % ARRAY_SIZE(counts)];

        memset(&h, 0, sizeof(h));
        fill(seed, n, seed % 3 == 0 ? 50 : seed % 3 == 1 ? 20 : 6);
        for (unsigned i = 0; i < n; i++)
            histogram_add(&h, value[i]);
        check_all(&h, n);
    }
}

static void merged_it_is_that_of_all_values(void **state)
{
    memset(&h, 0, sizeof(h));
    memset(&other, 0, sizeof(other));
    fill(7, VALUES, 40);
    for (unsigned i = 0; i < VALUES; i++)
        histogram_add(i % 3 ? &h : &other, value[i]);
    histogram_merge(&h, &other);
    check_all(&h, VALUES);
}

static void empty_it_says_zero(void **state)
{
    memset(&h, 0, sizeof(h));
    memset(&other, 0, sizeof(other));
    histogram_merge(&h, &other);
    assert_int_equal(histogram_min(&h), 0);
    assert_int_equal(histogram_max(&h), 0);
    assert_int_equal(histogram_quantile(&h, 500000), 0);
    assert_true(histogram_mean(&h) == 0);
}

static void buckets_follow_each_other(void **state)
{
    uint64_t before = 0;

    assert_int_equal(histogram_index(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
    for (unsigned bit = 0; bit < 64; bit++) {
        for (uint64_t low = 0; low < 200; low++) {
            uint64_t v = (UINT64_C(1) << bit) + (low << (bit > 8 ? bit - 8 : 0));

            if (v < before)
                continue;
            assert_in_range(histogram_index(v), histogram_index(before),
                            histogram_index(before) + (v - before));
            before = v;
        }
    }
    for (uint64_t v = 0; v < 64; v++)
        assert_int_equal(histogram_index(v), v);
}

static void the_extremes_fit(void **state)
{
    memset(&h, 0, sizeof(h));
    histogram_add(&h, 0);
    histogram_add(&h, UINT64_MAX);
    assert_int_equal(histogram_min(&h), 0);
    assert_int_equal(histogram_max(&h), UINT64_MAX);
    assert_int_equal(histogram_quantile(&h, 500000), 0);
    assert_int_equal(histogram_quantile(&h, 500001), UINT64_MAX);
}

/* ---- contents ---- */

static void every_wrong_byte_is_found(void **state)
{
    static uint8_t bytes[300];
    struct random r = {3};

    for (size_t n = 0; n <= 257; n++) {
        uint64_t key = pattern_key(random_next(&r), (uint32_t)n, 5);

        memset(bytes, 0, sizeof(bytes));
        pattern_fill(bytes, n, key);
        assert_int_equal(bytes[n], 0);
        assert_int_equal(pattern_check(bytes, n, key), n);
        for (size_t at = 0; at < n; at++) {
            assert_int_equal(bytes[at], pattern_byte(at, key));
            for (unsigned bit = 0; bit < 8; bit++) {
                bytes[at] ^= (uint8_t)(1 << bit);
                assert_int_equal(pattern_check(bytes, n, key), at);
                bytes[at] ^= (uint8_t)(1 << bit);
            }
        }
    }
}

/* What a message left behind is not the next one's, nor another sender's, nor another run's. */
static void messages_differ(void **state)
{
    static uint8_t bytes[64];

    for (uint32_t message = 0; message < 2000; message++) {
        uint64_t key = pattern_key(9, 4, message);

        pattern_fill(bytes, sizeof(bytes), key);
        assert_true(pattern_check(bytes, 64, pattern_key(9, 4, message + 1)) < 8);
        assert_true(pattern_check(bytes, 64, pattern_key(9, 5, message)) < 8);
        assert_true(pattern_check(bytes, 64, pattern_key(10, 4, message)) < 8);
    }
}

/* ---- when messages are due ---- */

#define ARRIVALS 200000
#define GAP      250.0 /* ticks */

/* The part of the gaps that is longer than `gaps` of them on average. */
static double longer(const uint64_t *due, double gaps)
{
    unsigned n = 0;

    for (unsigned i = 1; i < ARRIVALS; i++)
        n += (double)(due[i] - due[i - 1]) > gaps * GAP;
    return (double)n / (ARRIVALS - 1);
}

static const uint64_t *dues(bool even, uint64_t seed)
{
    static uint64_t due[ARRIVALS];
    struct arrivals a;

    arrivals_prepare();
    arrivals_start(&a, 1000, 1 / GAP, even, seed);
    for (unsigned i = 0; i < ARRIVALS; i++) {
        due[i] = arrivals_due(&a);
        assert_true(due[i] >= (i ? due[i - 1] : 1000));
        arrivals_pass(&a);
    }
    return due;
}

/* A Poisson process: the mean is right, and gaps longer than the mean, or than three, are as
 * frequent as in an exponential distribution. */
static void gaps_are_exponential(void **state)
{
    for (uint64_t seed = 1; seed < 5; seed++) {
        const uint64_t *due = dues(false, seed);
        double mean = (double)(due[ARRIVALS - 1] - due[0]) / (ARRIVALS - 1);

        assert_true(mean > GAP * 0.99 && mean < GAP * 1.01);
        assert_true(longer(due, 1) > 0.36 && longer(due, 1) < 0.376);
        assert_true(longer(due, 3) > 0.047 && longer(due, 3) < 0.053);
    }
}

static void even_gaps_are_alike(void **state)
{
    const uint64_t *due = dues(true, 1);

    for (unsigned i = 0; i < ARRIVALS; i++)
        assert_int_equal(due[i], 1000 + (uint64_t)GAP * (i + 1));
}

static void a_seed_repeats_its_gaps(void **state)
{
    uint64_t last = dues(false, 7)[ARRIVALS - 1];

    assert_true(dues(false, 8)[ARRIVALS - 1] != last);
    assert_int_equal(dues(false, 7)[ARRIVALS - 1], last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
        cmocka_unit_test(merged_it_is_that_of_all_values),
        cmocka_unit_test(empty_it_says_zero),
        cmocka_unit_test(buckets_follow_each_other),
        cmocka_unit_test(the_extremes_fit),
        cmocka_unit_test(every_wrong_byte_is_found),
        cmocka_unit_test(messages_differ),
        cmocka_unit_test(gaps_are_exponential),
        cmocka_unit_test(even_gaps_are_alike),
        cmocka_unit_test(a_seed_repeats_its_gaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
