/* SPDX-License-Identifier: BSD-3-Clause */
/* See latency.h. */
#include "top/latency.h"

#include <string.h>

#include "buckets.h"
#include "common.h"

static const struct {
    const char *name;
    double part;
} quantiles[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p99.9_us", 0.999}};

static json_int_t number(const json_t *row, const char *member)
{
    return json_integer_value(json_object_get(row, member));
}

/* The end of the bucket that has the sample of this rank, among those that `before` lacks. */
static double quantile_us(const json_t *before, const json_t *after, double rank)
{
    const json_t *old = json_object_get(before, "buckets"), *bucket;
    json_int_t ns = 0;
    size_t i;

    json_array_foreach(json_object_get(after, "buckets"), i, bucket)
    {
        ns = bucket_end(bucket);
        if ((double)(bucket_count(bucket) - buckets_up_to(old, ns)) >= rank)
            break;
    }
    return (double)ns / 1000;
}

static bool is_same(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "device"), json_object_get(b, "device")) &&
           json_equal(json_object_get(a, "stage"), json_object_get(b, "stage"));
}

/* NULL: it has no row for this stage, or another daemon's, which counts from 0. */
static const json_t *find_before(const json_t *before, const json_t *row)
{
    const json_t *old;
    size_t i;

    json_array_foreach(before, i, old)
    {
        if (is_same(old, row))
            return number(old, "count") <= number(row, "count") ? old : NULL;
    }
    return NULL;
}

static json_t *stage_row(const json_t *old, const json_t *row, json_int_t samples)
{
    double sum = (double)(number(row, "sum_ns") - number(old, "sum_ns"));
    json_t *out = json_pack("{s:O?, s:O?, s:I, s:f}", "device", json_object_get(row, "device"),
                            "stage", json_object_get(row, "stage"), "samples", samples, "mean_us",
                            sum / (double)samples / 1000);

    for (unsigned i = 0; i < ARRAY_SIZE(quantiles); i++)
        json_object_set_new(out, quantiles[i].name,
                            json_real(quantile_us(old, row, (double)samples * quantiles[i].part)));
    return out;
}

json_t *latency_between(const json_t *before, const json_t *after)
{
    json_t *list = json_array();
    const json_t *row;
    size_t i;

    json_array_foreach(after, i, row)
    {
        const json_t *old = find_before(before, row);
        json_int_t samples = number(row, "count") - number(old, "count");

        if (samples > 0)
            json_array_append_new(list, stage_row(old, row, samples));
    }
    return list;
}
