/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a laboratory's text about the run, its nodes and its links. */
#include "line.h"

#include <errno.h>
#include <string.h>

/* ---- settings ---- */

int line_seed(struct line_parser *p)
{
    uint64_t seed;

    if (p->words != 2 || !lab_read_count(p->word[1], &seed))
        return line_fail(p, "seed takes a number");
    if (p->spec->drawn)
        return line_fail(p, "seed comes before all that is chosen by it");
    if (!p->seed_given)
        p->spec->seed = p->spec->random.state = seed;
    return 0;
}

static int read_time(struct line_parser *p, ns_t *time, ns_t least)
{
    if (p->words != 2 || !lab_read_time(p->word[1], time) || *time < least || *time > LAB_TIME_MAX)
        return line_fail(p, "%s takes a time, at most an hour", p->word[0]);
    return 0;
}

int line_until(struct line_parser *p)
{
    ns_t until;
    int err = read_time(p, &until, 1);

    if (err || p->until_given)
        return err;
    if (p->spec->bounded)
        return line_fail(p, "until comes before all that ends with it");
    p->spec->until = until;
    return 0;
}

int line_sample(struct line_parser *p)
{
    return read_time(p, &p->spec->sample, 100);
}

int line_converge(struct line_parser *p)
{
    return read_time(p, &p->spec->converge, 0);
}

/* "hosts [PATTERN] KEY=VALUE...": the nodes of a pattern, or all and the default. */
static int set_nodes(struct line_parser *p, bool is_switch)
{
    bool all = p->words < 2 || line_is_key(p->word[1]);
    enum lab_section section = is_switch ? LAB_SWITCHES : LAB_HOSTS;
    unsigned first = all ? 1 : 2, met = 0;
    int err = 0;

    if (all)
        err = line_apply_keys(p, first, section,
                              is_switch ? (void *)&p->spec->switch_default
                                        : (void *)&p->spec->host_default);
    for (unsigned i = 0; i < p->spec->nodes && !err; i++) {
        struct lab_node *n = &p->spec->node[i];

        if (n->is_switch != is_switch || (!all && !lab_name_matches(n->name, p->word[1])))
            continue;
        met++;
        err = line_apply_keys(p, first, section, is_switch ? (void *)&n->sw : (void *)&n->host);
    }
    if (!err && !all && !met)
        return line_fail(p, "no node is called \"%.40s\"", p->word[1]);
    return err;
}

int line_set_hosts(struct line_parser *p)
{
    return set_nodes(p, false);
}

int line_set_switches(struct line_parser *p)
{
    return set_nodes(p, true);
}

int line_set_links(struct line_parser *p)
{
    return line_apply_keys(p, 1, LAB_LINKS, &p->spec->link_default);
}

/* ---- nodes and links ---- */

static int add_nodes(struct line_parser *p, bool is_switch)
{
    for (unsigned i = 1; i < p->words; i++) {
        int err;

        if (!lab_is_name(p->word[i]) || strpbrk(p->word[i], "=*[]>/"))
            return line_fail(p, "a node's name has up to 23 characters of ASCII, without any of "
                                ",\"&<>=*[]/");
        err = lab_add_node(p->spec, p->word[i], is_switch);
        if (err < 0)
            return line_fail_with(p, err, p->word[i]);
    }
    return p->words > 1 ? 0 : line_fail(p, "a name is missing");
}

int line_add_hosts(struct line_parser *p)
{
    return add_nodes(p, false);
}

int line_add_switches(struct line_parser *p)
{
    return add_nodes(p, true);
}

int line_add_link(struct line_parser *p)
{
    struct fabric_link config = p->spec->link_default;
    unsigned a, b;
    int err;

    if (line_find_node(p, 1, &a) || line_find_node(p, 2, &b) ||
        line_apply_keys(p, 3, LAB_LINKS, &config))
        return -EINVAL;
    err = lab_add_link(p->spec, a, b, &config);
    return err < 0 ? line_fail_with(p, err, "link") : 0;
}

typedef int (*shape_maker)(struct lab_spec *, const struct lab_shape *, char *);

static int make_shape(struct line_parser *p, shape_maker make)
{
    struct lab_shape shape = {0};
    char why[LAB_WHY] = "";
    int err = line_apply_keys(p, 1, LAB_SHAPE, &shape);

    if (err)
        return err;
    err = make(p->spec, &shape, why);
    if (err < 0)
        return why[0] ? line_fail(p, "%s", why) : line_fail_with(p, err, p->word[0]);
    return 0;
}

int line_star(struct line_parser *p)
{
    return make_shape(p, lab_make_star);
}

int line_dumbbell(struct line_parser *p)
{
    return make_shape(p, lab_make_dumbbell);
}

int line_clos(struct line_parser *p)
{
    return make_shape(p, lab_make_clos);
}

int line_fattree(struct line_parser *p)
{
    return make_shape(p, lab_make_fattree);
}
