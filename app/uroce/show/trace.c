/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce trace`: recent unusual events of all workers, in one order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common_options.h"
#include "number.h"
#include "output.h"
#include "show.h"
#include "table.h"

#define QPN_ALL -1

struct arguments {
    const char *socket;
    long qpn;
    int as_json;
};

static void usage(FILE *out)
{
    fputs("usage: uroce trace [--qpn N] [--socket PATH] [--json]\n\n"
          "The last 1024 events of each worker on each port, in their order. ms_ago is an event's "
          "age\n"
          "when the daemon answered. With --qpn: the events of one queue pair. A user other than\n"
          "root and the daemon's sees the events of queue pairs that programs of this user have "
          "now.\n",
          out);
}

static int by_time(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;
    json_int_t s = json_integer_value(json_object_get(*x, "time_ns"));
    json_int_t t = json_integer_value(json_object_get(*y, "time_ns"));

    return (s > t) - (s < t);
}

/* The selected records of all workers, ordered by time: an array of *n borrowed objects. */
static json_t **collect_records(const json_t *root, long qpn, size_t *n)
{
    const json_t *list = json_object_get(root, "trace");
    json_t **row = malloc((json_array_size(list) + 1) * sizeof(*row));
    json_t *record;
    size_t i;

    *n = 0;
    json_array_foreach(list, i, record)
    {
        if (row && (qpn == QPN_ALL || json_integer_value(json_object_get(record, "qpn")) == qpn))
            row[(*n)++] = record;
    }
    if (row)
        qsort(row, *n, sizeof(*row), by_time);
    return row;
}

static json_t *select_rows(const json_t *root, long qpn)
{
    json_int_t now = json_integer_value(json_object_get(root, "now_ns"));
    json_t *rows = json_array(), **record;
    char ago[32];
    size_t n;

    record = collect_records(root, qpn, &n);
    for (size_t i = 0; i < n; i++) {
        json_int_t time = json_integer_value(json_object_get(record[i], "time_ns"));

        snprintf(ago, sizeof(ago), "%.3f", (double)(now - time) / 1e6);
        json_object_set_new(record[i], "ms_ago", json_string(ago));
        json_array_append(rows, record[i]);
    }
    free(record);
    return record ? rows : NULL;
}

static int print_events(const json_t *root, const json_t *rows, int as_json)
{
    json_int_t hidden = json_integer_value(json_object_get(root, "hidden"));
    int err = 0;

    if (as_json)
        err = json_dumpf(rows, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    else if (json_array_size(rows) == 0)
        puts("none");
    else
        err = table_print(stdout, rows, "ms_ago device worker qpn event what");
    if (hidden && !as_json)
        printf("(%" JSON_INTEGER_FORMAT " of other users and of former queue pairs)\n", hidden);
    return output_end("uroce: trace", err);
}

static int read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS, {"qpn", required_argument, NULL, 'q'}, {0}};
    int option;
    char *end;

    while ((option = getopt_long(argc, argv, COMMON_LETTERS, options, NULL)) != -1) {
        if (common_option(option, &a->socket, &a->as_json, usage))
            continue;
        switch (option) {
        case 'q':
            errno = 0;
            a->qpn = strtol(optarg, &end, number_base(optarg));
            if (errno || end == optarg || *end || a->qpn < 0 || a->qpn > 0xFFFFFF) {
                fprintf(stderr, "uroce: trace: \"%s\" is no queue pair number\n", optarg);
                return -1;
            }
            break;
        default:
            return -1;
        }
    }
    return options_end("trace", argc, argv);
}

int cmd_trace(int argc, char **argv)
{
    struct arguments a = {.qpn = QPN_ALL};
    json_t *root, *rows;
    int status;

    if (read_options(&a, argc, argv)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    root = show_state(a.socket, CTL_SHOW_TRACE);
    if (!root)
        return 1;
    rows = select_rows(root, a.qpn);
    status = rows ? print_events(root, rows, a.as_json) : 1;
    json_decref(rows);
    json_decref(root);
    return status;
}
