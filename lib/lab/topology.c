/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies in a word: their nodes, links and names. See parse_internal.h. */
#include <errno.h>
#include <stdio.h>

#include "parse_internal.h"

/* The node "PREFIXn"; negative: why it cannot be. */
static int add(struct lab_spec *spec, const char *prefix, unsigned n, bool is_switch)
{
    char name[LAB_NAME_MAX];

    snprintf(name, sizeof(name), "%s%u", prefix, n);
    return lab_add_node(spec, name, is_switch);
}

static int join(struct lab_spec *spec, int a, int b, uint64_t bps)
{
    struct fabric_link config = spec->link_default;

    if (a < 0 || b < 0)
        return a < 0 ? a : b;
    if (bps)
        config.bps = bps;
    return lab_add_link(spec, (unsigned)a, (unsigned)b, &config);
}

/* n hosts at a switch, the first one PREFIX`first`. */
static int add_hosts(struct lab_spec *spec, int at, const char *prefix, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        int err = join(spec, add(spec, prefix, first + i, false), at, 0);

        if (err < 0)
            return err;
    }
    return 0;
}

static int lacks(char why[LAB_WHY], const char *keys)
{
    snprintf(why, LAB_WHY, "it needs %s", keys);
    return -EINVAL;
}

int lab_make_star(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY])
{
    int sw;

    if (!s->hosts)
        return lacks(why, "hosts=");
    sw = add(spec, "s", 1, true);
    return sw < 0 ? sw : add_hosts(spec, sw, "h", 1, s->hosts);
}

int lab_make_dumbbell(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY])
{
    int left, right, err;

    if (!s->left || !s->right)
        return lacks(why, "left= and right=");
    left = lab_add_node(spec, "left", true);
    right = lab_add_node(spec, "right", true);
    err = join(spec, left, right, s->neck);
    if (err >= 0)
        err = add_hosts(spec, left, "l", 1, s->left);
    return err < 0 ? err : add_hosts(spec, right, "r", 1, s->right);
}

int lab_make_clos(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY])
{
    int err = 0;

    if (!s->leaves || !s->spines || !s->hosts)
        return lacks(why, "leaves=, spines= and hosts= (of a leaf)");
    for (unsigned i = 0; i < s->spines && err >= 0; i++)
        err = add(spec, "spine", i + 1, true);
    for (unsigned i = 0; i < s->leaves && err >= 0; i++) {
        int leaf = add(spec, "leaf", i + 1, true);

        err = leaf < 0 ? leaf : add_hosts(spec, leaf, "h", i * s->hosts + 1, s->hosts);
        for (unsigned j = 0; j < s->spines && err >= 0; j++)
            err = join(spec, leaf, leaf - (int)(i * (s->hosts + 1) + s->spines) + (int)j, s->up);
    }
    return err;
}

/* A pod: k / 2 switches for hosts, as many above them, and each of those k / 2 links to the core.
 */
static int add_pod(struct lab_spec *spec, const struct lab_shape *s, unsigned pod, int core)
{
    unsigned half = s->k / 2;
    int above = (int)spec->nodes, err = 0;

    for (unsigned i = 0; i < half && err >= 0; i++) {
        int at = add(spec, "agg", pod * half + i + 1, true);

        err = at;
        for (unsigned j = 0; j < half && err >= 0; j++)
            err = join(spec, at, core + (int)(i * half + j), s->up);
    }
    for (unsigned i = 0; i < half && err >= 0; i++) {
        int at = add(spec, "edge", pod * half + i + 1, true);

        err = at < 0 ? at : add_hosts(spec, at, "h", (pod * half + i) * half + 1, half);
        for (unsigned j = 0; j < half && err >= 0; j++)
            err = join(spec, at, above + (int)j, s->up);
    }
    return err;
}

int lab_make_fattree(struct lab_spec *spec, const struct lab_shape *s, char why[LAB_WHY])
{
    int core = (int)spec->nodes, err = 0;

    if (!s->k || s->k % 2)
        return lacks(why, "k=, an even number");
    for (unsigned i = 0; i < s->k * s->k / 4 && err >= 0; i++)
        err = add(spec, "core", i + 1, true);
    for (unsigned pod = 0; pod < s->k && err >= 0; pod++)
        err = add_pod(spec, s, pod, core);
    return err;
}
