/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic in a word, as single flows. See parse_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse_internal.h"

/* "NAME.n"; a long name is cut. */
static void number_name(struct lab_flow *f, const char *name, unsigned n)
{
    char digits[12];
    int len = snprintf(digits, sizeof(digits), ".%u", n);

    snprintf(f->name, sizeof(f->name), "%.*s%s", (int)sizeof(f->name) - 1 - len, name, digits);
}

/* The flows of a line from one host to another: `count` of them, n have been made before. */
static int add_flows(struct lab_spec *spec, const struct lab_traffic *t, unsigned from, unsigned to,
                     unsigned *n)
{
    for (unsigned i = 0; i < t->count; i++) {
        struct lab_flow f = t->flow;
        int err;

        f.from = from;
        f.to = to;
        f.start += t->stagger * *n;
        if (f.start > LAB_TIME_MAX)
            return -ERANGE;
        if (*n || t->count > 1)
            number_name(&f, t->flow.name, *n + 1);
        ++*n;
        err = lab_add_flow(spec, &f);
        if (err < 0)
            return err;
    }
    return 0;
}

static int refuse(char why[LAB_WHY], const char *text)
{
    snprintf(why, LAB_WHY, "%s", text);
    return -EINVAL;
}

int lab_make_flow(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                  unsigned n, char why[LAB_WHY])
{
    unsigned made = 0;

    if (hosts[0] == hosts[1])
        return refuse(why, "a flow leads to another host");
    return add_flows(spec, t, hosts[0], hosts[1], &made);
}

int lab_make_incast(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                    unsigned n, char why[LAB_WHY])
{
    int to = lab_find_node(spec, t->to), err = 0;
    unsigned made = 0;

    if (to < 0 || spec->node[to].is_switch)
        return refuse(why, "it needs to=HOST");
    for (unsigned i = 0; i < n && err >= 0; i++)
        if (hosts[i] != (unsigned)to)
            err = add_flows(spec, t, hosts[i], (unsigned)to, &made);
    return made ? err : refuse(why, "no host sends");
}

/* Each host sends to one, and receives from one: shifted by a number, or in a random circle
 * (Sattolo), so that no host sends to itself. */
int lab_make_permutation(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                         unsigned n, char why[LAB_WHY])
{
    unsigned *to, made = 0;
    int err = 0;

    if (n < 2 || (t->shift && t->shift % n == 0))
        return refuse(why, "a permutation leads from each host to another one");
    to = malloc(n * sizeof(*to));
    if (!to)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++)
        to[i] = hosts[(i + t->shift) % n];
    spec->drawn |= !t->shift;
    for (unsigned i = n; !t->shift && i-- > 1;) {
        unsigned j = random_below(&spec->random, i), other = to[i];

        to[i] = to[j];
        to[j] = other;
    }
    for (unsigned i = 0; i < n && err >= 0; i++)
        err = add_flows(spec, t, hosts[i], to[i], &made);
    free(to);
    return err;
}

int lab_make_alltoall(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                      unsigned n, char why[LAB_WHY])
{
    unsigned made = 0;
    int err = 0;

    if (n < 2)
        return refuse(why, "it needs two hosts");
    for (unsigned step = 1; step < n && err >= 0; step++)
        for (unsigned i = 0; i < n && err >= 0; i++)
            err = add_flows(spec, t, hosts[i], hosts[(i + step) % n], &made);
    return err;
}

/* ---- Poisson ---- */

static double mean_size(const struct lab_traffic *t)
{
    double sum = 0, weights = 0;

    for (unsigned i = 0; i < t->sizes; i++) {
        sum += (double)t->size[i].bytes * t->size[i].weight;
        weights += t->size[i].weight;
    }
    return sum / weights;
}

static uint64_t draw_size(struct lab_spec *spec, const struct lab_traffic *t)
{
    uint32_t sum = 0, drawn;

    for (unsigned i = 0; i < t->sizes; i++)
        sum += t->size[i].weight;
    drawn = random_below(&spec->random, sum);
    for (unsigned i = 0;; i++) {
        if (drawn < t->size[i].weight)
            return t->size[i].bytes;
        drawn -= t->size[i].weight;
    }
}

/* Times between arrivals are exponential. Whole nanoseconds are added up, so that no machine rounds
 * sums in its own way. */
static ns_t draw_gap(struct lab_spec *spec, double mean)
{
    double drawn = ((double)(random_next(&spec->random) >> 11) + 1) / 9007199254740993.0;

    return (ns_t)fmin(-log(drawn) * mean, (double)LAB_TIME_MAX);
}

static uint64_t rate_of_host(const struct lab_spec *spec, unsigned host)
{
    for (unsigned i = 0; i < spec->links; i++)
        if (spec->link[i].a == host || spec->link[i].b == host)
            return spec->link[i].config.bps;
    return 0;
}

/* The arrivals at one host. */
static int add_arrivals(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                        unsigned n, unsigned from, unsigned *made, char why[LAB_WHY])
{
    uint64_t bps = rate_of_host(spec, hosts[from]);
    ns_t at = t->flow.start, stop = t->stop ? t->stop : spec->until;
    double mean;
    int err = 0;

    if (!bps) {
        snprintf(why, LAB_WHY, "the load is a part of a link's rate, and %s has no link before",
                 spec->node[hosts[from]].name);
        return -EINVAL;
    }
    mean = mean_size(t) * 8e9 / ((double)bps * (double)t->load / 1e9);
    for (at += draw_gap(spec, mean); at < stop; at += draw_gap(spec, mean)) {
        struct lab_traffic one = *t;
        unsigned other = random_below(&spec->random, n - 1);

        one.flow.start = at;
        one.flow.size = draw_size(spec, t);
        one.stagger = 0;
        err = add_flows(spec, &one, hosts[from], hosts[other + (other >= from)], made);
        if (err < 0)
            return err;
    }
    return 0;
}

int lab_make_poisson(struct lab_spec *spec, const struct lab_traffic *t, const unsigned *hosts,
                     unsigned n, char why[LAB_WHY])
{
    unsigned made = 0;
    int err = 0;

    if (n < 2 || !t->load || !t->sizes)
        return refuse(why, "it needs two hosts, load= and sizes=");
    spec->drawn = true;
    spec->bounded |= !t->stop;
    for (unsigned i = 0; i < n && err >= 0; i++)
        err = add_arrivals(spec, t, hosts, n, i, &made, why);
    return err;
}
