/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints results as JSON, CSV or tables: see result.h. */
#include "result.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON: one object in a line; doc/uroce-perf.md names its members ---- */

static void set_latency(json_t *o, const struct perf_result *r)
{
    json_t *l;

    if (!r->latencies)
        return;
    l = json_pack("{s:I, s:f, s:f}", "count", (json_int_t)r->latencies, "min", r->min_ns, "mean",
                  r->mean_ns);
    for (unsigned i = 0; i < QUANTILES; i++)
        json_object_set_new(l, quantiles[i].member, json_real(r->quantile_ns[i]));
    json_object_set_new(l, "max", json_real(r->max_ns));
    json_object_set_new(o, "latency_ns", l);
}

static void set_floor(json_t *o, const struct perf_result *r)
{
    if (r->floor_samples)
        json_object_set_new(o, "floor",
                            json_pack("{s:f, s:f, s:f, s:f, s:i}", "messages_per_s",
                                      r->floor_messages_per_s, "gigabytes_per_s",
                                      r->floor_gigabytes_per_s, "ns_per_message",
                                      r->floor_ns_per_message, "ratio", r->floor_ratio, "samples",
                                      (int)r->floor_samples));
}

static void set_pauses(json_t *o, const struct perf_result *r)
{
    if (r->latencies)
        json_object_set_new(o, "pauses",
                            json_pack("{s:I, s:f, s:f}", "count", (json_int_t)r->pauses, "ms",
                                      r->pause_ms, "longest_ms", r->longest_pause_ms));
}

static json_t *to_json(const struct perf_result *r)
{
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "messages",
                  (json_int_t)r->messages, "bytes", (json_int_t)r->bytes, "received",
                  (json_int_t)r->received, "lost", (json_int_t)r->lost, "wrong",
                  (json_int_t)r->wrong, "seconds", r->active_s, "cpu_seconds", r->cpu_s,
                  "messages_per_s", r->messages_per_s, "gigabytes_per_s", r->gigabytes_per_s,
                  "ns_per_message", r->ns_per_message, "cycles_per_message", r->cycles_per_message);

    set_latency(o, r);
    set_pauses(o, r);
    set_floor(o, r);
    return o;
}

static json_t *config_json(const struct perf_options *options)
{
    json_t *o = json_object();
    char value[64];
    const char *name;

    for (unsigned i = 0; (name = options_get(options, i, value, sizeof(value))); i++) {
        if (options_is_text(i))
            json_object_set_new(o, name, json_string(value));
        else if (!strcmp(value, "on") || !strcmp(value, "off"))
            json_object_set_new(o, name, json_boolean(!strcmp(value, "on")));
        else if (strchr(value, '.'))
            json_object_set_new(o, name, json_real(strtod(value, NULL)));
        else
            json_object_set_new(o, name, json_integer(strtoll(value, NULL, 10)));
    }
    return o;
}

static void print_json(json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6));

    if (text)
        puts(text);
    free(text);
    json_decref(o);
    fflush(stdout);
}

static json_t *counters_json(const struct perf *p)
{
    uint64_t out = 0;

    for (unsigned i = 0; i < p->threads; i++)
        out += counter_get(&worker_stats(rnic_worker(p->ports->rnic, i))->forwarded_out);
    return json_pack("{s:I, s:f, s:f}", "forwarded", (json_int_t)out, "heap_per_qp", p->heap_per_qp,
                     "us_per_qp", p->us_per_qp);
}

static json_t *result_object(const struct perf *p, const struct perf_result *total)
{
    json_t *o = to_json(total), *workers = json_array();

    json_object_set_new(o, "type", json_string("result"));
    json_object_set_new(o, "version", json_string(UROCE_VERSION));
    json_object_set_new(o, "tsc_hz", json_real(tsc_hz()));
    json_object_set_new(o, "config", config_json(&p->opt));
    if (p->ports)
        json_object_set_new(o, "device", counters_json(p));
    json_object_set_new(o, "error", atomic_load(&p->failed) ? json_string(p->error) : json_null());
    for (unsigned i = 0; i < p->threads; i++) {
        struct perf_result r;

        if (!result_of_worker(p, i, &r))
            json_array_append_new(workers, to_json(&r));
    }
    json_object_set_new(o, "workers", workers);
    return o;
}

/* ---- CSV: a heading, and lines of the same columns for periods, workers and the result ---- */

static void csv_heading(void)
{
    printf("type,at_s,mode,size,messages,bytes,lost,wrong,seconds,messages_per_s,gigabytes_per_s,"
           "ns_per_message,cycles_per_message,latency_min_ns,latency_mean_ns");
    for (unsigned i = 0; i < QUANTILES; i++)
        printf(",latency_p%s_ns", quantiles[i].name);
    puts(",latency_max_ns,floor_gigabytes_per_s,floor_ns_per_message,floor_ratio,due_per_s");
}

static void csv_line(const struct perf *p, const struct perf_result *r, const char *type, double at)
{
    static bool headed;

    if (!headed)
        csv_heading();
    headed = true;
    printf("%s,%.3f,%s,%lu,%lu,%lu,%lu,%lu,%.6f,%.1f,%.6f,%.2f,%.1f,%.1f,%.1f", type, at,
           mode_name(p->opt.mode), p->size, r->messages, r->bytes, r->lost, r->wrong, r->active_s,
           r->messages_per_s, r->gigabytes_per_s, r->ns_per_message, r->cycles_per_message,
           r->min_ns, r->mean_ns);
    for (unsigned i = 0; i < QUANTILES; i++)
        printf(",%.1f", r->quantile_ns[i]);
    printf(",%.1f,%.6f,%.2f,%.4f,%lu\n", r->max_ns, r->floor_gigabytes_per_s,
           r->floor_ns_per_message, r->floor_ratio, p->opt.rate);
    fflush(stdout);
}

/* The time since all threads were ready. */
static ns_t run_time(const struct perf *p)
{
    ns_t began = atomic_load(&p->began), now = p->running ? worker_time() : p->ended;

    return began && now > began ? now - began : 1;
}

static void result_csv(const struct perf *p, const struct perf_result *total)
{
    double at = (double)run_time(p) / 1e9;
    char type[32];

    for (unsigned i = 0; i < p->threads; i++) {
        struct perf_result r;

        snprintf(type, sizeof(type), "worker%u", i);
        if (!result_of_worker(p, i, &r))
            csv_line(p, &r, type, at);
    }
    csv_line(p, total, "result", at);
}

/* ---- tables ---- */

static void table_rates(const struct perf *p, const struct perf_result *r, const char *who)
{
    printf("%-8s %12lu %14.0f %9.3f %12.1f %12.0f %10.1f\n", who, r->messages, r->messages_per_s,
           r->gigabytes_per_s, r->ns_per_message, r->cycles_per_message, r->active_s);
}

static void table_latency(const struct perf *p, const struct perf_result *r, const char *who)
{
    printf("%-8s %9.2f %9.2f", who, r->min_ns / 1e3, r->mean_ns / 1e3);
    for (unsigned i = 0; i < QUANTILES; i++)
        printf(" %9.2f", r->quantile_ns[i] / 1e3);
    printf(" %9.2f\n", r->max_ns / 1e3);
}

/* Prints a line for each worker, if there are several, and one for their total. */
static void for_each(const struct perf *p,
                     void (*line)(const struct perf *p, const struct perf_result *r,
                                  const char *who))
{
    struct perf_result r;
    char who[24];

    for (unsigned i = 0; i < p->threads && p->threads > 1; i++) {
        snprintf(who, sizeof(who), "worker%u", i);
        if (!result_of_worker(p, i, &r))
            line(p, &r, who);
    }
    if (!result_total(p, &r))
        line(p, &r, "all");
}

void report_latency(const struct perf *p)
{
    struct perf_result r;

    if (result_total(p, &r) || !r.latencies) {
        puts("no latencies");
        return;
    }
    printf("%-8s %9s %9s", "us", "min", "mean");
    for (unsigned i = 0; i < QUANTILES; i++)
        printf(" %9s", quantiles[i].name);
    printf(" %9s\n", "max");
    for_each(p, table_latency);
}

void report_table(const struct perf *p)
{
    struct perf_result r;

    printf("%s, %lu bytes\n", mode_name(p->opt.mode), p->size);
    printf("%-8s %12s %14s %9s %12s %12s %10s\n", "", "messages", "messages/s", "GB/s",
           "ns/message", "TSC/message", "seconds");
    for_each(p, table_rates);
    if (result_total(p, &r))
        return;
    if (p->opt.rate)
        printf("due: %lu messages a second (%s)\n", p->opt.rate, arrivals_name(p->opt.arrivals));
    if (r.latencies)
        report_latency(p);
    if (r.pauses)
        printf("the threads were interrupted %lu times: %.1f ms, the longest %.2f ms\n", r.pauses,
               r.pause_ms, r.longest_pause_ms);
    if (r.received && !mode_has_engine(p->opt.mode))
        printf("received: %lu frames, %.0f a second of the run\n", r.received,
               (double)r.received * 1e9 / (double)run_time(p));
    if (r.lost)
        printf("lost datagrams: %lu\n", r.lost);
    if (r.floor_samples)
        printf("floor: %.3f GB/s, %.1f ns a message; achieved %.3f of it (median of %u slices)\n",
               r.floor_gigabytes_per_s, r.floor_ns_per_message, r.floor_ratio, r.floor_samples);
    if (p->opt.verify)
        printf("verified: %s\n", r.wrong ? "WRONG" : "every byte");
}

/* ---- what is asked for ---- */

void report_period(const struct perf *p, const struct perf_result *r, double at)
{
    json_t *o;

    switch (p->opt.format) {
    case FORMAT_JSON:
        o = json_pack("{s:s, s:f, s:I, s:I, s:I, s:f, s:f, s:f}", "type", "period", "at", at,
                      "messages", (json_int_t)r->messages, "bytes", (json_int_t)r->bytes, "lost",
                      (json_int_t)r->lost, "messages_per_s", r->messages_per_s, "gigabytes_per_s",
                      r->gigabytes_per_s, "ns_per_message", r->ns_per_message);
        set_latency(o, r);
        print_json(o);
        break;
    case FORMAT_CSV:
        csv_line(p, r, "period", at);
        break;
    default:
        printf("%8.2f s %14.0f messages/s %9.3f GB/s  so far: p50 %.2f p99 %.2f max %.2f us\n", at,
               r->messages_per_s, r->gigabytes_per_s, r->quantile_ns[0] / 1e3,
               r->quantile_ns[2] / 1e3, r->max_ns / 1e3);
        fflush(stdout);
    }
}

void report_result(const struct perf *p)
{
    struct perf_result total;

    if (result_total(p, &total))
        return;
    switch (p->opt.format) {
    case FORMAT_JSON:
        print_json(result_object(p, &total));
        break;
    case FORMAT_CSV:
        result_csv(p, &total);
        break;
    default:
        report_table(p);
        fflush(stdout);
    }
}

static void load_row(const struct perf *p, const struct perf_result *r, unsigned load)
{
    static bool headed;
    double p50 = r->quantile_ns[0], p99_9 = r->quantile_ns[3];

    if (!headed)
        printf("%s, %lu bytes, %lu queue pair%s of depth %lu, %s arrivals, us\n"
               "%6s %12s %12s %9s %9s %9s %9s %9s %9s\n",
               mode_name(p->opt.mode), p->size, p->opt.qps, p->opt.qps == 1 ? "" : "s",
               p->opt.depth, arrivals_name(p->opt.arrivals), "load %", "due/s", "messages/s", "50",
               "99", "99.9", "max", "99.9/50", "pauses ms");
    headed = true;
    printf("%6u %12lu %12.0f %9.2f %9.2f %9.2f %9.2f %9.1f %9.1f\n", load, p->opt.rate,
           r->messages_per_s, p50 / 1e3, r->quantile_ns[2] / 1e3, p99_9 / 1e3, r->max_ns / 1e3,
           p50 > 0 ? p99_9 / p50 : 0, r->pause_ms);
    fflush(stdout);
}

void report_load(const struct perf *p, unsigned load, double highest)
{
    struct perf_result total;
    char type[24];
    json_t *o;

    if (result_total(p, &total))
        return;
    switch (p->opt.format) {
    case FORMAT_JSON:
        o = result_object(p, &total);
        json_object_set_new(o, "load", json_integer(load));
        json_object_set_new(o, "highest_per_s", json_real(highest));
        print_json(o);
        break;
    case FORMAT_CSV:
        snprintf(type, sizeof(type), "load%u", load);
        csv_line(p, &total, type, (double)run_time(p) / 1e9);
        break;
    default:
        load_row(p, &total, load);
    }
}
