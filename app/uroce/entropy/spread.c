/* SPDX-License-Identifier: BSD-3-Clause */
/* Hashes flows onto paths, and measures the loads. See spread.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "crc_hash.h"
#include "encap.h"
#include "predict.h"
#include "random.h"
#include "spread.h"

/* The mean of this many random assignments is accurate to a percent. With many flows fewer will do,
 * as random differences even out. */
#define TRIALS      1000
#define TRIALS_MIN  64
#define TRIAL_FLOWS (1u << 26)
#define TRIALS_SEED 1

const char *const spread_hash_name[SPREAD_HASHES] = {
    [SPREAD_TOEPLITZ] = "toeplitz",
    [SPREAD_CRC16] = "crc16",
    [SPREAD_CRC32] = "crc32",
    [SPREAD_XOR] = "xor",
};

/* ---- one packet ---- */

struct hasher {
    const struct spread_plan *plan;
    struct rss rss; /* toeplitz */
};

static uint16_t port_of(const struct entropy_policy *policy, const struct flow *flow,
                        uint32_t message)
{
    struct entropy_flow e = {
        .src_qpn = flow->src_qpn, .dest_qpn = flow->dest_qpn, .index = message};

    return entropy_port(policy, &e);
}

static uint32_t hash_of(const struct hasher *h, enum spread_hash hash, const struct rss_tuple *t)
{
    switch (hash) {
    case SPREAD_CRC16:
        return ecmp_hash(ECMP_CRC16, h->plan->seed, t);
    case SPREAD_CRC32:
        return ecmp_hash(ECMP_CRC32, h->plan->seed, t);
    case SPREAD_XOR:
        return ecmp_hash(ECMP_XOR, h->plan->seed, t);
    case SPREAD_TOEPLITZ:
    case SPREAD_HASHES:
        break;
    }
    return rss_hash(&h->rss, t);
}

static unsigned width_of(enum spread_hash hash)
{
    return hash == SPREAD_CRC16 || hash == SPREAD_XOR ? 16 : 32;
}

static unsigned path_of(const struct spread_plan *plan, const struct spread *s, uint32_t hash)
{
    return plan->high ? ecmp_path_high(hash, width_of(s->hash), s->paths)
                      : ecmp_path_modulo(hash, s->paths);
}

/* ---- one policy and one hash ---- */

/* The spread of a policy and hash over the plan's i-th number of paths. */
static struct spread *spread_at(const struct spread_result *r, const struct spread_plan *plan,
                                unsigned i, unsigned policy, unsigned hash)
{
    return &r->spread[(i * plan->policies + policy) * plan->hashes + hash];
}

/* Adds a message to its path, for each number of paths. */
static void add_message(const struct hasher *h, struct spread *const *s, uint32_t hash, bool first)
{
    for (unsigned i = 0; i < h->plan->path_counts; i++) {
        unsigned path = path_of(h->plan, s[i], hash);

        s[i]->load[path] += 1;
        if (first)
            s[i]->first[path]++;
    }
}

/* Adds a flow: all of its messages together, or, for a policy that sprays, each message on its own
 * path. */
static void add_flow(const struct hasher *h, struct spread *const *s, const struct flow *flow)
{
    unsigned messages = s[0]->policy.rule == ENTROPY_SPRAY ? h->plan->messages : 1;
    struct rss_tuple t = {flow->src, flow->dst, 0, ROCE_UDP_PORT};

    for (unsigned m = 0; m < messages; m++) {
        t.sport = port_of(&s[0]->policy, flow, m);
        add_message(h, s, hash_of(h, s[0]->hash, &t), m == 0);
    }
}

static void measure_spread(struct spread *s, unsigned flows, unsigned messages)
{
    double mean = (double)flows / s->paths, largest = 0, squares = 0;

    for (unsigned p = 0; p < s->paths; p++) {
        double off;

        s->load[p] /= messages;
        off = s->load[p] - mean;
        s->idle += s->load[p] == 0;
        s->shared += s->first[p] > 1 ? s->first[p] : 0;
        largest = max_of(largest, s->load[p]);
        squares += off * off;
    }
    s->imbalance = largest / mean;
    s->cv = sqrt(squares / s->paths) / mean;
}

static void spread_flows(struct spread_result *r, const struct hasher *h, unsigned policy,
                         unsigned hash, const struct flows *f)
{
    struct spread *s[SPREAD_LIST_MAX];

    for (unsigned i = 0; i < h->plan->path_counts; i++)
        s[i] = spread_at(r, h->plan, i, policy, hash);
    for (unsigned i = 0; i < f->count; i++)
        add_flow(h, s, &f->flow[i]);
    for (unsigned i = 0; i < h->plan->path_counts; i++)
        measure_spread(s[i], f->count, s[i]->policy.rule == ENTROPY_SPRAY ? h->plan->messages : 1);
}

/* ---- what switches cannot tell apart ---- */

static int compare_tuples(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct rss_tuple));
}

/* Counts the distinct tuples of the first messages, and the flows that share one. */
static int count_ports(const struct entropy_policy *policy, const struct flows *f, unsigned *ports,
                       unsigned *same)
{
    struct rss_tuple *t = calloc(f->count, sizeof(*t));
    unsigned run;

    if (!t)
        return -ENOMEM;
    for (unsigned i = 0; i < f->count; i++) {
        t[i].src = f->flow[i].src;
        t[i].dst = f->flow[i].dst;
        t[i].sport = port_of(policy, &f->flow[i], 0);
    }
    qsort(t, f->count, sizeof(*t), compare_tuples);
    *ports = *same = 0;
    for (unsigned i = 0; i < f->count; i += run) {
        run = 1;
        while (i + run < f->count && compare_tuples(&t[i], &t[i + run]) == 0)
            run++;
        ++*ports;
        *same += run > 1 ? run : 0;
    }
    free(t);
    return 0;
}

/* ---- what to compare with ---- */

static int random_imbalance(double *out, unsigned flows, unsigned paths)
{
    unsigned trials = TRIAL_FLOWS / flows, largest;
    unsigned *load = malloc(paths * sizeof(*load));
    struct random r = {TRIALS_SEED};
    uint64_t sum = 0;

    if (!load)
        return -ENOMEM;
    trials = min_of(max_of(trials, TRIALS_MIN), TRIALS);
    for (unsigned t = 0; t < trials; t++) {
        memset(load, 0, paths * sizeof(*load));
        largest = 0;
        for (unsigned i = 0; i < flows; i++) {
            unsigned n = ++load[random_below(&r, paths)];

            largest = max_of(largest, n);
        }
        sum += largest;
    }
    free(load);
    *out = (double)sum / trials * paths / flows;
    return 0;
}

static int compute_baseline(struct spread_baseline *b, unsigned flows, unsigned paths)
{
    double n = flows, k = paths, mean = n / k, fuller = flows % paths / k;

    b->paths = paths;
    b->ideal_imbalance = ceil(mean) / mean;
    b->ideal_cv = sqrt(fuller * (1 - fuller)) / mean;
    b->random_cv = sqrt((k - 1) / n);
    b->random_idle = k * pow(1 - 1 / k, n);
    b->random_shared = n * (1 - pow(1 - 1 / k, n - 1));
    return random_imbalance(&b->random_imbalance, flows, paths);
}

const struct spread_baseline *spread_baseline(const struct spread_result *r, unsigned paths)
{
    const struct spread_baseline *b = r->baseline;

    while (b->paths != paths)
        b++;
    return b;
}

/* ---- all of it ---- */

static int prepare_spread(struct spread *s, const struct spread_plan *plan, unsigned i,
                          unsigned policy, unsigned hash)
{
    s->policy = plan->policy[policy];
    s->hash = plan->hash[hash];
    s->paths = plan->paths[i];
    s->load = calloc(s->paths, sizeof(*s->load));
    s->first = calloc(s->paths, sizeof(*s->first));
    return s->load && s->first ? 0 : -ENOMEM;
}

/* Computes all spreads of a policy. */
static int spread_policy(struct spread_result *r, const struct hasher *h, unsigned policy,
                         const struct flows *f)
{
    const struct spread_plan *plan = h->plan;
    unsigned ports, same;
    int err = count_ports(&plan->policy[policy], f, &ports, &same);

    for (unsigned hash = 0; hash < plan->hashes && !err; hash++) {
        for (unsigned i = 0; i < plan->path_counts && !err; i++) {
            struct spread *s = spread_at(r, plan, i, policy, hash);

            err = prepare_spread(s, plan, i, policy, hash);
            s->ports = ports;
            s->same_port = same;
        }
        if (!err)
            spread_flows(r, h, policy, hash, f);
    }
    return err;
}

int spread_compute(struct spread_result *r, const struct spread_plan *plan, const struct flows *f)
{
    struct hasher h = {.plan = plan};
    int err = 0;

    *r = (struct spread_result){.flows = f->count};
    rss_init_toeplitz(&h.rss, plan->key, RSS_ALL);
    r->spreads = plan->path_counts * plan->policies * plan->hashes;
    r->spread = calloc(r->spreads, sizeof(*r->spread));
    if (!r->spread)
        return -ENOMEM;
    for (unsigned i = 0; i < plan->path_counts && !err; i++)
        err = compute_baseline(&r->baseline[r->baselines++], f->count, plan->paths[i]);
    for (unsigned policy = 0; policy < plan->policies && !err; policy++)
        err = spread_policy(r, &h, policy, f);
    if (err)
        spread_free(r);
    return err;
}

void spread_free(struct spread_result *r)
{
    for (unsigned i = 0; i < r->spreads; i++) {
        free(r->spread[i].load);
        free(r->spread[i].first);
    }
    free(r->spread);
    *r = (struct spread_result){0};
}
