/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a laboratory's text. See spec.h. */
#include "parse_internal.h"
#include "printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 256u

struct parser {
    struct lab_spec *spec;
    struct lab_error *error;
    bool seed_given; /* by the caller: the text's does not count */
    char text[LAB_LINE_MAX];
    char *word[WORDS_MAX];
    unsigned words;
};

__attribute__((format(printf, 2, 3))) static int fail(struct parser *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->error->text, sizeof(p->error->text), format, args);
    va_end(args);
    return -EINVAL;
}

/* What a negative errno of spec.h means here. */
static int fail_with(struct parser *p, int err, const char *what)
{
    switch (err) {
    case -EEXIST:
        return fail(p, "%.60s: a name is taken already", what);
    case -EMLINK:
        return fail(p, "%.60s: a host has one link, a switch %u", what, FABRIC_PORTS_MAX);
    case -ENOSPC:
        return fail(p, "%.60s: too many", what);
    case -ERANGE:
        return fail(p, "%.60s: too late", what);
    case -ENOMEM:
        fail(p, "out of memory");
        return -ENOMEM;
    default:
        return fail(p, "%.60s: not possible", what);
    }
}

/* ---- words ---- */

static bool is_key(const char *word)
{
    return strchr(word, '=');
}

/* Applies the words from `first` on, all of them keys. */
static int apply_keys(struct parser *p, unsigned first, enum lab_section section, void *object)
{
    char why[LAB_WHY];

    for (unsigned i = first; i < p->words; i++)
        if (!lab_apply_key(section, object, p->word[i], why))
            return fail(p, "%s", why);
    return 0;
}

/* A word that names a node. */
static int find_node(struct parser *p, unsigned word, unsigned *node)
{
    int found = word < p->words ? lab_find_node(p->spec, p->word[word]) : -ENOENT;

    if (found < 0)
        return word < p->words ? fail(p, "there is no node \"%.40s\"", p->word[word])
                               : fail(p, "a node is missing");
    *node = (unsigned)found;
    return 0;
}

/* The link between the nodes of two words: its port at the first one. */
static int find_port(struct parser *p, unsigned *port)
{
    unsigned a, b;
    int found;

    if (find_node(p, 1, &a) || find_node(p, 2, &b))
        return -EINVAL;
    found = lab_find_port(p->spec, a, b);
    if (found < 0)
        return fail(p, "there is no link from %s to %s", p->word[1], p->word[2]);
    *port = (unsigned)found;
    return 0;
}

/* ---- settings ---- */

static int read_seed(struct parser *p)
{
    uint64_t seed;

    if (p->words != 2 || !lab_read_count(p->word[1], &seed))
        return fail(p, "seed takes a number");
    if (p->spec->drawn)
        return fail(p, "seed comes before all that is chosen by it");
    if (!p->seed_given)
        p->spec->seed = p->spec->random.state = seed;
    return 0;
}

static int read_time(struct parser *p, ns_t *time, ns_t least)
{
    if (p->words != 2 || !lab_read_time(p->word[1], time) || *time < least || *time > LAB_TIME_MAX)
        return fail(p, "%s takes a time, at most an hour", p->word[0]);
    return 0;
}

static int read_until(struct parser *p)
{
    return read_time(p, &p->spec->until, 1);
}

static int read_sample(struct parser *p)
{
    return read_time(p, &p->spec->sample, 100);
}

static int read_converge(struct parser *p)
{
    return read_time(p, &p->spec->converge, 0);
}

/* "hosts [PATTERN] KEY=VALUE...": the nodes of a pattern, or all and the default. */
static int set_nodes(struct parser *p, bool is_switch)
{
    bool all = p->words < 2 || is_key(p->word[1]);
    enum lab_section section = is_switch ? LAB_SWITCHES : LAB_HOSTS;
    unsigned first = all ? 1 : 2, met = 0;
    int err = 0;

    if (all)
        err = apply_keys(p, first, section,
                         is_switch ? (void *)&p->spec->switch_default
                                   : (void *)&p->spec->host_default);
    for (unsigned i = 0; i < p->spec->nodes && !err; i++) {
        struct lab_node *n = &p->spec->node[i];

        if (n->is_switch != is_switch || (!all && !lab_name_matches(n->name, p->word[1])))
            continue;
        met++;
        err = apply_keys(p, first, section, is_switch ? (void *)&n->sw : (void *)&n->host);
    }
    if (!err && !all && !met)
        return fail(p, "no node is called \"%.40s\"", p->word[1]);
    return err;
}

static int set_hosts(struct parser *p)
{
    return set_nodes(p, false);
}

static int set_switches(struct parser *p)
{
    return set_nodes(p, true);
}

static int set_links(struct parser *p)
{
    return apply_keys(p, 1, LAB_LINKS, &p->spec->link_default);
}

/* ---- nodes and links ---- */

static int add_nodes(struct parser *p, bool is_switch)
{
    for (unsigned i = 1; i < p->words; i++) {
        int err = strpbrk(p->word[i], "=,*[]<>/") ? -EINVAL
                                                  : lab_add_node(p->spec, p->word[i], is_switch);

        if (err < 0)
            return fail_with(p, err, p->word[i]);
    }
    return p->words > 1 ? 0 : fail(p, "a name is missing");
}

static int add_hosts(struct parser *p)
{
    return add_nodes(p, false);
}

static int add_switches(struct parser *p)
{
    return add_nodes(p, true);
}

static int add_link(struct parser *p)
{
    struct fabric_link config = p->spec->link_default;
    unsigned a, b;
    int err;

    if (find_node(p, 1, &a) || find_node(p, 2, &b) || apply_keys(p, 3, LAB_LINKS, &config))
        return -EINVAL;
    err = lab_add_link(p->spec, a, b, &config);
    return err < 0 ? fail_with(p, err, "link") : 0;
}

typedef int (*shape_maker)(struct lab_spec *, const struct lab_shape *, char *);

static int make_shape(struct parser *p, shape_maker make)
{
    struct lab_shape shape = {0};
    char why[LAB_WHY] = "";
    int err = apply_keys(p, 1, LAB_SHAPE, &shape);

    if (err)
        return err;
    err = make(p->spec, &shape, why);
    if (err < 0)
        return why[0] ? fail(p, "%s", why) : fail_with(p, err, p->word[0]);
    return 0;
}

static int make_star(struct parser *p)
{
    return make_shape(p, lab_make_star);
}

static int make_dumbbell(struct parser *p)
{
    return make_shape(p, lab_make_dumbbell);
}

static int make_clos(struct parser *p)
{
    return make_shape(p, lab_make_clos);
}

static int make_fattree(struct parser *p)
{
    return make_shape(p, lab_make_fattree);
}

/* ---- traffic ---- */

typedef int (*traffic_maker)(struct lab_spec *, const struct lab_traffic *, const unsigned *,
                             unsigned, char *);

/* The hosts of a pattern, or all, in hosts[]. */
static unsigned list_hosts(const struct parser *p, const char *pattern, unsigned *hosts)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->spec->nodes; i++)
        if (!p->spec->node[i].is_switch && lab_name_matches(p->spec->node[i].name, pattern))
            hosts[n++] = i;
    return n;
}

static int read_traffic(struct parser *p, unsigned first, struct lab_traffic *t)
{
    *t = (struct lab_traffic){
        .flow =
            {
                .size = 1 << 20,
                .message = 1 << 20,
                .depth = 4,
                .dscp = 26,
                .line = p->error->line,
            },
        .count = 1,
    };
    snprintf(t->flow.name, sizeof(t->flow.name), "%s", p->word[0]);
    return apply_keys(p, first, LAB_TRAFFIC, t);
}

static int make_traffic(struct parser *p, traffic_maker make)
{
    bool all = p->words < 2 || is_key(p->word[1]);
    unsigned *hosts = malloc((p->spec->nodes + 1) * sizeof(*hosts)), n;
    struct lab_traffic t;
    char why[LAB_WHY] = "";
    int err;

    if (!hosts)
        return fail_with(p, -ENOMEM, "");
    n = list_hosts(p, all ? "*" : p->word[1], hosts);
    err = n ? read_traffic(p, all ? 1 : 2, &t) : fail(p, "there are no such hosts");
    if (!err) {
        err = make(p->spec, &t, hosts, n, why);
        if (err < 0)
            err = why[0] ? fail(p, "%s", why) : fail_with(p, err, p->word[0]);
    }
    free(hosts);
    return err < 0 ? err : 0;
}

static int make_flow(struct parser *p)
{
    struct lab_traffic t;
    unsigned hosts[2];
    char why[LAB_WHY] = "";
    int err;

    if (find_node(p, 1, &hosts[0]) || find_node(p, 2, &hosts[1]) || read_traffic(p, 3, &t))
        return -EINVAL;
    if (p->spec->node[hosts[0]].is_switch || p->spec->node[hosts[1]].is_switch)
        return fail(p, "a flow leads from a host to a host");
    err = lab_make_flow(p->spec, &t, hosts, 2, why);
    if (err < 0)
        return why[0] ? fail(p, "%s", why) : fail_with(p, err, p->word[0]);
    return 0;
}

static int make_incast(struct parser *p)
{
    return make_traffic(p, lab_make_incast);
}

static int make_permutation(struct parser *p)
{
    return make_traffic(p, lab_make_permutation);
}

static int make_alltoall(struct parser *p)
{
    return make_traffic(p, lab_make_alltoall);
}

static int make_poisson(struct parser *p)
{
    return make_traffic(p, lab_make_poisson);
}

/* ---- faults ---- */

static int add_change(struct parser *p, const struct lab_change *change)
{
    int err = lab_add_change(p->spec, change);

    return err < 0 ? fail_with(p, err, p->word[0]) : 0;
}

static int make_fail(struct parser *p)
{
    struct lab_fault f = {0};
    struct lab_change change;
    int err;

    if (find_port(p, &change.port) || apply_keys(p, 3, LAB_FAULT, &f))
        return -EINVAL;
    if (f.until && f.until <= f.at)
        return fail(p, "until= comes after at=");
    change.at = f.at;
    change.frames = 0;
    change.kind = f.silent ? LAB_BLACK : LAB_DOWN;
    err = add_change(p, &change);
    change.at = f.until;
    change.kind = LAB_UP;
    return err || !f.until ? err : add_change(p, &change);
}

static int make_change(struct parser *p, enum lab_change_kind kind)
{
    struct lab_fault f = {.frames = 1};
    struct lab_change change = {.kind = kind};

    if (find_port(p, &change.port) || apply_keys(p, 3, LAB_FAULT, &f))
        return -EINVAL;
    change.at = f.at;
    change.frames = f.frames;
    return add_change(p, &change);
}

static int make_mark(struct parser *p)
{
    return make_change(p, LAB_MARK);
}

static int make_lose(struct parser *p)
{
    return make_change(p, LAB_LOSE);
}

/* The words behind the first one, with a blank between two; word[] is void then. */
static char *rest_of_line(struct parser *p)
{
    char *at = p->text;

    for (unsigned i = 1; i < p->words; i++) {
        size_t len = strlen(p->word[i]);

        memmove(at, p->word[i], len);
        at += len;
        *at++ = ' ';
    }
    at[p->words > 1 ? -1 : 0] = '\0';
    return p->text;
}

static int add_rule(struct parser *p)
{
    char error[INJECT_ERROR_MAX];
    int err = lab_read_rule(p->spec, rest_of_line(p), error);

    if (!err)
        return 0;
    fail(p, "%s", error);
    return err == -ENOMEM ? err : -EINVAL;
}

/* ---- the text ---- */

static const struct command {
    const char *name;
    int (*run)(struct parser *p);
} commands[] = {
    {"seed", read_seed},         {"until", read_until},       {"sample", read_sample},
    {"converge", read_converge}, {"hosts", set_hosts},        {"switches", set_switches},
    {"links", set_links},        {"host", add_hosts},         {"switch", add_switches},
    {"link", add_link},          {"star", make_star},         {"dumbbell", make_dumbbell},
    {"clos", make_clos},         {"fattree", make_fattree},   {"flow", make_flow},
    {"incast", make_incast},     {"alltoall", make_alltoall}, {"permutation", make_permutation},
    {"poisson", make_poisson},   {"fail", make_fail},         {"mark", make_mark},
    {"lose", make_lose},         {"fault", add_rule},
};

/* Cuts the line at blanks; # begins a comment. */
static int split(struct parser *p, const char *line, size_t len)
{
    char *at = p->text;

    p->words = 0;
    if (len >= sizeof(p->text))
        return fail(p, "a line has at most %u bytes", LAB_LINE_MAX - 1);
    memcpy(p->text, line, len);
    p->text[len] = '\0';
    if (strlen(p->text) != len)
        return fail(p, "a line has a byte 0");
    p->text[strcspn(p->text, "#")] = '\0';
    for (;;) {
        at += strspn(at, " \t\r");
        if (!*at)
            return 0;
        if (p->words == WORDS_MAX)
            return fail(p, "a line has at most %u words", WORDS_MAX);
        p->word[p->words++] = at;
        at += strcspn(at, " \t\r");
        if (*at)
            *at++ = '\0';
    }
}

static int run_line(struct parser *p, const char *line, size_t len)
{
    int err = split(p, line, len);

    if (err || !p->words)
        return err;
    for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
        if (!strcmp(commands[i].name, p->word[0]))
            return commands[i].run(p);
    return fail(p, "\"%.40s\" is no word that a line begins with", p->word[0]);
}

/* The node that stands for all those that links join with this one. */
static unsigned join_of(unsigned *up, unsigned node)
{
    while (up[node] != node)
        node = up[node] = up[up[node]];
    return node;
}

/* A flow without links from end to end would send for ever: nothing ever fails it. */
static int check_ways(struct parser *p)
{
    const struct lab_spec *spec = p->spec;
    unsigned *up = malloc(spec->nodes * sizeof(*up));
    int err = 0;

    if (!up)
        return fail_with(p, -ENOMEM, "");
    for (unsigned i = 0; i < spec->nodes; i++)
        up[i] = i;
    for (unsigned i = 0; i < spec->links; i++)
        up[join_of(up, spec->link[i].a)] = join_of(up, spec->link[i].b);
    for (unsigned i = 0; i < spec->flows && !err; i++) {
        const struct lab_flow *f = &spec->flow[i];

        if (join_of(up, f->from) == join_of(up, f->to))
            continue;
        p->error->line = f->line;
        err = fail(p, "%s: no links lead from %s to %s", f->name, spec->node[f->from].name,
                   spec->node[f->to].name);
    }
    free(up);
    return err;
}

static int check_whole(struct parser *p)
{
    p->error->line = 0;
    if (!p->spec->hosts)
        return fail(p, "there are no hosts");
    if (!p->spec->flows)
        return fail(p, "there are no flows");
    if (!p->spec->sample)
        p->spec->sample = max_of(p->spec->until / 500, (ns_t)100);
    if (p->spec->until / p->spec->sample > 100000)
        return fail(p, "more than 100000 samples: make sample longer");
    return check_ways(p);
}

int lab_spec_read(struct lab_spec *spec, const char *text, size_t len, const uint64_t *seed,
                  struct lab_error *error)
{
    struct parser *p = malloc(sizeof(*p));
    const char *end = text + len;
    int err = 0;

    *error = (struct lab_error){0};
    lab_spec_init(spec, seed ? *seed : 1);
    if (!p)
        return -ENOMEM;
    p->spec = spec;
    p->error = error;
    p->seed_given = seed != NULL;
    if (len >= strlen(BYTE_ORDER_MARK) && !memcmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)))
        text += strlen(BYTE_ORDER_MARK);
    while (text < end && !err) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));

        if (!stop)
            stop = end;
        error->line++;
        err = run_line(p, text, (size_t)(stop - text));
        text = stop < end ? stop + 1 : end;
    }
    if (!err)
        err = check_whole(p);
    free(p);
    return err;
}
