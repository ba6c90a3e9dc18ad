/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce entropy`: collects the flows, computes how they spread, and prints the result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "output.h"
#include "show.h"

/* ---- flows ---- */

static int add_file(struct flows *f, const struct spread_arguments *a, const char *name,
                    char error[SPREAD_ERROR_MAX])
{
    bool standard = strcmp(name, "-") == 0;
    FILE *in = standard ? stdin : fopen(name, "re");
    int err;

    if (!in) {
        snprintf(error, SPREAD_ERROR_MAX, "%s", strerror(errno));
        return -EIO;
    }
    err = flows_add_lines(f, in, &a->src, &a->dst, error);
    if (!standard)
        fclose(in);
    return err;
}

static int add_random(struct flows *f, const struct spread_arguments *a, const char *text,
                      char error[SPREAD_ERROR_MAX])
{
    uint64_t n = 0;

    if (spread_parse_number(text, 1, SPREAD_FLOWS_MAX, &n)) {
        snprintf(error, SPREAD_ERROR_MAX, "not a number from 1 to %u", SPREAD_FLOWS_MAX);
        return -EINVAL;
    }
    return flows_add_random(f, (unsigned)n, a->random_seed, &a->src, &a->dst, error);
}

/* Exit status. */
static int add_running(struct flows *f, const struct spread_arguments *a)
{
    json_t *state = show_state(a->socket, CTL_SHOW_ALL);
    char error[SPREAD_ERROR_MAX] = "";
    int others;

    if (!state)
        return EXIT_FAILURE;
    others = flows_add_shown(f, json_object_get(state, "qps"), error);
    json_decref(state);
    if (others < 0)
        fprintf(stderr, "uroce entropy: %s\n", error);
    else if (others)
        fprintf(stderr, "uroce entropy: left out %d queue pair%s not connected\n", others,
                others == 1 ? " that is" : "s that are");
    return others < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Exit status. */
static int add_source(struct flows *f, const struct spread_arguments *a,
                      const struct flow_source *s)
{
    char error[SPREAD_ERROR_MAX] = "";
    const char *name = s->text;
    int err = 0;

    switch (s->kind) {
    case SOURCE_RUNNING:
        return add_running(f, a);
    case SOURCE_FILE:
        err = add_file(f, a, s->text, error);
        break;
    case SOURCE_QPS:
        err = flows_add_range(f, s->text, &a->src, &a->dst, error);
        name = "--qps";
        break;
    case SOURCE_RANDOM:
        err = add_random(f, a, s->text, error);
        name = "--random";
        break;
    }
    if (!err)
        return EXIT_SUCCESS;
    fprintf(stderr, "uroce entropy: %s: %s\n", name, error);
    return s->kind == SOURCE_FILE || err != -EINVAL ? EXIT_FAILURE : EXIT_USAGE;
}

/* ---- work ---- */

static int write_svg(const char *name, const struct spread_plan *plan,
                     const struct spread_result *r)
{
    FILE *out = fopen(name, "we");
    int err = -1;

    if (out) {
        err = spread_print_svg(out, plan, r);
        err |= ferror(out);
        err |= fclose(out);
    }
    if (err)
        fprintf(stderr, "uroce entropy: %s: %s\n", name, strerror(errno));
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int print_result(const struct spread_arguments *a, const struct spread_result *r)
{
    int err =
        a->json ? spread_print_json(stdout, &a->plan, r) : spread_print_table(stdout, &a->plan, r);

    if (output_end("uroce entropy", err))
        return EXIT_FAILURE;
    return a->svg ? write_svg(a->svg, &a->plan, r) : EXIT_SUCCESS;
}

static int spread_and_print(const struct spread_arguments *a, const struct flows *f)
{
    struct spread_result r;
    int status;

    if (!f->count) {
        fputs("uroce entropy: there are no flows\n", stderr);
        return EXIT_FAILURE;
    }
    if ((uint64_t)f->count * a->plan.messages > SPREAD_MESSAGES_MAX) {
        fprintf(stderr, "uroce entropy: %u flows of %u messages: more than %u in all\n", f->count,
                a->plan.messages, SPREAD_MESSAGES_MAX);
        return EXIT_USAGE;
    }
    if (spread_compute(&r, &a->plan, f)) {
        fprintf(stderr, "uroce entropy: %s\n", strerror(ENOMEM));
        return EXIT_FAILURE;
    }
    status = print_result(a, &r);
    spread_free(&r);
    return status;
}

int cmd_entropy(int argc, char **argv)
{
    static struct spread_arguments a;
    struct flows f = {0};
    int status = spread_parse_arguments(&a, argc, argv);

    if (status > 0) {
        fputs(spread_help, stdout);
        return EXIT_SUCCESS;
    }
    if (status < 0) {
        fputs("uroce entropy --help says more\n", stderr);
        return EXIT_USAGE;
    }
    for (unsigned i = 0; i < a.sources && status == EXIT_SUCCESS; i++)
        status = add_source(&f, &a, &a.source[i]);
    if (status == EXIT_SUCCESS)
        status = spread_and_print(&a, &f);
    flows_free(&f);
    return status;
}
