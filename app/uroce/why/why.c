/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce why`: why did it fail? Its options. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "common_options.h"
#include "endpoint.h"
#include "output.h"
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
    return options_end("why", argc, argv);
}

/* A number is explained without a daemon. */
static int explain(const struct arguments *a)
{
    if (why_print_code(a->question.number, a->as_json))
        return output_end("uroce: why", 0);
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
        puts(a->question.by == WHY_BY_NOTHING ? "Nothing is known to have failed."
                                              : "Nothing of this is known to have failed.");
    else
        why_print(incidents, root, a->all);
    return output_end("uroce: why", err);
}

/* The answer of the daemon, if one serves, *absent otherwise; path: its socket. NULL with the
 * reason on stderr, unless it is absent. */
static json_t *ask_daemon(const char *socket, char path[ENDPOINT_PATH_MAX], bool *absent)
{
    int sock = endpoint_connect(socket, path);

    *absent = endpoint_is_absent(sock);
    if (sock >= 0)
        close(sock);
    else if (!*absent)
        endpoint_print_error(path, sock);
    return sock < 0 ? NULL : show_state(socket, CTL_SHOW_INCIDENTS);
}

/* What the daemon knows, and else what the last one knew that has ended. */
static int answer(const struct arguments *a)
{
    char path[ENDPOINT_PATH_MAX] = "";
    bool absent;
    json_t *root = ask_daemon(a->socket, path, &absent), *kept, *incidents;
    int status;

    if (!root && !absent)
        return 1;
    incidents = root ? why_select(root, &a->question) : NULL;
    kept = json_array_size(incidents) ? NULL : why_kept(path);
    if (kept) {
        json_decref(root);
        json_decref(incidents);
        root = kept;
        incidents = why_select(root, &a->question);
    }
    if (!root) {
        endpoint_print_error(path, -ENOENT);
        return 1;
    }
    status = print_incidents(a, root, incidents);
    json_decref(incidents);
    json_decref(root);
    return status;
}

int cmd_why(int argc, char **argv)
{
    struct arguments a = {0};

    if (read_options(&a, argc, argv)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (a.question.by == WHY_BY_CODE)
        return explain(&a);
    return answer(&a);
}
