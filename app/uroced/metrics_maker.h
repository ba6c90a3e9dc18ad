/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the text of metrics in slices of the control thread's time. */
#ifndef UROCED_METRICS_MAKER_H
#define UROCED_METRICS_MAKER_H

#include "event_loop.h"
#include "metrics.h"

struct rnic;
struct rnic_metrics;

struct metrics_maker {
    struct event_loop *loop;
    struct rnic *rnic;
    /* The text of a format, which it owns; NULL: out of memory. It asks for none. */
    void (*done)(struct metrics_maker *m, enum metrics_format format, char *text, size_t length);
    /* The maker's own: */
    struct event_job job;
    bool is_running;
    unsigned wanted;              /* formats, 1 << format */
    struct rnic_metrics *collect; /* or */
    json_t *state;                /* which is complete */
    struct metrics_text *text;
    enum metrics_format format; /* of text */
};

/* Asks for a text; `done` is called later. Several requests for a format get one text. */
void metrics_maker_ask(struct metrics_maker *m, enum metrics_format format);
/* Ends without calling `done`. */
void metrics_maker_stop(struct metrics_maker *m);

#endif
