/* SPDX-License-Identifier: BSD-3-Clause */
/* The result as text and as JSON. See sim.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "table.h"

/* Rows of the text's tables. */
#define ROWS 16

static const char *const outcomes[] = {[LAB_WAITING] = "waiting",
                                       [LAB_RUNNING] = "running",
                                       [LAB_DONE] = "done",
                                       [LAB_FAILED] = "failed"};

static const char *node_name(const struct lab_spec *spec, unsigned node)
{
    return spec->node[node].name;
}

/* Numbers are cut to what is meant, so that they are the same everywhere. */
static json_t *rounded(double value, double unit)
{
    double whole = value / unit + 0.5;

    return json_real((double)(json_int_t)whole * unit);
}

/* The rules with their counts, as `uroce fault list` has them; hosts in the place of a device. */
static json_t *rules_array(const struct sim_result *r)
{
    json_t *rows = json_array();

    for (unsigned i = 0; i < r->spec->rules; i++) {
        const struct lab_rule *rule = &r->spec->rule[i];
        struct lab_hits hits;

        lab_rule_hits(r->lab, i, &hits);
        json_array_append_new(
            rows, json_pack("{s:I, s:s, s:I, s:I, s:I, s:s}", "number", (json_int_t)i + 1, "hosts",
                            strcmp(rule->hosts, "*") ? rule->hosts : "all", "matched",
                            (json_int_t)hits.matched, "acted", (json_int_t)hits.acted, "missed",
                            (json_int_t)hits.missed, "rule", rule->text));
    }
    return rows;
}

/* ---- text ---- */

static json_t *flow_row(const struct sim_result *r, unsigned i)
{
    const struct lab_flow *f = &r->spec->flow[i];
    const struct lab_result *l = &r->flow[i];
    bool ended = l->outcome == LAB_DONE || l->outcome == LAB_FAILED;
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s}", "flow", f->name, "from",
                            node_name(r->spec, f->from), "to", node_name(r->spec, f->to), "verb",
                            lab_verb_name[f->verb], "outcome", outcomes[l->outcome]);

    json_object_set_new(row, "us",
                        ended ? rounded((double)(l->end - l->start) / 1e3, 0.1) : json_string("-"));
    json_object_set_new(row, "Gb/s", rounded(sim_flow_rate(r, i) / 1e9, 0.01));
    json_object_set_new(row, "sent again",
                        json_integer((json_int_t)l->counter[LAB_COUNTER_retransmits]));
    json_object_set_new(row, "timeouts",
                        json_integer((json_int_t)l->counter[LAB_COUNTER_timeouts]));
    json_object_set_new(row, "CNPs", json_integer((json_int_t)l->counter[LAB_COUNTER_np_cnp_sent]));
    return row;
}

static int print_flows(FILE *out, const struct sim_result *r)
{
    json_t *rows = json_array();
    int err;

    for (unsigned i = 0; i < r->spec->flows && i < ROWS; i++)
        json_array_append_new(rows, flow_row(r, i));
    fputc('\n', out);
    err = table_print(out, rows, NULL);
    if (r->spec->flows > ROWS)
        fprintf(out, "... and %u more flows: --json, --csv\n", r->spec->flows - ROWS);
    json_decref(rows);
    return err;
}

struct ranked {
    unsigned port;
    uint64_t most;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->most != y->most)
        return x->most < y->most ? 1 : -1;
    return (x->port > y->port) - (x->port < y->port);
}

static json_t *port_row(const struct sim_result *r, unsigned port)
{
    const struct fabric_counters *c = fabric_counters(lab_fabric(r->lab), port);
    char name[SIM_LINK_NAME];

    sim_port_name(r->spec, port, name);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "port", name, "frames",
                     (json_int_t)c->frames, "most queued, bytes", (json_int_t)c->queue_most,
                     "marked", (json_int_t)c->marked, "dropped", (json_int_t)c->dropped, "trimmed",
                     (json_int_t)c->trimmed, "lost", (json_int_t)c->lost, "pauses",
                     (json_int_t)c->pauses, "paused, us", rounded((double)c->paused / 1e3, 0.1));
}

static int print_ports(FILE *out, const struct sim_result *r)
{
    unsigned n = fabric_ports(lab_fabric(r->lab));
    struct ranked *ports = calloc(n + 1, sizeof(*ports));
    json_t *rows = json_array();
    int err;

    if (!ports)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++)
        ports[i] = (struct ranked){i, fabric_counters(lab_fabric(r->lab), i)->queue_most};
    qsort(ports, n, sizeof(*ports), compare_ranked);
    for (unsigned i = 0; i < n && i < ROWS / 2; i++)
        json_array_append_new(rows, port_row(r, ports[i].port));
    fputs("\nThe ports with the longest queues:\n", out);
    err = table_print(out, rows, NULL);
    json_decref(rows);
    free(ports);
    return err;
}

static void print_totals(FILE *out, const struct sim_result *r)
{
    const struct fabric_totals *t = fabric_totals(lab_fabric(r->lab));

    fprintf(out,
            "%u hosts, %u switches, %u links; %u flows: %u done, %u failed, %u running, %u "
            "waiting, after %.1f us\n",
            r->spec->hosts, r->spec->switches, r->spec->links, r->spec->flows, r->done, r->failed,
            r->running, r->waiting, (double)lab_ended(r->lab) / 1e3);
    fprintf(out, "goodput %.2f Gb/s, Jain's index %.3f; in the second half %.2f Gb/s, %.3f\n",
            r->goodput / 1e9, r->jain, r->late_rate / 1e9, r->late_jain);
    if (r->done)
        fprintf(out,
                "completion, us: median %.1f, p99 %.1f, p99.9 %.1f; times the ideal: median "
                "%.2f, p99 %.2f\n",
                (double)sim_percentile(r->times, r->done, 0.5) / 1e3,
                (double)sim_percentile(r->times, r->done, 0.99) / 1e3,
                (double)sim_percentile(r->times, r->done, 0.999) / 1e3, sim_percentile_slow(r, 0.5),
                sim_percentile_slow(r, 0.99));
    fprintf(out,
            "frames: %llu sent, %llu delivered, %llu dropped, %llu lost, %llu without a way, "
            "%llu marked, %llu trimmed; %llu pauses\n",
            (unsigned long long)t->sent, (unsigned long long)t->delivered,
            (unsigned long long)t->dropped, (unsigned long long)t->lost,
            (unsigned long long)(t->unrouted + t->misplaced), (unsigned long long)r->marked,
            (unsigned long long)t->trimmed, (unsigned long long)r->pauses);
}

static int print_rules(FILE *out, const struct sim_result *r)
{
    json_t *rows = rules_array(r);
    int err;

    fputs("\nThe rules, and the frames that they matched:\n", out);
    err = table_print(out, rows, NULL);
    json_decref(rows);
    return err;
}

int sim_print_text(FILE *out, const struct sim_result *r)
{
    int err;

    print_totals(out, r);
    err = r->spec->rules ? print_rules(out, r) : 0;
    if (!err)
        err = print_flows(out, r);
    return err ? err : print_ports(out, r);
}

/* ---- JSON ---- */

/* The counters that are not zero. */
static json_t *counters_object(const uint64_t *value, const char *const *name, unsigned n)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < n; i++)
        if (value[i])
            json_object_set_new(object, name[i], json_integer((json_int_t)value[i]));
    return object;
}

static json_t *drops_object(const struct sim_result *r)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < DROP_COUNT; i++)
        if (r->drop[i])
            json_object_set_new(object, drop_name((enum drop)i),
                                json_integer((json_int_t)r->drop[i]));
    return object;
}

static json_t *flow_object(const struct sim_result *r, unsigned i)
{
    const struct lab_flow *f = &r->spec->flow[i];
    const struct lab_result *l = &r->flow[i];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "name", f->name, "from",
                          node_name(r->spec, f->from), "to", node_name(r->spec, f->to), "verb",
                          lab_verb_name[f->verb], "outcome", outcomes[l->outcome], "start_ns",
                          (json_int_t)f->start, "bytes", (json_int_t)l->bytes, "arrived",
                          (json_int_t)l->arrived);

    if (f->size != LAB_ENDLESS)
        json_object_set_new(o, "size", json_integer((json_int_t)f->size));
    if (l->outcome == LAB_DONE || l->outcome == LAB_FAILED)
        json_object_set_new(o, "ns", json_integer((json_int_t)(l->end - l->start)));
    if (l->ideal)
        json_object_set_new(o, "ideal_ns", json_integer((json_int_t)l->ideal));
    if (l->status)
        json_object_set_new(o, "status", json_integer(l->status));
    json_object_set_new(o, "udp_sport", json_integer(l->sport));
    json_object_set_new(o, "bps", rounded(sim_flow_rate(r, i), 1));
    json_object_set_new(o, "counters", counters_object(l->counter, lab_counter_name, LAB_COUNTERS));
    return o;
}

static json_t *port_object(const struct sim_result *r, unsigned port)
{
    const struct fabric_counters *c = fabric_counters(lab_fabric(r->lab), port);
    char name[SIM_LINK_NAME];

    sim_port_name(r->spec, port, name);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", name, "frames",
                     (json_int_t)c->frames, "bytes", (json_int_t)c->bytes, "queue_most",
                     (json_int_t)c->queue_most, "marked", (json_int_t)c->marked, "dropped",
                     (json_int_t)c->dropped, "trimmed", (json_int_t)c->trimmed, "lost",
                     (json_int_t)c->lost, "pauses", (json_int_t)c->pauses, "paused_ns",
                     (json_int_t)c->paused);
}

static json_t *totals_object(const struct sim_result *r)
{
    const struct fabric_totals *t = fabric_totals(lab_fabric(r->lab));

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "sent",
                     (json_int_t)t->sent, "delivered", (json_int_t)t->delivered, "dropped",
                     (json_int_t)t->dropped, "lost", (json_int_t)t->lost, "unrouted",
                     (json_int_t)t->unrouted, "misplaced", (json_int_t)t->misplaced, "inside",
                     (json_int_t)fabric_frames_inside(lab_fabric(r->lab)), "marked",
                     (json_int_t)r->marked, "trimmed", (json_int_t)t->trimmed, "pauses",
                     (json_int_t)r->pauses);
}

static json_t *summary_object(const struct sim_result *r)
{
    char name[SIM_LINK_NAME] = "";
    json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:I}", "done", (int)r->done, "failed",
                          (int)r->failed, "running", (int)r->running, "waiting", (int)r->waiting,
                          "bytes", (json_int_t)r->bytes);

    json_object_set_new(o, "goodput_bps", rounded(r->goodput, 1));
    json_object_set_new(o, "jain", rounded(r->jain, 0.0001));
    json_object_set_new(o, "p50_ns",
                        json_integer((json_int_t)sim_percentile(r->times, r->done, 0.5)));
    json_object_set_new(o, "p99_ns",
                        json_integer((json_int_t)sim_percentile(r->times, r->done, 0.99)));
    json_object_set_new(o, "p999_ns",
                        json_integer((json_int_t)sim_percentile(r->times, r->done, 0.999)));
    json_object_set_new(o, "p50_slowdown", rounded(sim_percentile_slow(r, 0.5), 0.001));
    json_object_set_new(o, "p99_slowdown", rounded(sim_percentile_slow(r, 0.99), 0.001));
    json_object_set_new(o, "late_bps", rounded(r->late_rate, 1));
    json_object_set_new(o, "late_jain", rounded(r->late_jain, 0.0001));
    json_object_set_new(o, "late_queue", rounded(r->late_queue, 1));
    if (r->late_queue > 0)
        sim_port_name(r->spec, r->late_port, name);
    json_object_set_new(o, "late_queue_port", json_string(name));
    return o;
}

int sim_print_json(FILE *out, const struct sim_result *r)
{
    json_t *flows = json_array(), *ports = json_array(), *root;
    int err;

    for (unsigned i = 0; i < r->spec->flows; i++)
        json_array_append_new(flows, flow_object(r, i));
    for (unsigned i = 0; i < fabric_ports(lab_fabric(r->lab)); i++)
        json_array_append_new(ports, port_object(r, i));
    root = json_pack("{s:I, s:I, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "seed",
                     (json_int_t)r->spec->seed, "ended_ns", (json_int_t)lab_ended(r->lab), "hosts",
                     (int)r->spec->hosts, "switches", (int)r->spec->switches, "links",
                     (int)r->spec->links, "summary", summary_object(r), "frames", totals_object(r),
                     "counters", counters_object(r->counter, lab_counter_name, LAB_COUNTERS),
                     "engine_drops", drops_object(r), "flows", flows, "ports", ports);
    if (!root)
        return -ENOMEM;
    if (r->spec->rules)
        json_object_set_new(root, "faults", rules_array(r));
    err = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    fputc('\n', out);
    json_decref(root);
    return err ? -EIO : 0;
}
