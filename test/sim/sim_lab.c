/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Laboratories made at random (lib/lab): topologies, queues, marks, trims, pauses, spraying,
 * losses, links that fail for a while, rules that spoil frames, and every controller. Whatever the
 * network does, all flows end well, every frame is accounted for, and a switch with PFC alone drops
 * nothing.
 *
 *     sim_lab [--first SEED] [--seeds N] | --seed SEED      the second prints the laboratory, too
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

#define TEXT 4096

struct recipe {
    struct random random;
    char text[TEXT];
    size_t len;
    bool lossless; /* all priorities have PFC, and no link loses pause frames */
};

__attribute__((format(printf, 2, 3))) static void add(struct recipe *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    r->len += (size_t)vsnprintf(r->text + r->len, TEXT - r->len, format, args);
    va_end(args);
    if (r->len >= TEXT)
        abort();
}

static unsigned below(struct recipe *r, unsigned n)
{
    return random_below(&r->random, n);
}

static const char *one_of(struct recipe *r, const char *const *words, unsigned n)
{
    return words[below(r, n)];
}
#define ONE_OF(r, ...)                            \
    one_of(r, (const char *const[]){__VA_ARGS__}, \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void add_settings(struct recipe *r)
{
    add(r, "until 20s\nsample 1s\n");
    add(r, "hosts control=%s mtu=%u timeout=10 retry=7 reorder=%u window=%u repath=%u entropy=%s\n",
        ONE_OF(r, "none", "dcqcn", "dcqcn-mlx5", "swift", "swift,start_window=1,min_rate=1", "rtt"),
        256u << below(r, 5), below(r, 3) * 4, below(r, 2) * (16 + below(r, 200)), below(r, 3),
        ONE_OF(r, "kernel", "rfc", "spray"));
    r->lossless = below(r, 3) == 0;
    add(r, "switches buffer=%uK mark=%s ecmp=%s pfc=%s\n", 64 + below(r, 1000),
        ONE_OF(r, "none", "step:20K", "red:10K:80K:0.3"),
        ONE_OF(r, "flow", "linear", "spray", "roundrobin", "adaptive"),
        r->lossless ? "0,1,2,3,4,5,6,7" : "no");
    add(r, "switches trim=%s\nhosts selective=%s\n", ONE_OF(r, "no", "yes", "yes", "40"),
        ONE_OF(r, "no", "yes"));
    add(r, "links rate=%ug delay=%uns", 1 + below(r, 100), below(r, 5000));
    if (!below(r, 3)) {
        add(r, " loss=0.00%u", 1 + below(r, 9));
        r->lossless = false;
    }
    add(r, "\n");
}

/* The number of hosts, called h1...; *leaves: of a network with spines, else 0. */
static unsigned add_nodes(struct recipe *r, unsigned *leaves)
{
    unsigned hosts = 1 + below(r, 3);

    *leaves = below(r, 3) ? 2 + below(r, 2) : 0;
    if (!*leaves) {
        add(r, "star hosts=%u\n", hosts + 1);
        return hosts + 1;
    }
    add(r, "clos leaves=%u spines=%u hosts=%u up=%ug\n", *leaves, 2 + below(r, 3), hosts,
        1 + below(r, 100));
    return *leaves * hosts;
}

static void add_flows(struct recipe *r, unsigned hosts)
{
    for (unsigned n = 1 + below(r, 8); n; n--) {
        unsigned from = 1 + below(r, hosts), to = 1 + below(r, hosts - 1);

        add(r, "flow h%u h%u size=%u message=%u depth=%u verb=%s start=%uus dscp=%u\n", from,
            to + (to >= from), 1 + below(r, below(r, 2) ? 300000 : 3000), 1 + below(r, 60000),
            1 + below(r, 8), ONE_OF(r, "write", "send", "read"), below(r, 300), below(r, 64));
    }
}

/* Of seven repetitions these are lost for certain. Five left so few that links which lose 3 of
 * 1,000 frames took the rest in one of 200,000 laboratories, and the flow failed, as it should. */
#define LOST_MAX 3

static void add_faults(struct recipe *r, unsigned leaves)
{
    for (unsigned n = leaves ? below(r, 3) : 0; n; n--) {
        unsigned at = below(r, 500);

        r->lossless = false;
        add(r, "fail leaf%u spine%u at=%uus until=%uus silent=%s\n", 1 + below(r, leaves),
            1 + below(r, 2), at, at + 1 + below(r, 2000), ONE_OF(r, "yes", "no"));
    }
    if (!below(r, 3)) /* few: they may be the answers to all repetitions of one packet */
        add(r, "lose h1 %s at=%uus frames=%u\n", leaves ? "leaf1" : "s1", below(r, 100),
            1 + below(r, 5) % LOST_MAX);
}

/* Rules that no flow fails by. */
static void add_rules(struct recipe *r)
{
    static const char *const rules[] = {
        "drop chance 0.00%u seed %u",
        "duplicate nth 1%u seed %u",
        "corrupt chance 0.00%u seed %u",
        "corrupt header chance 0.00%u seed %u",
        "mark nth %u seed %u",
        "delay 1%uus chance 0.03 count 40 seed %u",
        "reorder 1%u chance 0.03 count 40 seed %u",
        "nak rnr chance 0.02 count 1%u seed %u",
        "nak sequence chance 0.02 count 1%u seed %u",
        "link_down after %uus for 1%uus",
    };

    for (unsigned n = below(r, 2) ? below(r, 4) : 0; n; n--) {
        add(r, "fault %s", ONE_OF(r, "", "h1 ", "h[1-2] "));
        add(r, rules[below(r, ARRAY_SIZE(rules))], 1 + below(r, 9), below(r, 10));
        add(r, "\n");
    }
}

static void make(struct recipe *r, uint64_t seed)
{
    unsigned leaves, hosts;

    memset(r, 0, sizeof(*r));
    r->random.state = seed;
    add_settings(r);
    hosts = add_nodes(r, &leaves);
    add_flows(r, hosts);
    add_faults(r, leaves);
    add_rules(r);
}

/* ---- running ---- */

/* Frames of one flow may take several paths at once, but not at a single switch. */
static bool all_ended_well(const struct lab *lab, const struct lab_spec *spec)
{
    for (unsigned i = 0; i < spec->flows; i++) {
        struct lab_result f;

        lab_result(lab, i, &f);
        if (f.outcome == LAB_DONE && f.bytes == spec->flow[i].size && f.arrived >= f.bytes &&
            (spec->switches > 1 || f.end - f.start + 10 >= f.ideal))
            continue;
        printf("flow %u: outcome %u, status %u, %llu of %llu bytes, %llu ns, ideally %llu\n", i,
               f.outcome, f.status, (unsigned long long)f.bytes,
               (unsigned long long)spec->flow[i].size, (unsigned long long)(f.end - f.start),
               (unsigned long long)f.ideal);
        return false;
    }
    return true;
}

static bool adds_up(const struct fabric *f)
{
    const struct fabric_totals *t = fabric_totals(f);
    uint64_t sum =
        t->delivered + t->dropped + t->lost + t->unrouted + t->misplaced + fabric_frames_inside(f);

    if (t->sent != sum)
        printf("%llu frames sent, %llu accounted for\n", (unsigned long long)t->sent,
               (unsigned long long)sum);
    return t->sent == sum;
}

/* *events: how many there were. */
static bool run(const struct recipe *r, uint64_t seed, uint64_t *events)
{
    const struct lab_hooks none = {0};
    struct lab_error error;
    struct lab_spec spec;
    struct lab *lab;
    bool good = false;
    int err;

    if (lab_spec_read(&spec, r->text, r->len, &seed, 0, &error)) {
        printf("line %u: %s\n", error.line, error.text);
        lab_spec_free(&spec);
        return false;
    }
    lab = lab_create(&spec, &none);
    if (!lab)
        abort();
    err = lab_run(lab);
    if (err)
        printf("lab_run: %d\n", err);
    else
        good = all_ended_well(lab, &spec) && adds_up(lab_fabric(lab));
    if (r->lossless && fabric_totals(lab_fabric(lab))->dropped) {
        printf("frames dropped in spite of PFC\n");
        good = false;
    }
    *events = fabric_events(lab_fabric(lab));
    lab_destroy(lab);
    lab_spec_free(&spec);
    return good;
}

static bool try_seed(uint64_t seed, bool show)
{
    struct recipe r;
    uint64_t events, again = 0;

    make(&r, seed);
    if (show)
        fputs(r.text, stdout);
    if (run(&r, seed, &events) && (seed % 16 || (run(&r, seed, &again) && again == events)))
        return true;
    if (again && again != events)
        printf("the same seed: %llu and %llu events\n", (unsigned long long)events,
               (unsigned long long)again);
    printf("seed %llu fails: sim_lab --seed %llu\n", (unsigned long long)seed,
           (unsigned long long)seed);
    return false;
}

int main(int argc, char **argv)
{
    uint64_t first = 0, seeds = 100;
    bool good = true, show = false;

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 0);

        if (!strcmp(argv[i], "--first")) {
            first = value;
        } else if (!strcmp(argv[i], "--seeds")) {
            seeds = value;
        } else if (!strcmp(argv[i], "--seed")) {
            first = value;
            seeds = 1;
            show = true;
        } else {
            fputs("usage: sim_lab [--first SEED] [--seeds N] | --seed SEED\n", stderr);
            return 2;
        }
    }
    for (uint64_t seed = first; seed < first + seeds && good; seed++)
        good = try_seed(seed, show);
    return !good;
}
