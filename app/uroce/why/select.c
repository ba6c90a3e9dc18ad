/* SPDX-License-Identifier: BSD-3-Clause */
/* Which incidents a question asks for, and what led to each: see why.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cause.h"
#include "number.h"
#include "why.h"

/* What led to an incident at the other end was there at most as long before, or, as both ends have
 * clocks of their own, a little after. */
#define BEFORE_NS UINT64_C(60000000000)
#define AFTER_NS  UINT64_C(1000000000)

/* Events of a queue pair from as long before an incident. */
#define TRACE_NS     UINT64_C(10000000000)
#define TRACE_EVENTS 8

/* Bytes of a program's name that the kernel keeps. */
#define COMM_LENGTH 15

/* ---- questions ---- */

static bool parse_number(const char *s, uint64_t most, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(s, &end, number_base(s));
    return !errno && end != s && !*end && strchr("0123456789", *s) && *out <= most;
}

bool why_parse(struct why_question *q, const char *text)
{
    static const struct {
        const char *prefix;
        enum why_by by;
        uint64_t most;
    } form[] = {{"wr_id=", WHY_BY_WR_ID, UINT64_MAX},
                {"pid=", WHY_BY_PID, INT32_MAX},
                {"code=", WHY_BY_CODE, UINT32_MAX},
                {"", WHY_BY_QPN, 0xFFFFFF}};

    for (unsigned i = 0; i < sizeof(form) / sizeof(form[0]); i++) {
        size_t len = strlen(form[i].prefix);

        if (strncmp(text, form[i].prefix, len) != 0)
            continue;
        q->by = form[i].by;
        q->comm = text + len;
        if (parse_number(q->comm, form[i].most, &q->number))
            return true;
        q->by = WHY_BY_COMM;
        return form[i].by == WHY_BY_PID && q->comm[0] != '\0';
    }
    return false;
}

/* name: as a user knows it. The kernel has cut one that is longer. */
static bool is_name_of(const char *name, const char *comm)
{
    bool is_cut = strlen(name) > COMM_LENGTH && strlen(comm) == COMM_LENGTH;

    return is_cut ? strncmp(name, comm, COMM_LENGTH) == 0 : strcmp(name, comm) == 0;
}

static bool is_asked_for(const json_t *i, const struct why_question *q)
{
    char wr_id[24];

    switch (q->by) {
    case WHY_BY_QPN:
        return (uint64_t)why_number(i, "qpn") == q->number;
    case WHY_BY_WR_ID:
        snprintf(wr_id, sizeof(wr_id), "%" PRIu64, q->number);
        return strcmp(why_text(i, "wr_id"), wr_id) == 0;
    case WHY_BY_PID:
        return (uint64_t)why_number(i, "pid") == q->number;
    case WHY_BY_COMM:
        return is_name_of(q->comm, why_text(i, "comm"));
    default:
        return true;
    }
}

/* ---- what led to it ---- */

/* Causes that have another one at the peer. */
static bool comes_from_peer(json_int_t code)
{
    return (code >= CAUSE_no_answer && code <= CAUSE_no_retries) ||
           (code >= CAUSE_refused_request && code <= CAUSE_receiver_not_ready);
}

/* Causes that say what is wrong with the peer's queue pair. What the peer had to wait for before,
 * and got, has not led to them. */
static bool is_of_peer_qp(json_int_t code)
{
    return code >= CAUSE_peer_qp_unknown && code <= CAUSE_peer_qp_elsewhere;
}

/* Whether the peer's incident `p` can be what led to `i`. What was dropped and waits for its
 * repetition has a cause of its own. */
static bool can_lead_to(const json_t *p, const json_t *i)
{
    if (strcmp(why_text(p, "kind"), "dropped") == 0)
        return !is_of_peer_qp(why_number(i, "code"));
    return !comes_from_peer(why_number(p, "code"));
}

/* Whether `p` is of the other end of i's connection. */
static bool is_peer(const json_t *i, const json_t *p)
{
    return why_number(i, "qpn") && why_number(i, "qpn") == why_number(p, "dest_qpn") &&
           why_number(i, "dest_qpn") == why_number(p, "qpn") &&
           strcmp(why_text(i, "device"), why_text(p, "device")) == 0;
}

static bool is_near(const json_t *i, const json_t *p)
{
    uint64_t at = (uint64_t)why_time(i, "time_ns"), led = (uint64_t)why_time(p, "time_ns");

    return led <= at ? at - led <= BEFORE_NS : led - at <= AFTER_NS;
}

/* The peer's incident that is nearest in time, and has a cause of its own. */
static json_t *find_root(const json_t *list, const json_t *i)
{
    json_t *p, *best = NULL;
    uint64_t distance = UINT64_MAX;
    size_t k;

    if (!comes_from_peer(why_number(i, "code")))
        return NULL;
    json_array_foreach(list, k, p)
    {
        json_int_t d = why_time(i, "time_ns") - why_time(p, "time_ns");
        uint64_t from = (uint64_t)(d < 0 ? -d : d);

        if (p == i || !is_peer(i, p) || !is_near(i, p) || from >= distance || !can_lead_to(p, i))
            continue;
        distance = from;
        best = p;
    }
    return best;
}

const json_t *why_root(const json_t *incident)
{
    const json_t *root = json_object_get(incident, "root");

    return json_is_object(root) ? root : incident;
}

/* ---- the answer ---- */

static void add_trace(json_t *row, const json_t *trace)
{
    uint64_t at = (uint64_t)why_time(row, "time_ns");
    json_t *list = json_array(), *r;
    size_t k;

    json_array_foreach(trace, k, r)
    {
        uint64_t time = (uint64_t)why_time(r, "time_ns");

        if (!why_number(row, "qpn") || why_number(r, "qpn") != why_number(row, "qpn") ||
            time > at || at - time > TRACE_NS ||
            strcmp(why_text(r, "device"), why_text(row, "device")))
            continue;
        json_array_append(list, r);
        if (json_array_size(list) > TRACE_EVENTS)
            json_array_remove(list, 0);
    }
    json_object_set_new(row, "trace", list);
}

static void add_text(json_t *row)
{
    const struct cause_text *t = cause_text((uint32_t)why_number(why_root(row), "code"));
    char more[1024], advice[512];

    if (why_more(why_root(row), more, sizeof(more)))
        json_object_set_new(row, "more", json_string(more));
    json_object_set_new(row, "root_cause", json_string(t ? t->name : why_text(row, "cause")));
    json_object_set_new(row, "sentence", json_string(t ? t->sentence : "The cause is not known."));
    if (!why_advice(why_root(row), advice, sizeof(advice)))
        snprintf(advice, sizeof(advice), "%s", t ? t->advice : "");
    json_object_set_new(row, "advice", json_string(advice));
}

static int newest_first(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;
    json_int_t s = why_time(*x, "time_ns"), t = why_time(*y, "time_ns");

    return (s < t) - (s > t);
}

json_t *why_select(const json_t *root, const struct why_question *q)
{
    const json_t *list = json_object_get(root, "incidents");
    json_t **sorted = malloc((json_array_size(list) + 1) * sizeof(*sorted)), *rows = json_array();
    size_t n = 0, k;
    json_t *i;

    if (!sorted)
        return rows;
    json_array_foreach(list, k, i) if (is_asked_for(i, q)) sorted[n++] = i;
    qsort(sorted, n, sizeof(*sorted), newest_first);
    for (k = 0; k < n; k++) {
        json_t *row = json_copy(sorted[k]), *led = find_root(list, sorted[k]);

        json_object_set_new(row, "root", led ? json_incref(led) : json_null());
        add_text(row);
        add_trace(row, json_object_get(root, "trace"));
        json_array_append_new(rows, row);
    }
    free(sorted);
    return rows;
}
