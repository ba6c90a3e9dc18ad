/* SPDX-License-Identifier: BSD-3-Clause */
/* See start_daemon.h. */
#include "start_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "detach.h"
#include "endpoint.h"

#define IDLE_SECONDS  "10"
#define NAME_MAX_PATH (ENDPOINT_PATH_MAX + 16)
/* ms. On an idle machine the daemon starts in a fraction of a second. */
#define READY_TIMEOUT 30000
/* ms, between two looks at a lock that another process has. */
#define LOCK_INTERVAL 20

extern char **environ;

/* What is for the program, and would be wrong for the daemon. Debian's DPDK drivers load libmlx5,
 * which loads libibverbs; with the LD_LIBRARY_PATH of `uroce run` that would be uroce's own. A
 * service manager waits for the program, and would take the daemon's messages for the program's. */
static int is_of_program(const char *variable)
{
    static const char *const names[] = {"LD_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

static void drop_variables(void)
{
    for (char **variable = environ; *variable != NULL;) {
        if (!is_of_program(*variable)) {
            variable++;
            continue;
        }
        for (char **next = variable; next[0] != NULL; next++)
            next[0] = next[1];
    }
}

static void default_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The daemon serves all of the user's programs: the limits of the one that starts it, which a
 * program can raise itself, are not for the others. */
static void raise_limits(void)
{
    static const int kinds[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA};
    struct rlimit limit;

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (getrlimit(kinds[i], &limit) != 0)
            continue;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(kinds[i], &limit);
    }
}

/* Nor are the CPUs of that program, its scheduling class and its nice value. What the kernel does
 * not allow stays as it is: a lower nice value takes a privilege. */
static void use_all_cpus(void)
{
    const struct sched_param none = {0};
    cpu_set_t all;

    memset(&all, 0xFF, sizeof(all)); /* the kernel leaves out those that there are not */
    sched_setaffinity(0, sizeof(all), &all);
    sched_setscheduler(0, SCHED_OTHER, &none);
    setpriority(PRIO_PROCESS, 0, 0);
}

/* In the daemon's process: gives up the caller's terminal, descriptors and signal handlers. Never
 * returns. */
static _Noreturn void become_daemon(const char *daemon, const char *path, const char *port, int log,
                                    int ready)
{
    const int first_free = STDERR_FILENO + 2;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char ready_text[16];

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0 ||
        (ready != first_free - 1 && dup2(ready, first_free - 1) < 0))
        _exit(126);
    fcntl(first_free - 1, F_SETFD, 0);
    close_range(first_free, ~0u, 0);
    if (chdir("/") != 0)
        _exit(126);
    default_signals();
    raise_limits();
    use_all_cpus();
    drop_variables();
    snprintf(ready_text, sizeof(ready_text), "%d", first_free - 1);
    execl(daemon, "uroced", port, "--socket", path, "--idle-exit", IDLE_SECONDS, "--ready-fd",
          ready_text, (char *)NULL);
    fprintf(stderr, "%s: %s\n", daemon, strerror(errno));
    _exit(127);
}

static void print_file(const char *name)
{
    char line[512];
    FILE *file = fopen(name, "re");

    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL)
        fprintf(stderr, "    %s", line);
    fclose(file);
}

/* The daemon writes one byte when it serves; the end of the file means that it failed. */
static int await_ready(int ready)
{
    struct pollfd fd = {.fd = ready, .events = POLLIN};
    char byte;
    int n;

    do
        n = poll(&fd, 1, READY_TIMEOUT);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return -ETIMEDOUT;
    return n > 0 && read(ready, &byte, 1) == 1 ? 0 : -ECHILD;
}

/* What the last daemon wrote, if anything: it may say why it ended. */
static void keep_old_log(const char *name)
{
    char kept[NAME_MAX_PATH + 2];
    struct stat st;

    if (lstat(name, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return;
    snprintf(kept, sizeof(kept), "%s.1", name);
    rename(name, kept); /* if not, it is lost, as the next daemon must start */
}

static int start_daemon(const char *daemon, const char *path, const char *port)
{
    char log_name[NAME_MAX_PATH];
    int ready[2] = {-1, -1};
    int log, detached, err;

    snprintf(log_name, sizeof(log_name), "%s.log", path);
    keep_old_log(log_name);
    log = open(log_name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log < 0) {
        fprintf(stderr, "uroce: %s: %s\n", log_name, strerror(errno));
        return -ECANCELED;
    }
    if (pipe2(ready, O_CLOEXEC) != 0) {
        err = -errno;
        close(log);
        return err;
    }
    detached = fork_detached(); /* the program that replaces this process expects no child */
    if (detached == 0)
        become_daemon(daemon, path, port, log, ready[1]);
    close(ready[1]);
    close(log);
    err = detached > 0 ? await_ready(ready[0]) : detached;
    close(ready[0]);
    if (detached < 0) {
        fprintf(stderr, "uroce: no process for %s: %s\n", daemon, strerror(-detached));
        return -ECANCELED;
    }
    if (err != 0) {
        fprintf(stderr, "uroce: %s %s; its output (%s):\n", daemon,
                err == -ETIMEDOUT ? "does not become ready" : "did not start", log_name);
        print_file(log_name);
        return -ECANCELED;
    }
    return 0;
}

/* The lock file is never removed: with two files two processes could hold the lock at once. */
static int open_lock(const char *path)
{
    char name[NAME_MAX_PATH];
    int lock;

    snprintf(name, sizeof(name), "%s.start", path);
    lock = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock >= 0)
        return lock;
    fprintf(stderr, "uroce: %s: %s\n", name, strerror(errno));
    return -ECANCELED;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/*
 * Waits until this process has the lock, or a daemon serves: its connection. The process that has
 * the lock may be stopped, with the daemon running or not yet started, so the wait has an end. No
 * event reports a lock within a time, or a daemon.
 */
static int lock_or_connect(int lock, const char *path)
{
    const struct timespec interval = {.tv_nsec = LOCK_INTERVAL * 1000000L};
    int64_t until = now_ms() + READY_TIMEOUT;

    do {
        int err = flock(lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        int sock = endpoint_probe(path);

        if (err == 0 || !endpoint_is_absent(sock))
            return sock;
        if (err != EWOULDBLOCK && err != EINTR)
            return -err;
        nanosleep(&interval, NULL);
    } while (now_ms() < until);
    fprintf(stderr,
            "uroce: another uroce run has been starting a daemon for %d seconds (it locks "
            "%s.start)\n",
            READY_TIMEOUT / 1000, path);
    return -ECANCELED;
}

int start_or_connect(const char *daemon, const char *path, const char *port)
{
    int sock = endpoint_probe(path);
    int lock;

    if (!endpoint_is_absent(sock))
        return sock;
    lock = open_lock(path);
    if (lock < 0)
        return lock;
    sock = lock_or_connect(lock, path);
    if (endpoint_is_absent(sock)) {
        sock = start_daemon(daemon, path, port);
        if (sock == 0)
            sock = endpoint_probe(path);
    }
    close(lock);
    return sock;
}
