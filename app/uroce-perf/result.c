/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and medians over the threads' statistics: see result.h. */
#include "result.h"

#include <errno.h>
#include <stdlib.h>

const struct quantile quantiles[QUANTILES] = {{500000, "50", "p50"},
                                              {900000, "90", "p90"},
                                              {990000, "99", "p99"},
                                              {999000, "99.9", "p99_9"},
                                              {999900, "99.99", "p99_99"}};

static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void add_counts(struct perf_result *r, const struct perf_thread *t)
{
    r->messages += counter_get(&t->stats.messages);
    r->bytes += counter_get(&t->stats.bytes);
    r->received += counter_get(&t->stats.received);
    r->lost += counter_get(&t->stats.lost);
    r->wrong += counter_get(&t->stats.wrong);
    r->cpu_s += (double)counter_get(&t->stats.active_cpu_ns) / 1e9;
    r->pauses += counter_get(&t->stats.pauses);
    r->pause_ms += (double)counter_get(&t->stats.pause_ns) / 1e6;
    r->longest_pause_ms =
        max_of(r->longest_pause_ms, (double)counter_get(&t->stats.pause_longest) / 1e6);
}

static double active_seconds(const struct perf_thread *t)
{
    return (double)counter_get(&t->stats.active_ns) / 1e9;
}

static void derive_rates(struct perf_result *r)
{
    r->gigabytes_per_s = quotient(r->messages_per_s * (double)r->bytes, (double)r->messages) / 1e9;
    r->ns_per_message = quotient(r->cpu_s * 1e9, (double)r->messages);
    r->cycles_per_message = r->ns_per_message * tsc_hz() / 1e9;
}

static void tell_latency(struct perf_result *r, const struct histogram *h)
{
    double ns = 1e9 / tsc_hz();

    r->latencies = counter_get(&h->count);
    r->min_ns = (double)histogram_min(h) * ns;
    r->max_ns = (double)histogram_max(h) * ns;
    r->mean_ns = histogram_mean(h) * ns;
    for (unsigned i = 0; i < QUANTILES; i++)
        r->quantile_ns[i] = (double)histogram_quantile(h, quantiles[i].parts) * ns;
}

/* ---- the floor ---- */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double median(const float *values, unsigned n)
{
    float *sorted = malloc(n * sizeof(*sorted));
    double m = 0;

    if (sorted) {
        for (unsigned i = 0; i < n; i++)
            sorted[i] = values[i];
        qsort(sorted, n, sizeof(*sorted), compare_floats);
        m = n % 2 ? sorted[n / 2] : ((double)sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    }
    free(sorted);
    return m;
}

/* Medians over a worker's slices; workers' floors add up, their ratios are averaged. */
static void add_floor(struct perf_result *r, const struct perf *p, const struct perf_thread *t)
{
    unsigned n = min_of(t->ratios, (unsigned)RATIOS_MAX);

    if (!n)
        return;
    r->floor_messages_per_s += median(t->floor_rate, n);
    r->floor_ratio += median(t->ratio, n);
    r->floor_samples += n;
    r->floor_gigabytes_per_s = r->floor_messages_per_s * (double)p->size / 1e9;
}

/* ---- results ---- */

int result_of_worker(const struct perf *p, unsigned worker, struct perf_result *r)
{
    const struct perf_thread *t = &p->thread[worker];
    struct histogram *h = calloc(1, sizeof(*h));

    if (!h)
        return -ENOMEM;
    *r = (struct perf_result){.active_s = active_seconds(t)};
    add_counts(r, t);
    r->messages_per_s = quotient((double)r->messages, r->active_s);
    derive_rates(r);
    histogram_merge(h, &t->latency);
    tell_latency(r, h);
    add_floor(r, p, t);
    r->floor_ns_per_message = quotient(1e9, r->floor_messages_per_s);
    free(h);
    return 0;
}

int result_total(const struct perf *p, struct perf_result *r)
{
    struct histogram *h = calloc(1, sizeof(*h));
    unsigned floors = 0;
    bool closed = true;
    double rates = 0;

    if (!h)
        return -ENOMEM;
    *r = (struct perf_result){0};
    for (unsigned i = 0; i < p->threads; i++) {
        const struct perf_thread *t = &p->thread[i];

        add_counts(r, t);
        rates += quotient((double)counter_get(&t->stats.messages), active_seconds(t));
        r->active_s = max_of(r->active_s, active_seconds(t));
        closed &= t->closed;
        histogram_merge(h, &t->latency);
        add_floor(r, p, t);
        floors += t->ratios > 0;
    }
    /* Workers that share no message pause, for the floor, at different times. */
    r->messages_per_s = closed ? rates : quotient((double)r->messages, r->active_s);
    derive_rates(r);
    tell_latency(r, h);
    r->floor_ratio = quotient(r->floor_ratio, floors);
    r->floor_ns_per_message = quotient(1e9 * floors, r->floor_messages_per_s);
    free(h);
    return 0;
}

void result_since(struct perf_result *r, const struct perf_result *before)
{
    if (r->messages < before->messages || r->active_s < before->active_s) /* it was cleared */
        return;
    r->messages -= before->messages;
    r->bytes -= before->bytes;
    r->received -= before->received;
    r->lost -= before->lost;
    r->wrong -= before->wrong;
    r->active_s -= before->active_s;
    r->cpu_s -= before->cpu_s;
    r->messages_per_s = quotient((double)r->messages, r->active_s);
    derive_rates(r);
}
