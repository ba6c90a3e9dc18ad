/* SPDX-License-Identifier: BSD-3-Clause */
/* See histogram.h. */
#include "histogram.h"

#define MILLION 1000000u

static void keep_larger(counter_t *to, const counter_t *from)
{
    uint64_t value = counter_get(from);

    if (value > counter_get(to))
        counter_set(to, value);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    uint64_t count = 0;

    /* The sum of what was read, and not `count`, which may have moved on. */
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t n = counter_get(&from->bucket[i]);

        counter_add(&to->bucket[i], n);
        count += n;
    }
    counter_add(&to->count, count);
    counter_add(&to->sum, counter_get(&from->sum));
    keep_larger(&to->max, &from->max);
    keep_larger(&to->min, &from->min);
}

uint64_t histogram_quantile(const struct histogram *h, uint32_t parts)
{
    uint64_t count = counter_get(&h->count), max = counter_get(&h->max), seen = 0, rank;

    if (!count)
        return 0;
    /* Whole millions apart, so that nothing overflows. */
    rank = count / MILLION * parts + (count % MILLION * parts + MILLION - 1) / MILLION;
    rank = max_of(rank, UINT64_C(1));
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += counter_get(&h->bucket[i]);
        if (seen >= rank)
            return min_of(log_bucket_end(HISTOGRAM_BITS, i), max);
    }
    return max;
}

uint64_t histogram_min(const struct histogram *h)
{
    return counter_get(&h->count) ? ~counter_get(&h->min) : 0;
}

uint64_t histogram_max(const struct histogram *h)
{
    return counter_get(&h->max);
}

double histogram_mean(const struct histogram *h)
{
    uint64_t count = counter_get(&h->count);

    return count ? (double)counter_get(&h->sum) / (double)count : 0;
}
