/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of `uroce why`: a sentence, the evidence, advice. */
#include <stdio.h>
#include <string.h>

#include "cause.h"
#include "why.h"

#define OTHERS_NAMED 5

static bool has(const json_t *o, const char *name)
{
    return json_object_get(o, name);
}

/* ---- evidence ---- */

static void print_program(const json_t *i)
{
    printf("%s (pid %" JSON_INTEGER_FORMAT ")", why_text(i, "comm"), why_number(i, "pid"));
}

/* A time that is easy to read: 3.145 ms, 12.4 s, 5 min. */
static void print_time(json_int_t ns)
{
    if (ns < 1000000000)
        printf("%.3f ms", (double)ns / 1e6);
    else if (ns < 120 * 1000000000LL)
        printf("%.1f s", (double)ns / 1e9);
    else
        printf("%lld min", (long long)(ns / (60 * 1000000000LL)));
}

/* Whether the peer's request is wrong, and not what the program has for it. */
static bool comes_from_request(const json_t *i)
{
    json_int_t code = why_number(i, "code");

    return code >= CAUSE_remote_key_unknown && code <= CAUSE_invalidate_refused;
}

/* A work request of the program itself: the one that failed, or the receive of a request. */
static void print_work_request(const json_t *i)
{
    if (strcmp(why_text(i, "kind"), "send") == 0)
        printf(": %s, wr_id %s: %s (status %" JSON_INTEGER_FORMAT
               ", vendor error %" JSON_INTEGER_FORMAT ")\n",
               why_text(i, "operation"), why_text(i, "wr_id"), why_text(i, "status"),
               why_number(i, "status_code"), why_number(i, "code"));
    else if (has(i, "wr_id"))
        printf(", receive with wr_id %s: %s\n", why_text(i, "wr_id"), why_text(i, "cause"));
    else
        printf(": %s\n", why_text(i, "cause"));
}

/* A message of an unreliable service is lost. */
static const char *fate(const json_t *i)
{
    const char *type = why_text(i, "qp_type");

    return strcmp(type, "UD") == 0 || strcmp(type, "UC") == 0 ? "was dropped" : "has to wait";
}

/* What happened, and to which queue pair. */
static void print_head(const json_t *i, json_int_t now)
{
    const char *kind = why_text(i, "kind");

    printf("  ");
    print_time(now - why_time(i, "time_ns"));
    printf(" ago: ");
    if (has(i, "qpn"))
        printf("%s%sQP %" JSON_INTEGER_FORMAT " of ", why_text(i, "qp_type"),
               has(i, "qp_type") ? " " : "", why_number(i, "qpn"));
    print_program(i);
    if (strcmp(kind, "dropped") == 0 && why_number(i, "code") == CAUSE_packets_from_elsewhere)
        printf(" dropped packets: %s\n", why_text(i, "cause"));
    else if (strcmp(kind, "dropped") == 0)
        printf(": a message to it %s: %s\n", fate(i), why_text(i, "cause"));
    else if (strcmp(kind, "request") == 0 && comes_from_request(i))
        printf(" refused a request of QP %" JSON_INTEGER_FORMAT ": %s\n", why_number(i, "dest_qpn"),
               why_text(i, "cause"));
    else
        print_work_request(i);
}

static void print_value(const char *name, const json_t *v)
{
    char text[512];

    why_value(text, sizeof(text), name, strlen(name), v);
    printf(" %s %s", name, text);
}

static void print_members(const char *title, const json_t *o, bool zeros)
{
    bool any = false;
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)o, name, v)
    {
        if (!zeros && !json_integer_value(v))
            continue;
        if (any)
            putchar(',');
        else
            printf("    %s:", title);
        any = true;
        print_value(name, v);
    }
    if (any)
        putchar('\n');
}

static void print_peer(const json_t *i)
{
    if (!has(i, "dest_qpn") && !has(i, "dgid"))
        return;
    printf("    peer:");
    if (has(i, "dest_qpn"))
        printf(" QP %" JSON_INTEGER_FORMAT, why_number(i, "dest_qpn"));
    if (has(i, "dgid"))
        printf(" at %s", why_text(i, "dgid"));
    if (has(i, "silent_us")) {
        printf(", silent for at least ");
        print_time(why_time(i, "silent_us") % (INT64_MAX / 1000) * 1000);
    }
    putchar('\n');
}

static void print_trace(const json_t *i)
{
    json_t *r;
    size_t k;

    json_array_foreach(json_object_get(i, "trace"), k, r)
    {
        printf("    %+.3f ms: %s %s\n",
               (double)(why_time(r, "time_ns") - why_time(i, "time_ns")) / 1e6,
               why_text(r, "event"), why_text(r, "what"));
    }
}

static void print_evidence(const json_t *i, json_int_t now)
{
    print_head(i, now);
    print_members("found", json_object_get(i, "details"), true);
    print_peer(i);
    print_members("counters", json_object_get(i, "counters"), false);
    if (why_number(i, "drops"))
        printf("    packets to it that were dropped: %" JSON_INTEGER_FORMAT ", most of them: %s\n",
               why_number(i, "drops"), why_text(i, "drop_reason"));
    print_trace(i);
}

static void print_rules(const json_t *root)
{
    json_t *rule;
    size_t k;

    json_array_foreach(json_object_get(root, "faults"), k, rule)
    {
        printf("  there is a rule of `uroce fault`: %s (it has acted %" JSON_INTEGER_FORMAT
               " times)\n",
               why_text(rule, "rule"), why_number(rule, "acted"));
    }
}

static void print_one(const json_t *i, const json_t *root)
{
    json_int_t now = why_time(root, "now_ns");
    const json_t *led = why_root(i);

    printf("%s%s%s\n\n", why_text(i, "sentence"), has(i, "more") ? " " : "", why_text(i, "more"));
    print_evidence(i, now);
    if (led != i)
        print_evidence(led, now);
    print_rules(root);
    printf("\n%s (cause %" JSON_INTEGER_FORMAT ", %s)\n", why_text(i, "advice"),
           why_number(led, "code"), why_text(led, "cause"));
}

/* Those that the answer does not show: after it, or before. */
static void print_others(const json_t *incidents, const json_t *shown, bool after)
{
    json_int_t time = why_time(shown, "time_ns"), root = why_time(why_root(shown), "time_ns");
    const char *start = after ? "\nSince then, with --all: %s" : "\nEarlier, with --all: %s";
    size_t n = 0, k;
    json_t *i;

    json_array_foreach(incidents, k, i)
    {
        if (i == shown || why_time(i, "time_ns") == root ||
            (why_time(i, "time_ns") > time) != after)
            continue;
        printf(n++ ? ", %s" : start, why_text(i, "cause"));
        if (n == OTHERS_NAMED)
            break;
    }
    if (n)
        puts(n == OTHERS_NAMED ? " and more." : ".");
}

/* The latest one; a message that has to wait is a failure only if there is no other. */
static const json_t *latest(const json_t *incidents)
{
    json_t *i;
    size_t k;

    json_array_foreach(incidents, k, i)
    {
        if (strcmp(why_text(i, "kind"), "dropped") != 0)
            return i;
    }
    return json_array_get(incidents, 0);
}

static void print_all(const json_t *incidents, const json_t *root)
{
    json_int_t led = 0; /* when the root of the last one was */
    const char *line = "";
    json_t *i;
    size_t k;

    json_array_foreach(incidents, k, i)
    {
        if (led && why_time(i, "time_ns") == led) /* its evidence is there already */
            continue;
        fputs(line, stdout);
        print_one(i, root);
        led = why_root(i) != i ? why_time(why_root(i), "time_ns") : 0;
        line = "\n----\n\n";
    }
}

void why_print(const json_t *incidents, const json_t *root, bool all)
{
    const json_t *i = latest(incidents);

    if (all) {
        print_all(incidents, root);
        return;
    }
    print_one(i, root);
    print_others(incidents, i, true);
    print_others(incidents, i, false);
}

/* ---- a number ---- */

bool why_print_code(uint64_t code, bool as_json)
{
    const struct cause_text *t = code <= CAUSE_MAX ? cause_text((uint32_t)code) : NULL;
    json_t *o;

    if (!t)
        return false;
    if (!as_json) {
        printf("%s\n\n%s (cause %u, %s)\n", t->sentence, t->advice, (unsigned)code, t->name);
        return true;
    }
    o = json_pack("{s:i, s:s, s:s, s:s}", "code", (int)code, "cause", t->name, "sentence",
                  t->sentence, "advice", t->advice);
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
    return true;
}
