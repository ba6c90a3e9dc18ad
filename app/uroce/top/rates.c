/* SPDX-License-Identifier: BSD-3-Clause */
/* See rates.h. */
#include "top/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "show.h"
#include "top/latency.h"

#define GIGA 1e9

static const char *const parts[] = {"counters", "drops", "qps", "workers", "clients"};

json_t *rates_snapshot(const json_t *state)
{
    json_t *all = json_object();

    for (const struct topic *t = show_topics; t->name; t++)
        for (unsigned i = 0; i < ARRAY_SIZE(parts); i++)
            if (!strcmp(t->name, parts[i]))
                json_object_set_new(all, t->name, show_select(t, state));
    json_object_set(all, "latency", json_object_get(state, "latency"));
    return all;
}

/* ---- rows by their names ---- */

static double number(const json_t *row, const char *member)
{
    return json_number_value(json_object_get(row, member));
}

static const char *text(const json_t *row, const char *member)
{
    const char *value = json_string_value(json_object_get(row, member));

    return value ? value : "";
}

/* A name for a row: its values of these members. */
static void name_row(char name[256], const json_t *row, const char *const *members)
{
    size_t len = 0;

    name[0] = '\0';
    for (; *members && len < 255; members++) {
        const json_t *v = json_object_get(row, *members);
        int n = json_is_string(v) ? snprintf(name + len, 256 - len, "%s/", json_string_value(v))
                                  : snprintf(name + len, 256 - len, "%" JSON_INTEGER_FORMAT "/",
                                             json_integer_value(v));

        len += n > 0 ? (size_t)n : 0;
    }
}

/* The rows of a list, by their names. */
static json_t *index_rows(const json_t *snapshot, const char *list, const char *const *members)
{
    json_t *index = json_object(), *row;
    char name[256];
    size_t i;

    json_array_foreach(json_object_get(snapshot, list), i, row)
    {
        name_row(name, row, members);
        json_object_set(index, name, row);
    }
    return index;
}

/* What a counter has counted. One that is less than before began again. */
static double since(const json_t *before, const json_t *after, const char *member)
{
    double from = number(before, member), to = number(after, member);

    return to >= from ? to - from : to;
}

/* ---- ports and drops ---- */

static json_t *port_row(json_t *ports, const char *device)
{
    json_t *row = json_object_get(ports, device);

    if (row)
        return row;
    row = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "device", device, "rx_Gb/s", 0.0, "tx_Gb/s",
                    0.0, "rx_packets/s", 0.0, "tx_packets/s", 0.0, "drops/s", 0.0);
    json_object_set_new(ports, device, row);
    return row;
}

static void add(json_t *row, const char *member, double value)
{
    json_object_set_new(row, member, json_real(number(row, member) + value));
}

/* Rates of what is counted become whole numbers, and none but 0 becomes 0. */
static void round_rates(json_t *list)
{
    const char *member;
    json_t *row, *value;
    void *next;
    size_t i;

    json_array_foreach(list, i, row)
    {
        json_object_foreach_safe(row, next, member, value)
        {
            if (json_is_real(value) && strstr(member, "s/s"))
                json_object_set_new(row, member,
                                    json_integer((json_int_t)ceil(json_real_value(value))));
        }
    }
}

static void add_counter(json_t *row, const char *counter, double rate)
{
    static const struct {
        const char *counter, *member;
        double unit;
    } shown[] = {{"rx_bytes", "rx_Gb/s", 8 / GIGA},
                 {"tx_bytes", "tx_Gb/s", 8 / GIGA},
                 {"rx_packets", "rx_packets/s", 1},
                 {"tx_packets", "tx_packets/s", 1}};

    for (unsigned i = 0; i < ARRAY_SIZE(shown); i++)
        if (!strcmp(counter, shown[i].counter))
            add(row, shown[i].member, rate * shown[i].unit);
}

static json_t *values_of(const json_t *object)
{
    json_t *list = json_array(), *row;
    const char *name;

    json_object_foreach((json_t *)object, name, row) json_array_append(list, row);
    return list;
}

static json_t *port_rates(const json_t *before, const json_t *after, double seconds, json_t *drops)
{
    static const char *const counter_name[] = {"device", "port", "counter", NULL};
    static const char *const drop_name[] = {"device", "port", "reason", NULL};
    json_t *counters = index_rows(before, "counters", counter_name), *ports = json_object();
    json_t *old_drops = index_rows(before, "drops", drop_name), *row, *list;
    char name[256];
    size_t i;

    json_array_foreach(json_object_get(after, "counters"), i, row)
    {
        name_row(name, row, counter_name);
        add_counter(port_row(ports, text(row, "device")), text(row, "counter"),
                    since(json_object_get(counters, name), row, "value") / seconds);
    }
    json_array_foreach(json_object_get(after, "drops"), i, row)
    {
        double rate;

        name_row(name, row, drop_name);
        rate = since(json_object_get(old_drops, name), row, "value") / seconds;
        add(port_row(ports, text(row, "device")), "drops/s", rate);
        if (rate > 0)
            json_array_append_new(drops, json_pack("{s:s, s:s, s:f}", "device", text(row, "device"),
                                                   "reason", text(row, "reason"), "drops/s", rate));
    }
    list = values_of(ports);
    json_decref(counters);
    json_decref(old_drops);
    json_decref(ports);
    return list;
}

/* ---- workers ---- */

static json_t *worker_rates(const json_t *before, const json_t *after, double seconds)
{
    static const char *const worker_name[] = {"index", NULL};
    json_t *old = index_rows(before, "workers", worker_name), *list = json_array(), *row;
    char name[256];
    size_t i;

    json_array_foreach(json_object_get(after, "workers"), i, row)
    {
        const json_t *was;
        double loops;

        name_row(name, row, worker_name);
        was = json_object_get(old, name);
        loops = since(was, row, "loops");
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:f, s:f, s:f, s:f}", "worker",
                            json_integer_value(json_object_get(row, "index")), "mode",
                            text(row, "mode"), "cpu_%", since(was, row, "cpu_ms") / seconds / 10,
                            "busy_%", loops > 0 ? 100 * since(was, row, "busy") / loops : 0.0,
                            "sleeps/s", since(was, row, "sleeps") / seconds, "wakes/s",
                            since(was, row, "wakes") / seconds));
    }
    json_decref(old);
    return list;
}

/* ---- queue pairs and programs ---- */

/* What is shown of a queue pair's counters: a sum for each column. */
static const struct {
    const char *member;
    double unit;
    const char *counters[8];
} columns[] = {
    {"tx_GB/s", 1 / GIGA, {"tx_bytes"}},
    {"rx_GB/s", 1 / GIGA, {"rx_bytes"}},
    {"tx_packets/s", 1, {"tx_packets"}},
    {"rx_packets/s", 1, {"rx_packets"}},
    {"retransmits/s", 1, {"retransmits"}},
    {"rnr_naks/s", 1, {"rnr_nak_sent", "rnr_nak_rcvd"}},
    {"cnps/s", 1, {"np_cnp_sent", "rp_cnp_handled"}},
    {"errors/s",
     1,
     {"remote_access_err", "remote_invalid_request", "remote_operational_err",
      "local_protection_err", "retry_exceeded", "rnr_retry_exceeded"}},
};

static void add_columns(json_t *row, const json_t *before, const json_t *after, double seconds)
{
    for (unsigned i = 0; i < ARRAY_SIZE(columns); i++) {
        double sum = 0;

        for (unsigned k = 0; k < ARRAY_SIZE(columns[i].counters) && columns[i].counters[k]; k++)
            sum += since(before, after, columns[i].counters[k]);
        add(row, columns[i].member, sum * columns[i].unit / seconds);
    }
}

/* The row of a process; one without a name is another user's, or has just ended. */
static json_t *program_row(json_t *programs, json_int_t pid, const char *comm)
{
    char name[32];
    json_t *row;

    snprintf(name, sizeof(name), "%" JSON_INTEGER_FORMAT, pid);
    row = json_object_get(programs, name);
    if (row)
        return row;
    row = json_pack("{s:s, s:I, s:I}", "program", comm, "pid", pid, "qps", (json_int_t)0);
    add_columns(row, NULL, NULL, 1);
    json_object_set_new(programs, name, row);
    return row;
}

/* Programs that have opened a device, also those without a queue pair. */
static json_t *programs_of(const json_t *snapshot)
{
    json_t *programs = json_object(), *row;
    size_t i;

    json_array_foreach(json_object_get(snapshot, "clients"), i, row)
    {
        if (json_object_get(row, "device"))
            program_row(programs, json_integer_value(json_object_get(row, "pid")),
                        text(row, "comm"));
    }
    return programs;
}

static json_t *qp_row(const json_t *qp)
{
    json_t *row = json_object();
    static const char *const kept[] = {"device", "qpn", "pid", "type", "state", "dgid"};

    for (unsigned i = 0; i < ARRAY_SIZE(kept); i++)
        json_object_set(row, kept[i], json_object_get(qp, kept[i]));
    return row;
}

static double bytes_of(const json_t *row)
{
    return number(row, "tx_GB/s") + number(row, "rx_GB/s");
}

static int compare_rows(const void *a, const void *b)
{
    double x = bytes_of(*(json_t *const *)a), y = bytes_of(*(json_t *const *)b);

    return (x < y) - (x > y);
}

/* The list, with most bytes first. */
static json_t *sorted(json_t *list)
{
    size_t n = json_array_size(list);
    json_t **row = calloc(n ? n : 1, sizeof(*row)), *out = json_array();

    for (size_t i = 0; row && i < n; i++)
        row[i] = json_array_get(list, i);
    if (row)
        qsort(row, n, sizeof(*row), compare_rows);
    for (size_t i = 0; row && i < n; i++)
        json_array_append(out, row[i]);
    free(row);
    json_decref(list);
    return out;
}

static json_t *qp_rates(const json_t *before, const json_t *after, double seconds, bool by_qp)
{
    static const char *const qp_name[] = {"device", "qpn", "pid", NULL};
    json_t *old = index_rows(before, "qps", qp_name), *programs = programs_of(after);
    json_t *list = json_array(), *qp;
    char name[256];
    size_t i;

    json_array_foreach(json_object_get(after, "qps"), i, qp)
    {
        json_t *row;

        name_row(name, qp, qp_name);
        if (by_qp) {
            row = qp_row(qp);
            json_array_append_new(list, row);
        } else {
            row = program_row(programs, json_integer_value(json_object_get(qp, "pid")), "");
            json_object_set_new(row, "qps",
                                json_integer(json_integer_value(json_object_get(row, "qps")) + 1));
        }
        add_columns(row, json_object_get(old, name), qp, seconds);
    }
    if (!by_qp) {
        json_decref(list);
        list = values_of(programs);
    }
    json_decref(programs);
    json_decref(old);
    return sorted(list);
}

json_t *rates_between(const json_t *before, const json_t *after, double seconds, bool by_qp)
{
    json_t *drops = json_array(), *ports = port_rates(before, after, seconds, drops);
    json_t *workers = worker_rates(before, after, seconds);
    json_t *busy = qp_rates(before, after, seconds, by_qp);

    round_rates(drops);
    round_rates(ports);
    round_rates(workers);
    round_rates(busy);
    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:o}", "seconds", seconds, "ports", ports, "workers", workers,
        by_qp ? "qps" : "programs", busy, "drops", drops, "latency",
        latency_between(json_object_get(before, "latency"), json_object_get(after, "latency")));
}
