/* SPDX-License-Identifier: BSD-3-Clause */
/* The result and the series as tables of comma-separated values. See sim.h. */
#include "sim.h"

static void write_flows(FILE *f, const struct sim_result *r)
{
    fputs("flow,from,to,verb,start_ns,end_ns,ideal_ns,bytes,bps", f);
    for (unsigned i = 0; i < LAB_COUNTERS; i++)
        fprintf(f, ",%s", lab_counter_name[i]);
    fputc('\n', f);
    for (unsigned i = 0; i < r->spec->flows; i++) {
        const struct lab_flow *s = &r->spec->flow[i];
        const struct lab_result *l = &r->flow[i];
        bool ended = l->outcome == LAB_DONE || l->outcome == LAB_FAILED;

        fprintf(f, "%s,%s,%s,%s,%llu,", s->name, r->spec->node[s->from].name,
                r->spec->node[s->to].name, lab_verb_name[s->verb], (unsigned long long)s->start);
        if (ended)
            fprintf(f, "%llu", (unsigned long long)l->end);
        fprintf(f, ",%llu,%llu,%.0f", (unsigned long long)l->ideal, (unsigned long long)l->bytes,
                sim_flow_rate(r, i));
        for (unsigned c = 0; c < LAB_COUNTERS; c++)
            fprintf(f, ",%llu", (unsigned long long)l->counter[c]);
        fputc('\n', f);
    }
}

static void write_ports(FILE *f, const struct sim_result *r)
{
    fputs("port,frames,bytes,queue_most,marked,dropped,trimmed,lost,pauses,paused_ns\n", f);
    for (unsigned i = 0; i < fabric_ports(lab_fabric(r->lab)); i++) {
        const struct fabric_counters *c = fabric_counters(lab_fabric(r->lab), i);
        char name[SIM_LINK_NAME];

        sim_port_name(r->spec, i, name);
        fprintf(f, "%s,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu\n", name,
                (unsigned long long)c->frames, (unsigned long long)c->bytes,
                (unsigned long long)c->queue_most, (unsigned long long)c->marked,
                (unsigned long long)c->dropped, (unsigned long long)c->trimmed,
                (unsigned long long)c->lost, (unsigned long long)c->pauses,
                (unsigned long long)c->paused);
    }
}

/* Only what is not zero. */
static void write_rates(FILE *f, const struct sim_result *r)
{
    const struct series *s = r->series;

    fputs("ns,flow,bps\n", f);
    for (unsigned n = 1; n < s->n; n++)
        for (unsigned i = 0; i < s->flows; i++) {
            uint32_t bytes = s->bytes[(size_t)n * s->flows + i];

            if (bytes)
                fprintf(f, "%llu,%s,%.0f\n", (unsigned long long)s->at[n], r->spec->flow[i].name,
                        bytes * 8e9 / (double)(s->at[n] - s->at[n - 1]));
        }
}

static void write_queues(FILE *f, const struct sim_result *r)
{
    const struct series *s = r->series;
    char name[SIM_LINK_NAME];

    fputs("ns,port,bytes,most\n", f);
    for (unsigned n = 0; n < s->n; n++)
        for (unsigned i = 0; i < s->ports; i++) {
            uint32_t peak = s->peak[(size_t)n * s->ports + i];

            if (!peak)
                continue;
            sim_port_name(r->spec, i, name);
            fprintf(f, "%llu,%s,%u,%u\n", (unsigned long long)s->at[n], name,
                    s->queue[(size_t)n * s->ports + i], peak);
        }
}

bool sim_write_csv(const char *folder, const struct sim_result *r)
{
    static const struct {
        const char *name;
        void (*fill)(FILE *f, const struct sim_result *r);
    } files[] = {
        {"flows.csv", write_flows},
        {"ports.csv", write_ports},
        {"rates.csv", write_rates},
        {"queues.csv", write_queues},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
        FILE *f = sim_open(folder, files[i].name);

        if (!f)
            return false;
        files[i].fill(f, r);
        if (!sim_close(f, folder, files[i].name))
            return false;
    }
    return true;
}
