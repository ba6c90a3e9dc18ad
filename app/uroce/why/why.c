/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce why`: why did it fail? Its options. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "common_options.h"
#include "show.h"
#include "why.h"

struct arguments {
    const char *socket;
    int as_json, all;
    struct why_question question;
};

static void usage(FILE *out)
{
    fputs(
        "usage: uroce why [QPN | wr_id=N | pid=N | pid=NAME] [--all] [--socket PATH] [--json]\n"
        "       uroce why code=N [--json]\n\n"
        "Why the last work request or queue pair failed, with the evidence; also when its program\n"
        "has ended. With --all: all that is known, the newest first. code=N explains a number: "
        "the\n"
        "vendor error (ibv_wc.vendor_err) of a completion.\n"
        "\nA user other than root and the daemon's sees what failed in programs of this user.\n",
        out);
}

static int read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {"all", no_argument, NULL, 'a'}, {0}};
    int option;

    while ((option = getopt_long(argc, argv, COMMON_LETTERS "a", options, NULL)) != -1) {
        if (common_option(option, &a->socket, &a->as_json, usage))
            continue;
        if (option != 'a')
            return -1;
        a->all = 1;
    }
    if (optind < argc && !why_parse(&a->question, argv[optind++])) {
        fprintf(stderr, "uroce: why: \"%s\" is no QP number, wr_id=, pid= or code=\n",
                argv[optind - 1]);
        return -1;
    }
    return optind < argc ? -1 : 0;
}

/* A number is explained without a daemon. */
static int explain(const struct arguments *a)
{
    if (why_print_code(a->question.number, a->as_json))
        return fflush(stdout) ? 1 : 0;
    fprintf(stderr, "uroce: why: no cause has the number %llu\n",
            (unsigned long long)a->question.number);
    return 1;
}

static int print_incidents(const struct arguments *a, const json_t *root, const json_t *incidents)
{
    int err = 0;

    if (a->as_json)
        err = json_dumpf(incidents, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    else if (json_array_size(incidents) == 0)
        puts("Nothing is known to have failed.");
    else
        why_print(incidents, root, a->all);
    return err || fflush(stdout) ? 1 : 0;
}

int cmd_why(int argc, char **argv)
{
    struct arguments a = {0};
    json_t *root, *incidents;
    int status;

    if (read_options(&a, argc, argv)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (a.question.by == WHY_BY_CODE)
        return explain(&a);
    root = show_state(a.socket, CTL_SHOW_INCIDENTS);
    if (!root)
        return 1;
    incidents = why_select(root, &a.question);
    status = print_incidents(&a, root, incidents);
    json_decref(incidents);
    json_decref(root);
    return status;
}
