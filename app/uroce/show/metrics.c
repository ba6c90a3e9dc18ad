/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce metrics`: the daemon's counters for monitors. */
#include "metrics.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common_options.h"
#include "output.h"
#include "show.h"

static void usage(FILE *out)
{
    fputs(
        "usage: uroce metrics [--socket PATH] [--format openmetrics|prometheus]\n"
        "\nPrints the counters of the running uroced in the text format of OpenMetrics, or in "
        "that\n"
        "of Prometheus, which node_exporter reads from files.\n"
        "\nA user other than root and the daemon's sees the ports' counters, and of users the own\n"
        "objects alone.\n",
        out);
}

static int print_metrics(const json_t *state, enum metrics_format format)
{
    struct metrics_text *t = metrics_begin(state, format);
    size_t length = 0;
    char *text;

    while (t && metrics_some(t)) {
    }
    text = t ? metrics_end(t, &length) : NULL;
    if (!text) {
        fputs("uroce: metrics: out of memory\n", stderr);
        return 1;
    }
    if (fwrite(text, 1, length, stdout) == length && !fflush(stdout))
        length = 0;
    free(text);
    if (!length)
        return 0;
    perror("uroce: metrics");
    return 1;
}

struct arguments {
    const char *socket;
    enum metrics_format format;
};

static int read_format(struct arguments *a, const char *name)
{
    a->format = !strcmp(name, "prometheus") ? METRICS_PROMETHEUS : METRICS_OPENMETRICS;
    if (a->format == METRICS_PROMETHEUS || !strcmp(name, "openmetrics"))
        return 0;
    fprintf(stderr, "uroce: metrics: --format is openmetrics or prometheus, not \"%s\"\n", name);
    return -1;
}

static int read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"format", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int option, err = 0;

    while (!err && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 's':
            a->socket = optarg;
            break;
        case 'f':
            err = read_format(a, optarg);
            break;
        case 'h':
            usage(stdout);
            exit(output_end("uroce: metrics", 0));
        default:
            err = -1;
        }
    }
    return err ? err : options_end("metrics", argc, argv);
}

int cmd_metrics(int argc, char **argv)
{
    struct arguments a = {.format = METRICS_OPENMETRICS};
    json_t *state;
    int status;

    if (read_options(&a, argc, argv)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    state = show_state(a.socket, CTL_SHOW_METRICS);
    if (!state)
        return 1;
    status = print_metrics(state, a.format);
    json_decref(state);
    return status;
}
