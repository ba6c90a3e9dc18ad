/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of a laboratory: see spec.h. */
#include "spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const lab_verb_name[] = {"write", "send", "read"};

void lab_spec_init(struct lab_spec *spec, uint64_t seed)
{
    *spec = (struct lab_spec){
        .seed = seed,
        .until = 10 * NS_PER_MS,
        .converge = 100 * NS_PER_US,
        .host_default = {.ecn = true,
                         .cnp = 50 * NS_PER_US,
                         .mtu = 4096,
                         .timeout = 14,
                         .retry = 7,
                         .reorder = 8,
                         .trim = LAB_TRIM_AUTO},
        .switch_default = fabric_switch_default,
        .link_default = {.bps = UINT64_C(100000000000), .delay = NS_PER_US},
        .random = {.state = seed},
    };
}

void lab_spec_free(struct lab_spec *spec)
{
    free(spec->node);
    free(spec->link);
    free(spec->flow);
    free(spec->change);
    free(spec->rule);
    *spec = (struct lab_spec){0};
}

/* Room for one more of `size` bytes; 0, -ENOMEM or -ENOSPC. */
static int make_room(void *array, unsigned used, unsigned *room, unsigned most, size_t size)
{
    unsigned more = max_of(2 * *room, 64u);
    void *grown;

    if (used >= most)
        return -ENOSPC;
    if (used < *room)
        return 0;
    grown = realloc(*(void **)array, more * size);
    if (!grown)
        return -ENOMEM;
    *(void **)array = grown;
    *room = more;
    return 0;
}

int lab_find_node(const struct lab_spec *spec, const char *name)
{
    for (unsigned i = 0; i < spec->nodes; i++)
        if (!strcmp(spec->node[i].name, name))
            return (int)i;
    return -ENOENT;
}

int lab_add_node(struct lab_spec *spec, const char *name, bool is_switch)
{
    int err =
        make_room(&spec->node, spec->nodes, &spec->node_room, LAB_NODES_MAX, sizeof(*spec->node));
    struct lab_node *n;

    if (err)
        return err;
    if (is_switch && spec->switches == FABRIC_SWITCHES_MAX)
        return -ENOSPC;
    if (strlen(name) >= LAB_NAME_MAX || !*name)
        return -EINVAL;
    if (lab_find_node(spec, name) >= 0)
        return -EEXIST;
    n = &spec->node[spec->nodes];
    *n = (struct lab_node){.is_switch = is_switch};
    strcpy(n->name, name);
    n->number = is_switch ? spec->switches++ : spec->hosts++;
    if (is_switch)
        n->sw = spec->switch_default;
    else
        n->host = spec->host_default;
    return (int)spec->nodes++;
}

int lab_add_link(struct lab_spec *spec, unsigned a, unsigned b, const struct fabric_link *config)
{
    int err =
        make_room(&spec->link, spec->links, &spec->link_room, LAB_LINKS_MAX, sizeof(*spec->link));
    const unsigned end[2] = {a, b};

    if (err)
        return err;
    if (a == b)
        return -EINVAL;
    for (unsigned i = 0; i < 2; i++)
        if (spec->node[end[i]].degree >= (spec->node[end[i]].is_switch ? FABRIC_PORTS_MAX : 1))
            return -EMLINK;
    spec->node[a].degree++;
    spec->node[b].degree++;
    spec->link[spec->links] = (struct lab_link){a, b, *config};
    return (int)spec->links++;
}

int lab_add_flow(struct lab_spec *spec, const struct lab_flow *flow)
{
    int err =
        make_room(&spec->flow, spec->flows, &spec->flow_room, LAB_FLOWS_MAX, sizeof(*spec->flow));

    if (err)
        return err;
    spec->flow[spec->flows] = *flow;
    return (int)spec->flows++;
}

int lab_add_change(struct lab_spec *spec, const struct lab_change *change)
{
    int err = make_room(&spec->change, spec->changes, &spec->change_room, LAB_CHANGES_MAX,
                        sizeof(*spec->change));

    if (err)
        return err;
    spec->change[spec->changes] = *change;
    return (int)spec->changes++;
}

int lab_add_rule(struct lab_spec *spec, const struct lab_rule *rule)
{
    int err =
        make_room(&spec->rule, spec->rules, &spec->rule_room, LAB_RULES_MAX, sizeof(*spec->rule));

    if (err)
        return err;
    spec->rule[spec->rules] = *rule;
    return (int)spec->rules++;
}

int lab_find_port(const struct lab_spec *spec, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < spec->links; i++) {
        if (spec->link[i].a == a && spec->link[i].b == b)
            return (int)(2 * i);
        if (spec->link[i].a == b && spec->link[i].b == a)
            return (int)(2 * i + 1);
    }
    return -ENOENT;
}

/* ---- patterns ---- */

/* A decimal number without leading zeros, at most 9 digits; advances *text. */
static bool read_number(const char **text, unsigned *out)
{
    const char *at = *text;
    unsigned n = 0;

    for (; *at >= '0' && *at <= '9' && at - *text < 9; at++)
        n = n * 10 + (unsigned)(*at - '0');
    if (at == *text || (**text == '0' && at - *text > 1))
        return false;
    *text = at;
    *out = n;
    return true;
}

/* The part of a pattern from *at to its end, or to a comma. */
static bool matches_part(const char *name, const char *at, const char *end)
{
    for (; at < end; at++) {
        unsigned first, last, n;

        if (*at == '*' && at + 1 == end)
            return true;
        if (*at != '[') {
            if (*name++ != *at)
                return false;
            continue;
        }
        at++;
        if (!read_number(&at, &first) || *at++ != '-' || !read_number(&at, &last) || *at != ']' ||
            !read_number(&name, &n) || n < first || n > last)
            return false;
    }
    return !*name;
}

bool lab_name_matches(const char *name, const char *pattern)
{
    while (*pattern) {
        const char *end = pattern + strcspn(pattern, ",");

        if (matches_part(name, pattern, end))
            return true;
        pattern = *end ? end + 1 : end;
    }
    return false;
}
