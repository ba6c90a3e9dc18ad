/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce-perf: measures the engine, its stages and ports in one process; or sends to another one, as
 * programs do. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "output.h"
#include "peer/server.h"
#include "result.h"
#include "run_wait.h"

#define EXIT_USAGE 2

static const char usage[] =
    "usage: uroce-perf [EAL options] -- [options]\n"
    "\n"
    "Without a device among the EAL options (--vdev, or -a for PCI) traffic goes over the "
    "loopback\n"
    "port. Of two devices, which must be each other's peer, the first sends to the second.\n"
    "\n";

static int print_error(const char *text)
{
    fprintf(stderr, "uroce-perf: %s\n", text);
    return -1;
}

/* The exit status when all is printed. */
static int end_output(int status)
{
    int failed = output_end("uroce-perf", 0);

    return status ? status : failed;
}

/* ---- the EAL's options ---- */

struct eal {
    int argc;
    char *argv[64];
};

static int add_device(struct perf_ports *ports, const char *device)
{
    if (ports->devices == PORTS_MAX)
        return print_error("more than two devices (--vdev, -a)");
    if (!*device || (size_t)snprintf(ports->device[ports->devices], sizeof(ports->device[0]), "%s",
                                     device) >= sizeof(ports->device[0]))
        return print_error("a device has no name, or one that is too long (--vdev, -a)");
    ports->devices++;
    return 0;
}

/* The value of option `name` at argv[*i], with *i moved to its last word; NULL if argv[*i] is
 * another option. */
static const char *value_of(char **argv, int argc, int *i, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(argv[*i], name, n))
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    if (argv[*i][n])
        return NULL;
    return *i + 1 < argc ? argv[++*i] : "";
}

/* The ports create virtual devices, as they know the required arguments. All other options go to
 * the EAL. */
static int split_eal(struct perf_ports *ports, struct eal *e, int argc, char **argv)
{
    if (argc && argv[0][0] != '-') { /* the EAL ignores it */
        fprintf(stderr, "uroce-perf: unexpected argument \"%s\"\n", argv[0]);
        return -1;
    }
    for (int i = 0; i < argc; i++) {
        int first = i;
        const char *device = value_of(argv, argc, &i, "--vdev");

        if (device) {
            if (add_device(ports, device))
                return -1;
            continue;
        }
        device = value_of(argv, argc, &i, "-a");
        if (!device)
            device = value_of(argv, argc, &i, "--allow");
        if (device && add_device(ports, device))
            return -1;
        for (; first <= i; first++) {
            if (e->argc == (int)ARRAY_SIZE(e->argv))
                return print_error("too many EAL options");
            e->argv[e->argc++] = argv[first];
        }
    }
    return 0;
}

static int start_env(struct perf_ports *ports, struct eal *e)
{
    struct env_config ec = {
        .argc = e->argc, .argv = e->argv, .program = "uroce-perf", .defaults = true};
    int err;

    ports->env = ports->devices || e->argc ? &env_dpdk : &env_posix;
    err = ports->env->init(&ec);
    if (err)
        ports->env = NULL;
    return err;
}

/* ---- a run ---- */

/* ports: NULL for a client. */
static int run_batch(const struct perf_options *o, struct perf_ports *ports, int signal_fd)
{
    static struct perf p;
    char error[ERROR_MAX];
    int status = EXIT_FAILURE;

    if (o->loads[0])
        return loads_run(o, ports, signal_fd);
    if ((ports && perf_ports_open(ports, o, error, sizeof(error))) ||
        run_start(&p, o, ports, error, sizeof(error))) {
        print_error(error);
        return EXIT_FAILURE;
    }
    run_wait(&p, signal_fd);
    run_stop(&p);
    report_result(&p);
    if (atomic_load(&p.failed))
        print_error(p.error);
    else
        status = EXIT_SUCCESS;
    run_close(&p);
    return status;
}

/* With both ends in this process. */
static int run_here(struct perf_options *o, struct perf_ports *ports, struct eal *e, int signal_fd)
{
    int status = start_env(ports, e);

    if (status)
        return status == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
    if (o->interactive ||
        (!o->batch && !o->loads[0] && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        status = prompt_run(o, ports, signal_fd);
    else
        status = run_batch(o, ports, signal_fd);
    perf_ports_close(ports);
    ports->env->fini();
    return status;
}

/* Signals are only read from the descriptor. Threads that start later inherit the mask. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL))
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int read_arguments(struct perf_options *o, struct perf_ports *ports, struct eal *e, int argc,
                          char **argv)
{
    char error[ERROR_MAX] = "";
    int split = 1, read;

    while (split < argc && strcmp(argv[split], "--")) {
        if (!strcmp(argv[split], "--help") || !strcmp(argv[split], "-h"))
            return 1;
        if (!strcmp(argv[split], "--version")) {
            puts("uroce-perf " UROCE_VERSION);
            exit(end_output(EXIT_SUCCESS));
        }
        split++;
    }
    for (int i = 1; split == argc && i < argc; i++)
        if (options_knows(argv[i])) {
            fprintf(stderr, "uroce-perf: %s is not for the EAL: write it behind --\n", argv[i]);
            return -1;
        }
    options_default(o);
    if (split_eal(ports, e, split - 1, argv + 1))
        return -1;
    if (split == argc)
        return 0;
    read = options_read(o, argc - split - 1, argv + split + 1, error, sizeof(error));
    if (!read)
        read = options_check(o, error, sizeof(error));
    if (!read && (o->server || o->client[0]) && (ports->devices || e->argc))
        return print_error("EAL options: a client or a server has no ports");
    return read < 0 ? print_error(error) : read;
}

int main(int argc, char **argv)
{
    static struct perf_ports ports;
    struct perf_options o;
    struct eal e = {0};
    int signal_fd, status = read_arguments(&o, &ports, &e, argc, argv);

    if (status > 0) {
        fputs(usage, stdout);
        options_help();
        return end_output(EXIT_SUCCESS);
    }
    if (status) {
        fprintf(stderr, "Try 'uroce-perf --help'.\n");
        return EXIT_USAGE;
    }
    signal_fd = open_signals();
    if (signal_fd < 0)
        return EXIT_FAILURE;
    if (o.server)
        status = server_run(&o, signal_fd);
    else if (o.client[0])
        status = run_batch(&o, NULL, signal_fd);
    else
        status = run_here(&o, &ports, &e, signal_fd);
    close(signal_fd);
    return end_output(status);
}
