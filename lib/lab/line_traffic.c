/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a laboratory's text about its traffic. */
#include "line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*traffic_maker)(struct lab_spec *, const struct lab_traffic *, const unsigned *,
                             unsigned, char *);

/* The hosts of a pattern, or all, in hosts[]. */
static unsigned list_hosts(const struct line_parser *p, const char *pattern, unsigned *hosts)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->spec->nodes; i++)
        if (!p->spec->node[i].is_switch && lab_name_matches(p->spec->node[i].name, pattern))
            hosts[n++] = i;
    return n;
}

static int read_traffic(struct line_parser *p, unsigned first, struct lab_traffic *t)
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
    return line_apply_keys(p, first, LAB_TRAFFIC, t);
}

static int make_traffic(struct line_parser *p, traffic_maker make)
{
    bool all = p->words < 2 || line_is_key(p->word[1]);
    unsigned *hosts = malloc((p->spec->nodes + 1) * sizeof(*hosts)), n;
    struct lab_traffic t;
    char why[LAB_WHY] = "";
    int err;

    if (!hosts)
        return line_fail_with(p, -ENOMEM, "");
    n = list_hosts(p, all ? "*" : p->word[1], hosts);
    err = n ? read_traffic(p, all ? 1 : 2, &t) : line_fail(p, "there are no such hosts");
    if (!err) {
        err = make(p->spec, &t, hosts, n, why);
        if (err < 0)
            err = why[0] ? line_fail(p, "%s", why) : line_fail_with(p, err, p->word[0]);
    }
    free(hosts);
    return err < 0 ? err : 0;
}

int line_flow(struct line_parser *p)
{
    struct lab_traffic t;
    unsigned hosts[2];
    char why[LAB_WHY] = "";
    int err;

    if (line_find_node(p, 1, &hosts[0]) || line_find_node(p, 2, &hosts[1]) ||
        read_traffic(p, 3, &t))
        return -EINVAL;
    if (p->spec->node[hosts[0]].is_switch || p->spec->node[hosts[1]].is_switch)
        return line_fail(p, "a flow leads from a host to a host");
    err = lab_make_flow(p->spec, &t, hosts, 2, why);
    if (err < 0)
        return why[0] ? line_fail(p, "%s", why) : line_fail_with(p, err, p->word[0]);
    return 0;
}

int line_incast(struct line_parser *p)
{
    return make_traffic(p, lab_make_incast);
}

int line_permutation(struct line_parser *p)
{
    return make_traffic(p, lab_make_permutation);
}

int line_alltoall(struct line_parser *p)
{
    return make_traffic(p, lab_make_alltoall);
}

int line_poisson(struct line_parser *p)
{
    return make_traffic(p, lab_make_poisson);
}
