/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced: the process that is an RDMA NIC for the programs on its host. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "last_incidents.h"
#include "late_report.h"
#include "machine.h"
#include "metrics_serve.h"
#include "numa_node.h"
#include "options.h"
#include "server.h"
#include "service.h"
#include "telemetry.h"
#include "uroced.h"
#include "watch.h"

#define EXIT_USAGE 2

struct daemon {
    struct uroced_config config;
    const struct env_ops *env;
    struct event_loop *loop;
    struct rnic *rnic;
    struct server *server;
    struct service service;
    struct metrics_served metrics;
    struct kernel_follow *follow[CONFIG_PORTS_MAX];
    int signal_fd, uffd_device;
    pthread_t worker[WORKERS_MAX], watch_thread;
    unsigned workers_running;
    bool watch_running;
    bool wrong_usage; /* of the environment, which only its start tells */
    struct watch *watch;
    struct late_report late_copies, late_errands; /* of two threads */
    uint64_t passes[WORKERS_MAX];                 /* of still_worker */
};

/* ---- who is waited for ---- */

static void print_late(struct late_report *r, int pid, const char *text)
{
    unsigned skipped;

    if (!late_report_names(r, pid, worker_time(), &skipped))
        return;
    fprintf(stderr, "uroced: %s\n", text);
    if (skipped)
        fprintf(stderr, "uroced: %u other processes were late, and are not named\n", skipped);
}

/* On the watch's thread. */
static void report_late(void *ctx, unsigned worker, int pid)
{
    struct daemon *d = ctx;
    char text[128];

    snprintf(text, sizeof(text),
             "the memory of process %d does not answer worker %u: its queue pairs wait", pid,
             worker);
    print_late(&d->late_copies, pid, text);
}

/* On the control thread. */
static void report_late_errand(void *ctx, int pid, unsigned uid, bool is_close)
{
    struct daemon *d = ctx;
    char text[128];

    if (pid < 0) /* a file of the daemon's own, with many pages */
        return;
    snprintf(text, sizeof(text), "%s process %d (user %u) does not answer: its requests wait",
             is_close ? "a descriptor of" : "the memory or a file of", pid, uid);
    print_late(&d->late_errands, pid, text);
}

/* A worker that has made no pass since the last time, or -1; for the watchdog. */
static int still_worker(void *ctx)
{
    struct daemon *d = ctx;
    int still = -1;

    for (unsigned i = 0; i < d->workers_running; i++)
        if (!worker_has_passed(rnic_worker(d->rnic, i), &d->passes[i]))
            still = (int)i;
    return still;
}

/* ---- starting ---- */

static bool needs_dpdk(const struct uroced_config *c)
{
    for (unsigned i = 0; i < c->ports; i++) {
        const struct uroced_port *p = &c->port[i];

        if (!port_is_loopback(p) && !port_is_socket(p) && !port_is_packet(p))
            return true;
    }
    return false;
}

/* What none but DPDK would heed. */
static int refuse_without_dpdk(struct daemon *d, const struct options *o)
{
    if (!d->config.telemetry && !o->eal_argc)
        return 0;
    if (d->config.telemetry)
        fprintf(stderr, "uroced: telemetry is DPDK's, and no port is\n");
    else
        fprintf(stderr, "uroced: \"%s\" is for DPDK's EAL, and no port is DPDK's\n",
                o->eal_argv[0]);
    d->wrong_usage = true;
    return -EINVAL;
}

static int start_env(struct daemon *d, const struct options *o, char **argv)
{
    const char *pci[CONFIG_PORTS_MAX];
    struct env_config ec = {
        .argc = o->eal_argc, .argv = o->eal_argv, .telemetry = d->config.telemetry, .pci = pci};
    bool has_dpdk = needs_dpdk(&d->config);
    int err;

    if (!has_dpdk && refuse_without_dpdk(d, o))
        return -EINVAL;

    for (unsigned i = 0; i < d->config.ports; i++) {
        if (port_is_pci(&d->config.port[i]))
            pci[ec.pci_count++] = d->config.port[i].device;
    }
    d->env = &env_posix;
    if (has_dpdk) {
        scrub_library_path(argv);
        d->env = &env_dpdk;
    }
    err = d->env->init(&ec);
    d->wrong_usage = err == -EINVAL;
    if (err)
        d->env = NULL;
    else if (has_dpdk)
        err = telemetry_open(d->config.socket);
    return err;
}

/* Signals only end the event loop. Threads that start later, also the EAL's, inherit the mask.
 * SIGXFSZ: a limit of the size of files (ulimit -f) is for memfds and captures, too. */
static int open_signals(struct daemon *d)
{
    struct sigaction hang_up;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    /* The end of its terminal, except under nohup. */
    if (!sigaction(SIGHUP, NULL, &hang_up) && hang_up.sa_handler != SIG_IGN)
        sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
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
                             .cpus = d->config.cpus[0] ? d->config.cpu : NULL,
                             .always_poll = d->config.always_poll,
                             .latency = d->config.latency,
                             .mem = &uroced_memory,
                             .version = UROCE_VERSION,
                             .quota = d->config.quota,
                             .weight = d->config.weight,
                             .weights = d->config.weights,
                             .errands = true,
                             .on_late = report_late_errand,
                             .late_ctx = d};
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

static int start_watch(struct daemon *d)
{
    struct watch_config wc = {.group = rnic_group(d->rnic),
                              .thread_start = d->env->thread_start,
                              .on_late = report_late,
                              .ctx = d};
    int err;

    if (!watch_takes_loops())
        fprintf(stderr, "uroced: threads have shadow stacks here: workers wait for memory of "
                        "programs that does not answer\n");
    d->watch = watch_create(&wc, &err);
    if (!d->watch)
        return err;
    err = d->env->thread_start(&d->watch_thread, "uroce-watch", watch_run, d->watch);
    d->watch_running = !err;
    return err;
}

static int start_threads(struct daemon *d)
{
    char name[32];
    int err = start_watch(d);

    if (!err)
        err = worker_guard_memory(rnic_group(d->rnic));
    for (unsigned i = 0; i < rnic_workers(d->rnic) && !err; i++) {
        snprintf(name, sizeof(name), "uroce-w%u", i);
        err = d->env->thread_start(&d->worker[i], name, worker_run, rnic_worker(d->rnic, i));
        if (err)
            return err;
        worker_wait_running(rnic_worker(d->rnic, i));
        d->workers_running++;
    }
    return err;
}

/*
 * As many descriptors as are allowed: a few for each program, and one for each channel; and a table
 * with room for 65,536 of them. When a table grows in a process with several threads, the kernel
 * waits for all CPUs (RCU): up to 16 ms, in which the control thread would serve no program, at
 * each power of two. This process has one thread so far.
 */
static void raise_limits(void)
{
    const rlim_t room = 65536;
    struct rlimit limit;
    int fd, last;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    fd = open("/", O_PATH | O_CLOEXEC);
    last = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, (int)min_of(limit.rlim_cur, room) - 1);
    if (last >= 0)
        close(last);
    if (fd >= 0)
        close(fd);
}

static int open_server(struct daemon *d)
{
    struct server_config sc = {.loop = d->loop,
                               .rnic = d->rnic,
                               .path = d->config.socket,
                               .mode = d->config.mode,
                               .group = d->config.group_id,
                               .idle_exit = d->config.idle_exit,
                               .stop_fd = d->signal_fd,
                               .listen_fd = service_listener()};
    int err = 0;

    if (sc.listen_fd < 0) {
        fprintf(stderr,
                "uroced: the service manager's socket: %s (ListenSequentialPacket= is one)\n",
                strerror(-sc.listen_fd));
        return sc.listen_fd;
    }
    d->server = server_open(&sc, &err);
    /* Root without CAP_CHOWN, as in a sandbox: the default group is dispensable. */
    if (err == -EPERM && sc.group >= 0 && !d->config.group[0]) {
        fprintf(stderr, "uroced: the socket is root's alone: without CAP_CHOWN it cannot have the "
                        "group uroce\n");
        sc.group = -1;
        d->server = server_open(&sc, &err);
    }
    if (err)
        fprintf(stderr, "uroced: %s: %s\n", d->config.socket,
                err == -EADDRINUSE ? "another uroced serves there"
                : err == -EEXIST   ? "exists and is not a socket"
                : err == -EPERM    ? "the socket cannot have this group (CAP_CHOWN)"
                                   : strerror(-err));
    return err;
}

/* Where programs connect, and what they find; unless a program that has started the daemon waits
 * for it. */
static void print_serving(const struct uroced_config *c, const struct options *o)
{
    if (o->ready_fd >= 0)
        return;
    fprintf(stderr, "uroced: serving at %s:", c->socket);
    for (unsigned i = 0; i < c->ports; i++)
        fprintf(stderr, "%s uroce%u on %s", i ? "," : "", i, c->port[i].device);
    fprintf(stderr, "%s%s\n", c->metrics[0] ? "; metrics at " : "", c->metrics);
}

/* Where the standard descriptors are closed, files would get their numbers, and messages. */
static void open_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
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
    open_standard_descriptors(); /* it may have been one */
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
    if (err)
        return err;
    err = start_threads(d);
    if (err) {
        fprintf(stderr, "uroced: cannot start its threads: %s\n", strerror(-err));
        return err;
    }
    err = open_server(d);
    if (!err)
        err = metrics_serve(&d->metrics, &d->config, d->loop, d->rnic);
    if (err)
        return err;
    d->service.still = still_worker;
    d->service.ctx = d;
    service_open(&d->service, d->loop);
    return privileges_drop(&d->config);
}

/* In reverse order of starting; also after a start that failed halfway. */
static void stop_daemon(struct daemon *d)
{
    service_report_end(&d->service);
    metrics_serve_end(&d->metrics);
    if (d->server)
        server_close(d->server);
    if (d->server && d->config.idle_exit)
        last_incidents_keep(d->rnic, d->config.socket);
    for (unsigned i = 0; i < d->workers_running; i++) {
        worker_stop(rnic_worker(d->rnic, i));
        worker_join(rnic_worker(d->rnic, i), d->worker[i]);
    }
    if (d->watch_running) {
        watch_stop(d->watch);
        pthread_join(d->watch_thread, NULL);
    }
    watch_destroy(d->watch);
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

static bool ready_fd_is_closed(const struct options *o)
{
    if (o->ready_fd < 0 || fcntl(o->ready_fd, F_GETFD) >= 0)
        return false;
    fprintf(stderr, "uroced: --ready-fd: descriptor %d is not open\n", o->ready_fd);
    return true;
}

int main(int argc, char **argv)
{
    static struct daemon d = {
        .signal_fd = -1, .uffd_device = -1, .service = {.socket = -1, .watchdog.fd = -1}};
    struct options o;
    int err;

    if (options_read(&o, argc, argv) || ready_fd_is_closed(&o)) {
        fprintf(stderr, "Try 'uroced --help'.\n");
        return EXIT_USAGE;
    }
    open_standard_descriptors();
    if (options_configure(&d.config, &o))
        return EXIT_USAGE;
    err = start_daemon(&d, &o, argv);
    if (!err) {
        print_serving(&d.config, &o);
        report_ready(o.ready_fd);
        service_report_ready(&d.service);
        server_run(d.server);
    }
    stop_daemon(&d);
    if (d.wrong_usage)
        return EXIT_USAGE;
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
