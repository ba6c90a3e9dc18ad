/* SPDX-License-Identifier: BSD-3-Clause */
/* The result as a table and as JSON. See spread.h. */
#include <errno.h>

#include "spread.h"
#include "table.h"

static json_t *table_row(const struct spread *s, const struct spread_baseline *b)
{
    char policy[ENTROPY_TEXT_MAX];

    entropy_policy_format(policy, &s->policy);
    return json_pack("{s:i, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:i}", "paths",
                     (int)s->paths, "policy", policy, "hash", spread_hash_name[s->hash], "max/mean",
                     s->imbalance, "random", b->random_imbalance, "ideal", b->ideal_imbalance, "cv",
                     s->cv, "random_cv", b->random_cv, "ideal_cv", b->ideal_cv, "idle",
                     (int)s->idle, "shared", (int)s->shared, "ports", (int)s->ports, "same_port",
                     (int)s->same_port);
}

int spread_print_table(FILE *out, const struct spread_plan *plan, const struct spread_result *r)
{
    json_t *rows = json_array();
    int err;

    for (unsigned i = 0; i < r->spreads; i++)
        json_array_append_new(rows,
                              table_row(&r->spread[i], spread_baseline(r, r->spread[i].paths)));
    fprintf(out, "%u flow%s; the path is %s\n\n", r->flows, r->flows == 1 ? "" : "s",
            plan->high ? "the hash's high bits" : "the hash mod paths");
    err = table_print(out, rows, NULL);
    json_decref(rows);
    return err;
}

static json_t *spread_object(const struct spread *s)
{
    char policy[ENTROPY_TEXT_MAX];
    json_t *load = json_array();

    entropy_policy_format(policy, &s->policy);
    for (unsigned p = 0; p < s->paths; p++)
        json_array_append_new(load, json_real(s->load[p]));
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:o}", "policy", policy, "hash",
                     spread_hash_name[s->hash], "paths", (int)s->paths, "ports", (int)s->ports,
                     "same_port", (int)s->same_port, "idle", (int)s->idle, "shared", (int)s->shared,
                     "imbalance", s->imbalance, "cv", s->cv, "load", load);
}

static json_t *baseline_object(const struct spread_baseline *b)
{
    return json_pack("{s:i, s:{s:f, s:f}, s:{s:f, s:f, s:f, s:f}}", "paths", (int)b->paths, "ideal",
                     "imbalance", b->ideal_imbalance, "cv", b->ideal_cv, "random", "imbalance",
                     b->random_imbalance, "cv", b->random_cv, "idle", b->random_idle, "shared",
                     b->random_shared);
}

int spread_print_json(FILE *out, const struct spread_plan *plan, const struct spread_result *r)
{
    json_t *spreads = json_array(), *baselines = json_array(), *root;
    int err;

    for (unsigned i = 0; i < r->spreads; i++)
        json_array_append_new(spreads, spread_object(&r->spread[i]));
    for (unsigned i = 0; i < r->baselines; i++)
        json_array_append_new(baselines, baseline_object(&r->baseline[i]));
    root = json_pack("{s:i, s:i, s:s, s:I, s:o, s:o}", "flows", (int)r->flows, "messages",
                     (int)plan->messages, "select", plan->high ? "high" : "modulo", "seed",
                     (json_int_t)plan->seed, "baselines", baselines, "spreads", spreads);
    if (!root)
        return -ENOMEM;
    err = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    fputc('\n', out);
    json_decref(root);
    return err ? -EIO : 0;
}
