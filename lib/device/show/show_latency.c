/* SPDX-License-Identifier: BSD-3-Clause */
/* How long work requests took, in JSON: a row for each stage of each device that has samples. */
#include "show/show.h"

#include "control/session_state.h"

static const char *const stage_name[LATENCY_STAGES] = {[LATENCY_QUEUED] = "queued",
                                                       [LATENCY_SENDING] = "sending",
                                                       [LATENCY_ANSWER] = "answer",
                                                       [LATENCY_POLLED] = "polled",
                                                       [LATENCY_TOTAL] = "total"};

/* Of the device's engines. */
static uint64_t add_up(const struct device *d, unsigned stage, uint64_t n[LATENCY_BUCKETS])
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < d->parts; i++) {
        const struct latency_histogram *h = &engine_latency(d->port[i]->engine)[stage];

        sum += counter_get(&h->sum);
        for (unsigned k = 0; k < LATENCY_BUCKETS; k++)
            n[k] += counter_get(&h->bucket[k]);
    }
    return sum;
}

/* The buckets up to the last one that has some: the largest time of each, and how many there are up
 * to that. */
static json_t *buckets(const uint64_t n[LATENCY_BUCKETS], uint64_t count)
{
    json_t *list = json_array();
    uint64_t seen = 0;

    for (unsigned k = 0; k < LATENCY_BUCKETS && seen < count; k++) {
        seen += n[k];
        if (n[k])
            json_array_append_new(list,
                                  json_pack("[o, o]", show_number(log_bucket_end(LATENCY_BITS, k)),
                                            show_number(seen)));
    }
    return list;
}

json_t *show_latency(const struct device *d, unsigned stage)
{
    uint64_t n[LATENCY_BUCKETS] = {0}, count = 0, sum;

    sum = add_up(d, stage, n);
    for (unsigned k = 0; k < LATENCY_BUCKETS; k++)
        count += n[k];
    if (!count)
        return NULL;
    return json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "device", d->name, "port", 1, "stage",
                     stage_name[stage], "count", show_number(count), "sum_ns", show_number(sum),
                     "buckets", buckets(n, count));
}
