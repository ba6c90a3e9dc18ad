/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_maker.h. */
#include "metrics_maker.h"

#include <stdlib.h>

#include "common.h"
#include "device_metrics.h"
#include "worker.h"

#define SLICE (100 * NS_PER_US)

/* All that is asked for has no text. */
static void fail(struct metrics_maker *m)
{
    unsigned wanted = m->wanted;

    m->wanted = 0;
    for (unsigned f = 0; wanted >> f; f++)
        if (wanted & 1u << f)
            m->done(m, (enum metrics_format)f, NULL, 0);
}

static void end_collection(struct metrics_maker *m)
{
    m->state = rnic_metrics_end(m->collect);
    m->collect = NULL;
    if (!m->state)
        fail(m);
}

static void end_text(struct metrics_maker *m)
{
    size_t length = 0;
    char *text = metrics_end(m->text, &length);

    m->text = NULL;
    m->done(m, m->format, text, length);
}

static void begin_text(struct metrics_maker *m)
{
    m->format = (enum metrics_format)__builtin_ctz(m->wanted);
    m->wanted &= ~(1u << m->format);
    m->text = metrics_begin(m->state, m->format);
    if (!m->text)
        m->done(m, m->format, NULL, 0);
}

/* A part that takes much less than a slice. Whether there is more. */
static bool make_some(struct metrics_maker *m)
{
    if (m->collect) {
        if (!rnic_metrics_some(m->collect))
            end_collection(m);
    } else if (m->text) {
        if (!metrics_some(m->text))
            end_text(m);
    } else if (m->state && m->wanted) {
        begin_text(m);
    } else {
        return false;
    }
    return true;
}

static void forget_state(struct metrics_maker *m)
{
    json_decref(m->state);
    m->state = NULL;
    m->is_running = false;
}

static bool run(struct event_job *job)
{
    struct metrics_maker *m = container_of(job, struct metrics_maker, job);
    ns_t end = worker_time() + SLICE;

    do {
        if (!make_some(m)) {
            forget_state(m);
            return false;
        }
    } while (worker_time() < end);
    return true;
}

void metrics_maker_ask(struct metrics_maker *m, enum metrics_format format)
{
    m->wanted |= 1u << format;
    if (m->is_running)
        return;
    m->collect = rnic_metrics_begin(m->rnic);
    if (!m->collect) {
        fail(m);
        return;
    }
    m->job.run = run;
    m->is_running = true;
    event_loop_start(m->loop, &m->job);
}

void metrics_maker_stop(struct metrics_maker *m)
{
    size_t length;

    if (!m->is_running)
        return;
    event_loop_stop(m->loop, &m->job);
    if (m->collect)
        json_decref(rnic_metrics_end(m->collect));
    m->collect = NULL;
    if (m->text)
        free(metrics_end(m->text, &length));
    m->text = NULL;
    m->wanted = 0;
    forget_state(m);
}
