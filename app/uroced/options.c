/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of uroced, and what it overrides: see options.h. */
#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu_list.h"
#include "metrics_address.h"
#include "output.h"
#include "uroced.h"

#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

static const char usage[] =
    "usage: uroced [-c FILE | --loopback[=ADDRESS,...] | --udp[=ADDRESS,...]] [options]\n"
    "              [-- EAL options]\n"
    "\n"
    "  -c, --config FILE    ports and addresses (see config/*.ini)\n"
    "      --loopback[=ADDRESS,...]\n"
    "                       one device that talks to itself, with all addresses of the host, or\n"
    "                       only with these (the default without -c)\n"
    "      --udp[=ADDRESS,...]\n"
    "                       one device over UDP sockets of the kernel, without privileges, with\n"
    "                       all addresses by which other hosts reach this one, or only with these\n"
    "      --socket PATH    where programs connect (default: /run/uroce.sock for root,\n"
    "                       $XDG_RUNTIME_DIR/uroce.sock for others)\n"
    "      --group NAME     the socket's group (default for root: uroce, if it exists)\n"
    "      --mode MODE      the socket's permissions, octal (default: 0660 for root, or where a\n"
    "                       group is named, else 0600)\n"
    "      --workers N      dataplane threads (default 1), each with a queue of every port\n"
    "      --cpus LIST      the CPUs of the dataplane threads, one for each, as 2,3 or 4-7\n"
    "      --poll MODE      adaptive, the default: threads without work sleep; always: they poll\n"
    "      --idle-exit S    end when no program has been connected for S seconds\n"
    "      --seccomp yes|no refuse system calls that the daemon does not need (default: yes)\n"
    "      --user NAME      go on as this user when ports and socket are open (root)\n"
    "      --metrics ADDRESS:PORT|[ADDRESS]:PORT|unix:PATH\n"
    "                       serve metrics by HTTP (GET /metrics)\n"
    "      --telemetry      DPDK's telemetry socket, for dpdk-telemetry.py (ports of DPDK)\n"
    "      --ready-fd FD    write a byte to FD when programs can connect, then close it\n"
    "  -V, --version; -h, --help\n"
    "\n"
    "Without EAL options DPDK runs without hugepages, telemetry and files.\n"
    "A daemon with nothing but loopback, UDP and packet sockets does not use DPDK's environment.\n";

/* ---- the command line ---- */

static int bad_usage(const char *option, const char *value)
{
    fprintf(stderr, "uroced: %s: bad value \"%s\"\n", option, value);
    return -1;
}

static int parse_number(const char *option, const char *value, int base, unsigned long max,
                        unsigned *out)
{
    char *end;
    unsigned long v = strtoul(value, &end, base);

    if (end == value || *end || value[0] == '-' || v > max)
        return bad_usage(option, value);
    *out = (unsigned)v;
    return 0;
}

enum {
    OPT_SOCKET = 256,
    OPT_GROUP,
    OPT_MODE,
    OPT_LOOPBACK,
    OPT_UDP,
    OPT_IDLE,
    OPT_WORKERS,
    OPT_CPUS,
    OPT_POLL,
    OPT_READY,
    OPT_SECCOMP,
    OPT_USER,
    OPT_METRICS,
    OPT_TELEMETRY,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"group", required_argument, NULL, OPT_GROUP},
    {"mode", required_argument, NULL, OPT_MODE},
    {"loopback", optional_argument, NULL, OPT_LOOPBACK},
    {"udp", optional_argument, NULL, OPT_UDP},
    {"idle-exit", required_argument, NULL, OPT_IDLE},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"cpus", required_argument, NULL, OPT_CPUS},
    {"poll", required_argument, NULL, OPT_POLL},
    {"ready-fd", required_argument, NULL, OPT_READY},
    {"seccomp", required_argument, NULL, OPT_SECCOMP},
    {"user", required_argument, NULL, OPT_USER},
    {"metrics", required_argument, NULL, OPT_METRICS},
    {"telemetry", no_argument, NULL, OPT_TELEMETRY},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int apply_option(struct options *o, int option)
{
    struct metrics_address address;
    unsigned number;

    switch (option) {
    case 'c':
        o->config = optarg;
        return 0;
    case 'h':
        fputs(usage, stdout);
        exit(output_end("uroced", 0));
    case OPT_SOCKET:
        o->socket = optarg;
        return *optarg ? 0 : bad_usage("--socket", optarg);
    case OPT_GROUP:
        o->group = optarg;
        return *optarg ? 0 : bad_usage("--group", optarg);
    case OPT_MODE:
        if (parse_number("--mode", optarg, 8, 0777, &o->mode))
            return -1;
        return o->mode ? 0 : bad_usage("--mode", optarg);
    case OPT_LOOPBACK:
    case OPT_UDP:
        o->loopback |= option == OPT_LOOPBACK;
        o->udp |= option == OPT_UDP;
        o->addresses = optarg;
        return 0;
    case OPT_IDLE:
        if (parse_number("--idle-exit", optarg, 10, 1000000, &o->idle_exit))
            return -1;
        return o->idle_exit ? 0 : bad_usage("--idle-exit", optarg);
    case OPT_WORKERS:
        if (parse_number("--workers", optarg, 10, UINT_MAX, &o->workers))
            return -1;
        if (o->workers && o->workers <= WORKERS_MAX)
            return 0;
        fprintf(stderr, "uroced: --workers takes 1 to %u\n", WORKERS_MAX);
        return -1;
    case OPT_CPUS:
        o->cpus = optarg;
        return *optarg && strlen(optarg) < sizeof(((struct uroced_config *)0)->cpus) &&
                       cpu_list_at(optarg, UINT_MAX) != CPU_LIST_BAD
                   ? 0
                   : bad_usage("--cpus", optarg);
    case OPT_POLL:
        o->poll = optarg;
        return !strcmp(optarg, "always") || !strcmp(optarg, "adaptive")
                   ? 0
                   : bad_usage("--poll", optarg);
    case OPT_READY:
        if (parse_number("--ready-fd", optarg, 10, 1 << 20, &number))
            return -1;
        o->ready_fd = (int)number;
        return 0;
    case OPT_SECCOMP:
        o->seccomp = !strcmp(optarg, "yes");
        o->no_seccomp = !strcmp(optarg, "no");
        return o->seccomp || o->no_seccomp ? 0 : bad_usage("--seccomp", optarg);
    case OPT_USER:
        o->user = optarg;
        return *optarg ? 0 : bad_usage("--user", optarg);
    case OPT_METRICS:
        o->metrics = optarg;
        if (!metrics_address_parse(&address, optarg))
            return 0;
        fprintf(stderr,
                "uroced: --metrics must be ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH, not \"%s\" "
                "(an address is a number, a path begins with /)\n",
                optarg);
        return -1;
    case OPT_TELEMETRY:
        o->telemetry = true;
        return 0;
    case 'V':
        printf("uroced %s\n", UROCE_VERSION);
        exit(output_end("uroced", 0));
    default:
        return -1;
    }
}

int options_read(struct options *o, int argc, char **argv)
{
    int option;

    *o = (struct options){.ready_fd = -1};
    while ((option = getopt_long(argc, argv, "+c:hV", long_options, NULL)) != -1) {
        if (apply_option(o, option))
            return -1;
    }
    if (optind < argc && strcmp(argv[optind - 1], "--")) {
        fprintf(stderr, "uroced: unexpected argument \"%s\" (EAL options follow --)\n",
                argv[optind]);
        return -1;
    }
    if (!!o->config + o->loopback + o->udp > 1) {
        fprintf(stderr, "uroced: --loopback, --udp and --config exclude each other\n");
        return -1;
    }
    o->eal_argc = argc - optind;
    o->eal_argv = argv + optind;
    return 0;
}

/* ---- configuration: the file, then the command line, which overrides it ---- */

static int default_socket(char *out, size_t size)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    int n;

    if (!geteuid())
        n = snprintf(out, size, "%s", CTL_SOCKET_SYSTEM);
    else if (dir && *dir)
        n = snprintf(out, size, "%s/%s", dir, CTL_SOCKET_USER);
    else
        n = -1;
    if (n < 0 || (size_t)n >= size) {
        fprintf(stderr, "uroced: no default path for the socket: use --socket PATH\n");
        return -1;
    }
    return 0;
}

/* The CPUs of the workers, each of them another one that this process may use. */
static int place_workers(struct uroced_config *c)
{
    cpu_set_t allowed, taken;

    CPU_ZERO(&taken);
    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        CPU_ZERO(&allowed);
    for (unsigned i = 0; i < c->workers; i++) {
        int cpu = c->cpu[i] = cpu_list_at(c->cpus, i);

        if (cpu < 0)
            fprintf(stderr, "uroced: cpus: \"%s\" has less than the %u of the workers\n", c->cpus,
                    c->workers);
        else if (CPU_ISSET(cpu, &taken))
            fprintf(stderr, "uroced: cpus: CPU %d is there twice\n", cpu);
        else if (!CPU_ISSET(cpu, &allowed))
            fprintf(stderr, "uroced: cpus: CPU %d cannot be used\n", cpu);
        else
            CPU_SET(cpu, &taken);
        if (cpu < 0 || CPU_COUNT(&taken) <= (int)i)
            return -1;
    }
    return 0;
}

static int configure_workers(struct uroced_config *c, const struct options *o)
{
    if (o->cpus)
        snprintf(c->cpus, sizeof(c->cpus), "%s", o->cpus);
    if (o->poll)
        c->always_poll = !strcmp(o->poll, "always");
    if (o->workers)
        c->workers = o->workers;
    if (!c->workers) /* one for each CPU of the list, or one */
        for (c->workers = 1; c->workers < WORKERS_MAX && cpu_list_at(c->cpus, c->workers) >= 0;)
            c->workers++;
    if (c->always_poll && !c->cpus[0]) {
        fprintf(stderr, "uroced: a worker that always polls needs a CPU of its own: cpus\n");
        return -1;
    }
    return c->cpus[0] ? place_workers(c) : 0;
}

/* The option, if it was given, takes the place of what the file says. */
static int override(char *text, size_t size, const char *option, const char *value)
{
    if (!value || (size_t)snprintf(text, size, "%s", value) < size)
        return 0;
    fprintf(stderr, "uroced: %s is longer than %zu characters\n", option, size - 1);
    return -1;
}

int options_configure(struct uroced_config *c, const struct options *o)
{
    char error[512];

    memset(c, 0, sizeof(*c));
    if (o->config ? config_load(c, o->config, error, sizeof(error))
        : o->udp  ? config_udp(c, o->addresses, error, sizeof(error))
                  : config_loopback(c, o->addresses, error, sizeof(error))) {
        fprintf(stderr, "uroced: %s\n", error);
        return -1;
    }
    if (override(c->socket, sizeof(c->socket), "--socket", o->socket) ||
        override(c->group, sizeof(c->group), "--group", o->group) ||
        override(c->user, sizeof(c->user), "--user", o->user) ||
        override(c->metrics, sizeof(c->metrics), "--metrics", o->metrics))
        return -1;
    if (!c->socket[0] && default_socket(c->socket, sizeof(c->socket)))
        return -1;
    if (o->mode)
        c->mode = o->mode;
    c->telemetry |= o->telemetry;
    if (socket_permissions(c) || privileges_user(c))
        return -1;
    if (configure_workers(c, o))
        return -1;
    if (o->idle_exit)
        c->idle_exit = o->idle_exit;
    if (o->seccomp || o->no_seccomp)
        c->no_seccomp = o->no_seccomp;
    else if (IS_SANITIZED) /* its reports need a process for the names of functions */
        c->no_seccomp = true;
    return 0;
}
