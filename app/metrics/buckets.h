/* SPDX-License-Identifier: BSD-3-Clause */
/* The buckets of a histogram in the daemon's state: a list of [largest value, how many values are
 * at most that], in their order, without those that add none. */
#ifndef UROCE_METRICS_BUCKETS_H
#define UROCE_METRICS_BUCKETS_H

#include <jansson.h>

static inline json_int_t bucket_end(const json_t *bucket)
{
    return json_integer_value(json_array_get(bucket, 0));
}

static inline json_int_t bucket_count(const json_t *bucket)
{
    return json_integer_value(json_array_get(bucket, 1));
}

/* How many values of a histogram, which may be NULL, are in buckets that end at `value` or before.
 */
static inline json_int_t buckets_up_to(const json_t *buckets, json_int_t value)
{
    json_int_t count = 0;
    const json_t *bucket;
    size_t i;

    json_array_foreach(buckets, i, bucket)
    {
        if (bucket_end(bucket) > value)
            break;
        count = bucket_count(bucket);
    }
    return count;
}

#endif
