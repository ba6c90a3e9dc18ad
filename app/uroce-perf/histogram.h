/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A histogram of times whose buckets grow with the values: exact below 64, and above that 64
 * buckets for each power of two, so that the relative error is at most 1/64. One thread adds, any
 * thread reads.
 */
#ifndef UROCE_PERF_HISTOGRAM_H
#define UROCE_PERF_HISTOGRAM_H

#include "common.h"
#include "counter.h"
#include "log_bucket.h"

#define HISTOGRAM_BITS    6
#define HISTOGRAM_BUCKETS LOG_BUCKETS(HISTOGRAM_BITS, 64)

/* Zeroed: empty. */
struct histogram {
    counter_t count, sum, max, min; /* min: of ~value, so that 0 is none */
    counter_t bucket[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_index(uint64_t value)
{
    return log_bucket(HISTOGRAM_BITS, value);
}

/* Called by the histogram's one writer. */
static inline void histogram_add(struct histogram *h, uint64_t value)
{
    counter_inc(&h->bucket[histogram_index(value)]);
    counter_inc(&h->count);
    counter_add(&h->sum, value);
    if (unlikely(value > counter_get(&h->max)))
        counter_add(&h->max, value - counter_get(&h->max));
    if (unlikely(~value > counter_get(&h->min)))
        counter_add(&h->min, ~value - counter_get(&h->min));
}

/* Adds all of `from`, whose writer may be running, to a histogram that the caller owns. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/*
 * The smallest value that at least `parts` millionths of all values do not exceed, rounded up to
 * the end of its bucket but not above the largest: the value of rank ceil(count * parts / 10^6), at
 * least 1. 0 if there is none.
 */
uint64_t histogram_quantile(const struct histogram *h, uint32_t parts);

/* 0 when it is empty. */
uint64_t histogram_min(const struct histogram *h);
uint64_t histogram_max(const struct histogram *h);
double histogram_mean(const struct histogram *h);

#endif
