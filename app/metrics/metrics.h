/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's counters as text for monitors: OpenMetrics 1.0, or the text format of Prometheus
 * before it. metrics.def is the table. No thread, no I/O.
 */
#ifndef UROCE_METRICS_H
#define UROCE_METRICS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "metrics_select.h"

enum metrics_format {
    METRICS_OPENMETRICS,
    METRICS_PROMETHEUS, /* 0.0.4: no units, no end; what node_exporter reads from files */
};

enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM, /* of buckets.h, in nanoseconds; `field` has their sum */
};

enum metric_scale {
    METRIC_ONE,
    METRIC_MS,   /* milliseconds, shown in seconds */
    METRIC_MBPS, /* megabits a second, shown in bytes a second */
    METRIC_NS,   /* nanoseconds, shown in seconds */
};

struct metric {
    enum metrics_topic topic;
    enum metric_type type;
    const char *name; /* with its prefix, without _total */
    const char *unit; /* or "none" */
    enum metric_scale scale;
    const char *field; /* of a row */
    const char *help;
};

/* In the order of the text; the last one has no name. */
extern const struct metric metrics[];

/* The media type of a format, for HTTP. */
const char *metrics_media_type(enum metrics_format format);
/* The format for a request with this header "Accept"; NULL: it has none. */
enum metrics_format metrics_accepted(const char *accept);

struct metrics_text;

/* Begins the text of a state, an answer of CTL_SHOW_METRICS, which is kept until the end. NULL:
 * out of memory. */
struct metrics_text *metrics_begin(const json_t *state, enum metrics_format format);
/* Writes a few lines, for some ten microseconds. Whether there are more. */
bool metrics_some(struct metrics_text *t);
/* Frees t. The text, for the caller to free; NULL: it is not complete, or out of memory. */
char *metrics_end(struct metrics_text *t, size_t *length);

#endif
