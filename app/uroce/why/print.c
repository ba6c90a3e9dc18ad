/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of `uroce why`: a sentence, the evidence, advice. */
#include <stdio.h>
#include <string.h>

#include "cause.h"
#include "why.h"

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

/* What happened, and to which work request. */
static void print_head(const json_t *i, json_int_t now)
{
    const char *kind = why_text(i, "kind");

    printf("  ");
    print_time(now - why_time(i, "time_ns"));
    printf(" ago: ");
    if (has(i, "qpn"))
        printf("QP %" JSON_INTEGER_FORMAT " of ", why_number(i, "qpn"));
    print_program(i);
    if (strcmp(kind, "send") == 0)
        printf(": %s, wr_id %s: %s (status %" JSON_INTEGER_FORMAT
               ", vendor error %" JSON_INTEGER_FORMAT ")\n",
               why_text(i, "operation"), why_text(i, "wr_id"), why_text(i, "status"),
               why_number(i, "status_code"), why_number(i, "code"));
    else if (strcmp(kind, "request") == 0)
        printf(": a request of the peer ended the connection: %s\n", why_text(i, "cause"));
    else if (strcmp(kind, "dropped") == 0)
        printf(": a message of the peer was dropped or has to wait: %s\n", why_text(i, "cause"));
    else
        printf(": %s\n", why_text(i, "cause"));
}

static void print_value(const char *name, const json_t *v)
{
    bool hex = strstr(name, "key") || strstr(name, "address");

    if (json_is_string(v))
        printf(" %s %s", name, json_string_value(v));
    else
        printf(hex ? " %s 0x%llx" : " %s %lld", name, (long long)json_integer_value(v));
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
    size_t n = json_array_size(json_object_get(root, "faults"));

    if (n)
        printf("  %zu rule%s of `uroce fault` %s in force\n", n, n == 1 ? "" : "s",
               n == 1 ? "is" : "are");
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
    size_t others = json_array_size(incidents) - 1;
    const json_t *i = latest(incidents);

    if (all) {
        print_all(incidents, root);
        return;
    }
    print_one(i, root);
    if (others)
        printf("\n%zu more: --all shows %s.\n", others, others == 1 ? "it" : "them");
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
