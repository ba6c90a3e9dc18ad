/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced: the process that is an RDMA NIC for the programs on its host. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "machine.h"
#include "numa_node.h"
#include "server.h"
#include "service.h"
#include "uroced.h"

#define EXIT_USAGE 2
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

static const char usage[] =
    "usage: uroced [-c FILE | --loopback] [options] [-- EAL options]\n"
    "\n"
    "  -c, --config FILE    ports and addresses (see config/*.ini)\n"
    "      --loopback       one device that talks to itself (the default without -c)\n"
    "      --socket PATH    where programs connect (default: /run/uroce.sock for root,\n"
    "                       $XDG_RUNTIME_DIR/uroce.sock for others)\n"
    "      --group NAME     the socket's group (default for root: uroce, if it exists)\n"
    "      --mode MODE      the socket's permissions (default: 0660 for root, 0600 for others)\n"
    "      --workers N      dataplane threads (default 1), each with a queue of every port\n"
    "      --idle-exit S    end when no program has been connected for S seconds\n"
    "      --seccomp yes|no refuse system calls that the daemon does not need (default: yes)\n"
    "      --ready-fd FD    write a byte to FD when programs can connect, then close it\n"
    "      --version, --help\n"
    "\n"
    "Without EAL options DPDK runs without hugepages, telemetry and files.\n"
    "A loopback-only daemon does not use DPDK's environment at all.\n";

struct options {
    const char *config, *socket, *group;
    bool loopback;
    unsigned workers, idle_exit, mode;
    bool seccomp, no_seccomp; /* neither: as the configuration says */
    int ready_fd;
    int eal_argc;
    char **eal_argv;
};

struct daemon {
    struct uroced_config config;
    const struct env_ops *env;
    struct event_loop *loop;
    struct rnic *rnic;
    struct server *server;
    struct service service;
    struct kernel_follow *follow[CONFIG_PORTS_MAX];
    int signal_fd, uffd_device;
    pthread_t worker[WORKERS_MAX], waker;
    unsigned workers_running;
    bool waker_running;
};

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
    OPT_IDLE,
    OPT_WORKERS,
    OPT_READY,
    OPT_SECCOMP,
    OPT_VERSION,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"group", required_argument, NULL, OPT_GROUP},
    {"mode", required_argument, NULL, OPT_MODE},
    {"loopback", no_argument, NULL, OPT_LOOPBACK},
    {"idle-exit", required_argument, NULL, OPT_IDLE},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"ready-fd", required_argument, NULL, OPT_READY},
    {"seccomp", required_argument, NULL, OPT_SECCOMP},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int apply_option(struct options *o, int option)
{
    unsigned number;

    switch (option) {
    case 'c':
        o->config = optarg;
        return 0;
    case 'h':
        fputs(usage, stdout);
        exit(EXIT_SUCCESS);
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
        o->loopback = true;
        return 0;
    case OPT_IDLE:
        if (parse_number("--idle-exit", optarg, 10, 1000000, &o->idle_exit))
            return -1;
        return o->idle_exit ? 0 : bad_usage("--idle-exit", optarg);
    case OPT_WORKERS:
        if (parse_number("--workers", optarg, 10, WORKERS_MAX, &o->workers))
            return -1;
        return o->workers ? 0 : bad_usage("--workers", optarg);
    case OPT_READY:
        if (parse_number("--ready-fd", optarg, 10, 1 << 20, &number))
            return -1;
        o->ready_fd = (int)number;
        return 0;
    case OPT_SECCOMP:
        o->seccomp = !strcmp(optarg, "yes");
        o->no_seccomp = !strcmp(optarg, "no");
        return o->seccomp || o->no_seccomp ? 0 : bad_usage("--seccomp", optarg);
    case OPT_VERSION:
        printf("uroced %s\n", UROCE_VERSION);
        exit(EXIT_SUCCESS);
    default:
        return -1;
    }
}

static int read_options(struct options *o, int argc, char **argv)
{
    int option;

    *o = (struct options){.ready_fd = -1};
    while ((option = getopt_long(argc, argv, "+c:h", long_options, NULL)) != -1) {
        if (apply_option(o, option))
            return -1;
    }
    if (optind < argc && strcmp(argv[optind - 1], "--")) {
        fprintf(stderr, "uroced: unexpected argument \"%s\" (EAL options follow --)\n",
                argv[optind]);
        return -1;
    }
    if (o->config && o->loopback) {
        fprintf(stderr, "uroced: --loopback and --config exclude each other\n");
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

static int configure(struct uroced_config *c, const struct options *o)
{
    char error[512];

    memset(c, 0, sizeof(*c));
    if (!o->config) {
        config_loopback(c);
    } else if (config_load(c, o->config, error, sizeof(error))) {
        fprintf(stderr, "uroced: %s\n", error);
        return -1;
    }
    if (o->socket &&
        (size_t)snprintf(c->socket, sizeof(c->socket), "%s", o->socket) >= sizeof(c->socket)) {
        fprintf(stderr, "uroced: --socket: the path is too long\n");
        return -1;
    }
    if (!c->socket[0] && default_socket(c->socket, sizeof(c->socket)))
        return -1;
    if (o->mode)
        c->mode = o->mode;
    if (o->group)
        snprintf(c->group, sizeof(c->group), "%s", o->group);
    if (socket_permissions(c))
        return -1;
    if (o->workers)
        c->workers = o->workers;
    if (!c->workers)
        c->workers = 1;
    if (o->idle_exit)
        c->idle_exit = o->idle_exit;
    if (o->seccomp || o->no_seccomp)
        c->no_seccomp = o->no_seccomp;
    else if (IS_SANITIZED) /* its reports need a process for the names of functions */
        c->no_seccomp = true;
    return 0;
}

/* ---- starting ---- */

static bool needs_dpdk(const struct uroced_config *c)
{
    for (unsigned i = 0; i < c->ports; i++) {
        if (!port_is_loopback(&c->port[i]))
            return true;
    }
    return false;
}

static int start_env(struct daemon *d, const struct options *o, char **argv)
{
    const char *pci[CONFIG_PORTS_MAX];
    struct env_config ec = {.argc = o->eal_argc, .argv = o->eal_argv, .pci = pci};
    int err;

    for (unsigned i = 0; i < d->config.ports; i++) {
        if (port_is_pci(&d->config.port[i]))
            pci[ec.pci_count++] = d->config.port[i].device;
    }
    d->env = &env_posix;
    if (needs_dpdk(&d->config)) {
        scrub_library_path(argv);
        d->env = &env_dpdk;
    }
    err = d->env->init(&ec);
    if (err)
        d->env = NULL;
    return err;
}

/* Signals only end the event loop. Threads that start later, also the EAL's, inherit the mask. */
static int open_signals(struct daemon *d)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL))
        return -errno;
    d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return d->signal_fd < 0 ? -errno : 0;
}

/* The kernel grants descriptors; raise_limits has asked for all. */
static uint64_t descriptor_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) ? 1024 : limit.rlim_cur;
}

static int create_rnic(struct daemon *d)
{
    struct rnic_config rc = {.workers = d->config.workers,
                             .mem = &uroced_memory,
                             .version = UROCE_VERSION,
                             .quota = d->config.quota,
                             .errands = true};
    int err = 0;

    machine_limit(&rc.quota, machine_mappings(), descriptor_limit(), machine_memory());
    d->loop = event_loop_create(&err);
    if (!d->loop)
        return err;
    rc.loop = d->loop;
    if (d->config.pass_userfaultfd) {
        d->uffd_device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        if (d->uffd_device < 0) {
            fprintf(stderr, "uroced: /dev/userfaultfd: %s\n", strerror(errno));
            return -errno;
        }
        rc.uffd_device = &d->uffd_device;
    }
    d->rnic = rnic_create(&rc, &err);
    return err;
}

static int open_ports(struct daemon *d)
{
    struct port_attach_config ac = {.loop = d->loop, .rnic = d->rnic, .queues = d->config.workers};

    for (unsigned i = 0; i < d->config.ports; i++) {
        struct uroced_port *p = &d->config.port[i];
        int err;

        ac.port = p;
        ac.device = i;
        err = port_attach(&ac, &d->follow[i]);
        if (err)
            return err;
        ac.loopbacks += port_is_loopback(p);
    }
    return 0;
}

static int start_threads(struct daemon *d)
{
    struct waker *waker = rnic_waker(d->rnic);
    char name[32];
    int err = 0;

    for (unsigned i = 0; i < rnic_workers(d->rnic) && !err; i++) {
        snprintf(name, sizeof(name), "uroce-w%u", i);
        err = d->env->thread_start(&d->worker[i], name, worker_run, rnic_worker(d->rnic, i));
        if (err)
            return err;
        worker_wait_running(rnic_worker(d->rnic, i));
        d->workers_running++;
    }
    if (!waker)
        return 0;
    err = d->env->thread_start(&d->waker, "uroce-waker", waker_run, waker);
    d->waker_running = !err;
    return err;
}

/* The daemon needs up to four descriptors per program and one per channel: uses all that the system
 * allows. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_server(struct daemon *d)
{
    struct server_config sc = {.loop = d->loop,
                               .rnic = d->rnic,
                               .path = d->config.socket,
                               .mode = d->config.mode,
                               .group = d->config.group_id,
                               .idle_exit = d->config.idle_exit,
                               .stop_fd = d->signal_fd};
    int err = 0;

    d->server = server_open(&sc, &err);
    if (err)
        fprintf(stderr, "uroced: %s: %s\n", d->config.socket,
                err == -EADDRINUSE ? "another uroced serves there"
                : err == -EEXIST   ? "exists and is not a socket"
                                   : strerror(-err));
    return err;
}

static void report_ready(int fd)
{
    ssize_t n;

    if (fd < 0)
        return;
    do
        n = write(fd, "\n", 1);
    while (n < 0 && errno == EINTR);
    close(fd);
}

static int start_daemon(struct daemon *d, const struct options *o, char **argv)
{
    int err = open_signals(d);

    raise_limits();
    numa_node_bind(&d->config);
    if (!err)
        err = create_rnic(d);
    if (err) {
        fprintf(stderr, "uroced: cannot start: %s\n", strerror(-err));
        return err;
    }
    err = start_env(d, o, argv);
    if (err)
        return err;
    err = open_ports(d);
    if (!err)
        err = start_threads(d);
    if (!err)
        err = open_server(d);
    if (err)
        return err;
    service_open(&d->service, d->loop);
    return privileges_drop(&d->config);
}

/* In reverse order of starting; also after a start that failed halfway. */
static void stop_daemon(struct daemon *d)
{
    service_report_end(&d->service);
    if (d->server)
        server_close(d->server);
    if (d->waker_running) {
        waker_stop(rnic_waker(d->rnic));
        pthread_join(d->waker, NULL);
    }
    for (unsigned i = 0; i < d->workers_running; i++) {
        worker_stop(rnic_worker(d->rnic, i));
        pthread_join(d->worker[i], NULL);
    }
    for (unsigned i = 0; i < d->config.ports; i++) {
        if (d->follow[i])
            kernel_follow_stop(d->follow[i]);
    }
    if (d->rnic)
        rnic_destroy(d->rnic);
    service_close(&d->service);
    if (d->loop)
        event_loop_destroy(d->loop);
    if (d->signal_fd >= 0)
        close(d->signal_fd);
    if (d->uffd_device >= 0)
        close(d->uffd_device);
    if (d->env)
        d->env->fini();
}

int main(int argc, char **argv)
{
    static struct daemon d = {
        .signal_fd = -1, .uffd_device = -1, .service = {.socket = -1, .watchdog.fd = -1}};
    struct options o;
    int err;

    if (read_options(&o, argc, argv)) {
        fprintf(stderr, "Try 'uroced --help'.\n");
        return EXIT_USAGE;
    }
    if (configure(&d.config, &o))
        return EXIT_USAGE;
    err = start_daemon(&d, &o, argv);
    if (!err) {
        report_ready(o.ready_fd);
        service_report_ready(&d.service);
        server_run(d.server);
    }
    stop_daemon(&d);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
