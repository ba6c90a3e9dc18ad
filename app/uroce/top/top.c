/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce top`: what the daemon does now, again and again. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "common.h"
#include "common_options.h"
#include "ctl_msg.h"
#include "endpoint.h"
#include "show.h"
#include "table.h"
#include "top/rates.h"

#define CLEAR "\033[H\033[J"

struct arguments {
    const char *socket;
    int as_json;
    bool by_qp, latency;
    double period;       /* seconds */
    unsigned long count; /* 0: without an end */
};

static void usage(FILE *out)
{
    fputs("usage: uroce top [--period S] [--count N] [--qps] [--latency] [--socket PATH] [--json]\n"
          "\nPrints, again and again, what changes: rates of ports, workers, programs and drops.\n"
          "On a terminal each print replaces the one before. Ctrl-C ends it.\n"
          "\n  --period S  seconds between two prints, 0.1 to 3600; 1 without it\n"
          "  --count N   ends after N prints\n"
          "  --qps       queue pairs in place of programs\n"
          "  --latency   times work requests of all programs as long as it runs, and prints how "
          "long\n"
          "              their stages take; for root and the user who runs uroced\n"
          "\nA user other than root and the daemon's sees the programs of this user.\n",
          out);
}

/* ---- printing ---- */

/* The lines of the terminal; a large number without one. */
static size_t lines(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 10)
        return SIZE_MAX;
    return size.ws_row;
}

/* At most `room` rows, with the title. */
static int print_list(const json_t *rates, const char *name, size_t room)
{
    json_t *list = json_object_get(rates, name), *some = json_array();
    size_t n = json_array_size(list), shown = min_of(n, max_of(room, (size_t)2) - 1);
    int err = 0;

    for (size_t i = 0; i < shown; i++)
        json_array_append(some, json_array_get(list, i));
    if (shown)
        err = table_print(stdout, some, NULL);
    if (shown < n)
        printf("and %zu more\n", n - shown);
    json_decref(some);
    return err;
}

static int print_tables(const struct arguments *a, const json_t *rates)
{
    static const char *const first[] = {"ports", "workers"}, *const last[] = {"drops", "latency"};
    bool is_terminal = isatty(STDOUT_FILENO);
    size_t room = is_terminal ? lines() : SIZE_MAX;
    const char *busy = a->by_qp ? "qps" : "programs";
    int err = 0;

    if (is_terminal)
        fputs(CLEAR, stdout);
    for (unsigned i = 0; i < ARRAY_SIZE(first) && !err; i++) {
        room -= min_of(room, json_array_size(json_object_get(rates, first[i])) + 2);
        err = print_list(rates, first[i], SIZE_MAX);
        putchar('\n');
    }
    for (unsigned i = 0; i < ARRAY_SIZE(last); i++)
        room -= min_of(room, json_array_size(json_object_get(rates, last[i])) + 3);
    if (!err && !json_array_size(json_object_get(rates, busy)))
        printf("no %s\n", a->by_qp ? "queue pairs" : "programs");
    else if (!err)
        err = print_list(rates, busy, room);
    for (unsigned i = 0; i < ARRAY_SIZE(last) && !err; i++) {
        if (!json_array_size(json_object_get(rates, last[i])))
            continue;
        putchar('\n');
        err = print_list(rates, last[i], SIZE_MAX);
    }
    return err;
}

static int print(const struct arguments *a, const json_t *rates)
{
    char *text;
    int err = 0;

    if (!rates) {
        err = -ENOMEM;
    } else if (a->as_json) {
        text = json_dumps(rates, JSON_COMPACT | JSON_REAL_PRECISION(6));
        err = text ? 0 : -ENOMEM;
        if (text)
            puts(text);
        free(text);
    } else {
        err = print_tables(a, rates);
    }
    if (!err && !fflush(stdout))
        return 0;
    fprintf(stderr, "uroce: top: %s\n", strerror(err ? -err : errno));
    return -1;
}

/* ---- looking ---- */

struct look {
    json_t *snapshot;
    double at;
};

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* 0, or -1 with the reason on stderr. */
static int look(const struct arguments *a, struct look *l)
{
    json_t *state = show_state(a->socket, CTL_SHOW_ALL);

    if (!state)
        return -1;
    l->at = now();
    l->snapshot = rates_snapshot(state);
    json_decref(state);
    return 0;
}

static void wait_until(double time)
{
    struct timespec ts = {.tv_sec = (time_t)time};

    ts.tv_nsec = (long)((time - (double)ts.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

/* Prints what has changed since `before`, which the new look replaces. */
static int report(const struct arguments *a, struct look *before)
{
    struct look after;
    json_t *rates;
    int err;

    if (look(a, &after))
        return -1;
    rates = rates_between(before->snapshot, after.snapshot, after.at - before->at, a->by_qp);
    err = print(a, rates);
    json_decref(rates);
    json_decref(before->snapshot);
    *before = after;
    if (!a->as_json && !isatty(STDOUT_FILENO))
        putchar('\n');
    return err;
}

/* Has the daemon time work requests until the descriptor is closed. *fd, or -1: not asked for. 0,
 * or -1 with the reason on stderr. */
static int watch(const struct arguments *a, int *fd)
{
    struct ctl_msg m = {.magic = CTL_MAGIC,
                        .version = CTL_VERSION,
                        .type = CTL_WATCH,
                        .seq = 1,
                        .watch.latency = 1};
    char path[ENDPOINT_PATH_MAX] = "";
    int fds[CTL_MAX_FDS], err;
    unsigned nfds = 0;

    *fd = -1;
    if (!a->latency)
        return 0;
    *fd = endpoint_connect(a->socket, path);
    if (*fd < 0) {
        endpoint_print_error(path, *fd);
        return -1;
    }
    err = ctl_request(*fd, &m, NULL, 0, fds, &nfds);
    while (nfds)
        close(fds[--nfds]);
    err = err ? err : m.status;
    if (!err)
        return 0;
    close(*fd);
    fprintf(stderr, "uroce: top: --latency: %s\n",
            err == -EPERM ? "only root and the user who runs uroced may time work requests"
                          : strerror(-err));
    return -1;
}

static int run(const struct arguments *a)
{
    struct look before;
    double next;
    int fd, err = watch(a, &fd);

    if (err)
        return EXIT_FAILURE;
    err = look(a, &before);
    if (err)
        return EXIT_FAILURE;
    next = before.at;
    for (unsigned long n = 0; !err && (!a->count || n < a->count); n++) {
        next += a->period;
        if (next < now()) /* a daemon that takes long to answer */
            next = now() + a->period;
        wait_until(next);
        err = report(a, &before);
    }
    json_decref(before.snapshot);
    if (fd >= 0)
        close(fd);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- options ---- */

static int read_period(const char *text, double *period)
{
    char *end;

    *period = strtod(text, &end);
    if (end != text && !*end && isfinite(*period) && *period >= 0.1 && *period <= 3600)
        return 0;
    fprintf(stderr, "uroce: top: \"%s\" is no number of seconds from 0.1 to 3600\n", text);
    return -1;
}

static int read_count(const char *text, unsigned long *count)
{
    char *end;

    errno = 0;
    *count = strtoul(text, &end, 10);
    if (!errno && end != text && !*end && text[0] >= '0' && text[0] <= '9' && *count)
        return 0;
    fprintf(stderr, "uroce: top: \"%s\" is no number of prints\n", text);
    return -1;
}

static int read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {{"period", required_argument, NULL, 'p'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"qps", no_argument, NULL, 'q'},
                                            {"latency", no_argument, NULL, 'l'},
                                            COMMON_OPTIONS,
                                            {0}};
    int option, err = 0;

    while (!err && (option = getopt_long(argc, argv, COMMON_LETTERS, options, NULL)) != -1) {
        if (option == 'p')
            err = read_period(optarg, &a->period);
        else if (option == 'n')
            err = read_count(optarg, &a->count);
        else if (option == 'q')
            a->by_qp = true;
        else if (option == 'l')
            a->latency = true;
        else if (!common_option(option, &a->socket, &a->as_json, usage))
            err = -1;
    }
    return err ? -1 : options_end("top", argc, argv);
}

int cmd_top(int argc, char **argv)
{
    struct arguments a = {.period = 1};

    if (!read_options(&a, argc, argv))
        return run(&a);
    usage(stderr);
    return EXIT_USAGE;
}
