/* SPDX-License-Identifier: BSD-3-Clause */
/* What is computed from the results of flows and ports. See sim.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sim.h"

static int compare_times(const void *a, const void *b)
{
    ns_t x = *(const ns_t *)a, y = *(const ns_t *)b;

    return (x > y) - (x < y);
}

static int compare_slow(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static unsigned rank(unsigned n, double part)
{
    double at = ceil(part * n - 1e-9);

    return at < 1 ? 0 : (unsigned)at - 1;
}

ns_t sim_percentile(const ns_t *sorted, unsigned n, double part)
{
    return n ? sorted[min_of(rank(n, part), n - 1)] : 0;
}

double sim_percentile_slow(const struct sim_result *r, double part)
{
    return r->slows ? r->slow[min_of(rank(r->slows, part), r->slows - 1)] : 0;
}

static ns_t end_of(const struct sim_result *r, unsigned flow)
{
    const struct lab_result *f = &r->flow[flow];

    return f->outcome == LAB_RUNNING ? lab_ended(r->lab) : f->end;
}

double sim_flow_rate(const struct sim_result *r, unsigned flow)
{
    const struct lab_result *f = &r->flow[flow];
    ns_t end = end_of(r, flow);

    return end > f->start ? (double)f->bytes * 8e9 / (double)(end - f->start) : 0;
}

static void count_outcome(struct sim_result *r, const struct lab_result *f)
{
    switch (f->outcome) {
    case LAB_WAITING:
        r->waiting++;
        break;
    case LAB_RUNNING:
        r->running++;
        break;
    case LAB_FAILED:
        r->failed++;
        break;
    case LAB_DONE:
        r->times[r->done++] = f->end - f->start;
        if (f->ideal)
            r->slow[r->slows++] = (double)(f->end - f->start) / (double)f->ideal;
        break;
    }
}

/* Jain's index: 1 if all are equal, 1/n if one has all. */
static double jain(double sum, double squares, unsigned n)
{
    return squares > 0 ? sum * sum / (n * squares) : 0;
}

static void add_up_flows(struct sim_result *r)
{
    double sum = 0, squares = 0;
    ns_t first = NS_NEVER, last = 0;
    unsigned begun = 0;

    for (unsigned i = 0; i < r->spec->flows; i++) {
        struct lab_result *f = &r->flow[i];
        double rate;

        lab_result(r->lab, i, f);
        count_outcome(r, f);
        if (f->outcome == LAB_WAITING)
            continue;
        begun++;
        rate = sim_flow_rate(r, i);
        sum += rate;
        squares += rate * rate;
        first = min_of(first, f->start);
        last = max_of(last, end_of(r, i));
        r->bytes += f->bytes;
        for (unsigned c = 0; c < LAB_COUNTERS; c++)
            r->counter[c] += f->counter[c];
    }
    r->jain = jain(sum, squares, begun);
    r->goodput = begun && last > first ? (double)r->bytes * 8e9 / (double)(last - first) : 0;
}

static void add_up_ports(struct sim_result *r)
{
    for (unsigned i = 0; i < fabric_ports(lab_fabric(r->lab)); i++) {
        const struct fabric_counters *c = fabric_counters(lab_fabric(r->lab), i);

        r->marked += c->marked;
        r->pauses += c->pauses;
    }
}

/* The flows that have a series, in the second half of the samples. */
static void look_at_late_flows(struct sim_result *r)
{
    const struct series *s = r->series;
    unsigned from = series_half(s);
    double sum = 0, squares = 0, total = 0;
    ns_t time = s->at[s->n - 1] - s->at[from];

    for (unsigned i = 0; i < s->flows; i++) {
        double bytes = 0;

        for (unsigned n = from + 1; n < s->n; n++)
            bytes += s->bytes[(size_t)n * s->flows + i];
        sum += bytes;
        squares += bytes * bytes;
    }
    for (unsigned n = from + 1; n < s->n; n++)
        total += (double)s->total[n];
    r->late_jain = jain(sum, squares, s->flows);
    r->late_rate = total * 8e9 / (double)time;
}

/* The port of a switch whose queue was longest in the mean. */
static void look_at_late_queues(struct sim_result *r)
{
    const struct series *s = r->series;
    unsigned from = series_half(s);

    for (unsigned i = 0; i < s->ports; i++) {
        const struct lab_link *l = &r->spec->link[i / 2];
        double bytes = 0;

        if (!r->spec->node[i % 2 ? l->b : l->a].is_switch)
            continue;
        for (unsigned n = from + 1; n < s->n; n++)
            bytes += s->queue[(size_t)n * s->ports + i];
        bytes /= s->n - from - 1;
        if (bytes > r->late_queue) {
            r->late_queue = bytes;
            r->late_port = i;
        }
    }
}

int sim_compute(struct sim_result *r, const struct lab_spec *spec, struct lab *lab,
                const struct series *series)
{
    *r = (struct sim_result){
        .spec = spec,
        .lab = lab,
        .series = series,
        .flow = calloc(spec->flows, sizeof(*r->flow)),
        .times = calloc(spec->flows, sizeof(*r->times)),
        .slow = calloc(spec->flows, sizeof(*r->slow)),
    };
    if (!r->flow || !r->times || !r->slow)
        return -ENOMEM;
    add_up_flows(r);
    add_up_ports(r);
    qsort(r->times, r->done, sizeof(*r->times), compare_times);
    qsort(r->slow, r->slows, sizeof(*r->slow), compare_slow);
    if (series->n - series_half(series) >= 2) {
        look_at_late_flows(r);
        look_at_late_queues(r);
    }
    lab_drops(lab, r->drop);
    return 0;
}

void sim_result_free(struct sim_result *r)
{
    free(r->flow);
    free(r->times);
    free(r->slow);
}
