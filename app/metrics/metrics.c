/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics.h. */
#include "metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buckets.h"
#include "common.h"

#define LINES           32 /* that are written at once */
#define NS_PER_S        1000000000
#define HISTOGRAM_FIRST 10 /* bits of nanoseconds */
#define HISTOGRAM_LAST  33

const struct metric metrics[] = {
#define METRIC(topic, type, name, unit, scale, field, help) \
    {METRIC_##topic, METRIC_##type, "uroce_" #name, #unit, METRIC_##scale, #field, help},
#include "metrics.def"
#undef METRIC
    {.name = NULL},
};

struct metrics_text {
    enum metrics_format format;
    json_t *state;
    const struct metric *metric; /* the next line's */
    json_t *rows;                /* of its topic; NULL: not yet selected */
    size_t row;
    bool has_header; /* of the metric, is written */
    char *text;
    size_t length, room;
    bool failed; /* out of memory */
};

const char *metrics_media_type(enum metrics_format format)
{
    return format == METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- text ---- */

static void put_bytes(struct metrics_text *t, const char *bytes, size_t n)
{
    if (t->length + n > t->room) {
        size_t room = max_of(2 * t->room, t->length + n + 4096);
        char *text = realloc(t->text, room);

        if (!text) {
            t->failed = true;
            return;
        }
        t->text = text;
        t->room = room;
    }
    memcpy(t->text + t->length, bytes, n);
    t->length += n;
}

static void put(struct metrics_text *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

/* Of at most 63 characters. */
__attribute__((format(printf, 2, 3))) static void put_number(struct metrics_text *t,
                                                             const char *format, ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    put(t, text);
}

static void put_escaped(struct metrics_text *t, const char *value)
{
    for (;;) {
        size_t plain = strcspn(value, "\\\"\n");

        put_bytes(t, value, plain);
        value += plain;
        if (!*value)
            return;
        put(t, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
        value++;
    }
}

/* ---- metrics ---- */

/* Prometheus's own format has no suffix that belongs to a type. */
static const char *family_suffix(const struct metrics_text *t)
{
    return t->format == METRICS_PROMETHEUS && t->metric->type == METRIC_COUNTER ? "_total" : "";
}

static void put_about(struct metrics_text *t, const char *what, const char *text)
{
    put(t, "# ");
    put(t, what);
    put(t, " ");
    put(t, t->metric->name);
    put(t, family_suffix(t));
    put(t, " ");
    put(t, text);
    put(t, "\n");
}

static void put_header(struct metrics_text *t)
{
    const struct metric *m = t->metric;

    static const char *const type[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

    put_about(t, "TYPE", type[m->type]);
    if (t->format == METRICS_OPENMETRICS && strcmp(m->unit, "none"))
        put_about(t, "UNIT", m->unit);
    put_about(t, "HELP", m->help);
}

static void put_label(struct metrics_text *t, const char *name, const json_t *value, bool is_first)
{
    put(t, is_first ? "{" : ",");
    put(t, name);
    put(t, "=\"");
    if (json_is_integer(value))
        put_number(t, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        put_escaped(t, json_string_value(value));
    put(t, "\"");
}

/* le: of a histogram's bucket; or NULL. */
static void put_labels(struct metrics_text *t, const json_t *row, const char *le)
{
    bool is_first = true;

    for (const char *const *name = metrics_labels(t->metric->topic); *name; name++) {
        const json_t *value = json_object_get(row, *name);

        if (!json_is_integer(value) && !json_is_string(value))
            continue;
        put_label(t, *name, value, is_first);
        is_first = false;
    }
    if (le) {
        put(t, is_first ? "{le=\"" : ",le=\"");
        put(t, le);
        put(t, "\"");
        is_first = false;
    }
    if (!is_first)
        put(t, "}");
}

static void put_value(struct metrics_text *t, json_int_t value)
{
    switch (t->metric->scale) {
    case METRIC_MS:
        put_number(t, " %" JSON_INTEGER_FORMAT ".%03u\n", value / 1000,
                   (unsigned)((uint64_t)value % 1000));
        break;
    case METRIC_MBPS:
        put_number(t, " %" JSON_INTEGER_FORMAT "\n", value * (1000000 / 8));
        break;
    case METRIC_NS:
        put_number(t, " %" JSON_INTEGER_FORMAT ".%09u\n", value / NS_PER_S,
                   (unsigned)((uint64_t)value % NS_PER_S));
        break;
    default:
        put_number(t, " %" JSON_INTEGER_FORMAT "\n", value);
    }
}

static void put_bucket(struct metrics_text *t, const json_t *row, const char *le, json_int_t count)
{
    put(t, t->metric->name);
    put(t, "_bucket");
    put_labels(t, row, le);
    put_number(t, " %" JSON_INTEGER_FORMAT "\n", count);
}

/* The daemon's buckets end just below powers of two: from 1.024 us on. */
static void put_histogram(struct metrics_text *t, const json_t *row)
{
    const json_t *buckets = json_object_get(row, "buckets");
    json_int_t count = json_integer_value(json_object_get(row, "count"));

    for (unsigned bits = HISTOGRAM_FIRST; bits <= HISTOGRAM_LAST; bits++) {
        json_int_t end = (json_int_t)1 << bits;
        char le[32];

        snprintf(le, sizeof(le), "%.9f", (double)end / NS_PER_S);
        put_bucket(t, row, le, buckets_up_to(buckets, end));
    }
    put_bucket(t, row, "+Inf", count);
    put(t, t->metric->name);
    put(t, "_count");
    put_labels(t, row, NULL);
    put_number(t, " %" JSON_INTEGER_FORMAT "\n", count);
}

/* A metric without a row has no header either. */
static void put_sample(struct metrics_text *t, const json_t *row)
{
    const json_t *value = json_object_get(row, t->metric->field);

    if (!json_is_integer(value))
        return;
    if (!t->has_header)
        put_header(t);
    t->has_header = true;
    if (t->metric->type == METRIC_HISTOGRAM)
        put_histogram(t, row);
    put(t, t->metric->name);
    put(t, t->metric->type == METRIC_COUNTER     ? "_total"
           : t->metric->type == METRIC_HISTOGRAM ? "_sum"
                                                 : "");
    put_labels(t, row, NULL);
    put_value(t, json_integer_value(value));
}

struct metrics_text *metrics_begin(const json_t *state, enum metrics_format format)
{
    struct metrics_text *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->format = format;
    t->metric = metrics;
    t->state = json_incref((json_t *)state);
    return t;
}

static void next_metric(struct metrics_text *t)
{
    enum metrics_topic topic = t->metric->topic;

    t->metric++;
    t->row = 0;
    t->has_header = false;
    if (t->metric->name && t->metric->topic == topic)
        return;
    json_decref(t->rows);
    t->rows = NULL;
}

static void put_line(struct metrics_text *t)
{
    const json_t *row;

    if (!t->rows)
        t->rows = metrics_select(t->metric->topic, t->state);
    if (!t->rows)
        t->failed = true;
    row = json_array_get(t->rows, t->row++);
    if (row)
        put_sample(t, row);
    else
        next_metric(t);
}

bool metrics_some(struct metrics_text *t)
{
    for (unsigned n = 0; n < LINES && t->metric->name && !t->failed; n++)
        put_line(t);
    if (t->metric->name && !t->failed)
        return true;
    if (t->format == METRICS_OPENMETRICS)
        put(t, "# EOF\n");
    put_bytes(t, "", 1);
    return false;
}

char *metrics_end(struct metrics_text *t, size_t *length)
{
    char *text = t->text;

    json_decref(t->rows);
    json_decref(t->state);
    if (t->failed || t->metric->name || !text) {
        free(text);
        text = NULL;
    }
    *length = text ? t->length - 1 : 0;
    free(t);
    return text;
}
