/* SPDX-License-Identifier: BSD-3-Clause */
/* User and capabilities of all threads: see restrict.h. System calls are in restrict_calls.c. */
#include "restrict.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define THREADS_MAX    256
#define ANSWER_SECONDS 5

/* ---- one thread ---- */

/* Capabilities of the calling thread that are in `keep`, effective; no others. */
static int drop_capabilities(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data))
        return -errno;
    for (unsigned i = 0; i < ARRAY_SIZE(data); i++) {
        data[i].permitted &= (uint32_t)(keep >> 32 * i);
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/* Before the user changes: without this the kernel would clear all capabilities. */
static int keep_capabilities(const struct restrict_config *c)
{
    return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) ? -errno : 0;
}

/* A change of the user has left the thread what is permitted, and nothing effective. */
static int restrict_thread(const struct restrict_config *c)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -errno;
    if (c->capabilities)
        return drop_capabilities(c->keep);
    return c->change_user ? drop_capabilities(UINT64_MAX) : 0;
}

/* ---- all threads ---- */

/* What the threads execute in the signal's handler. */
static struct {
    int (*run)(const struct restrict_config *c);
    const struct restrict_config *config;
    sem_t done;
    _Atomic int err;
} step;

static void on_signal(int signal)
{
    int saved = errno, err = step.run(step.config);

    if (err)
        step.err = err;
    sem_post(&step.done);
    errno = saved;
}

static int await_answer(void)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += ANSWER_SECONDS;
    while (sem_timedwait(&step.done, &limit)) {
        if (errno != EINTR)
            return -errno;
    }
    return step.err;
}

static bool is_known(const pid_t *known, unsigned n, pid_t tid)
{
    for (unsigned i = 0; i < n; i++) {
        if (known[i] == tid)
            return true;
    }
    return false;
}

/* Signals the threads that are not known, which are then. *n: their number. */
static int signal_new_threads(pid_t known[THREADS_MAX], unsigned *n)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int err = 0;

    if (!tasks)
        return -errno;
    while (!err && (entry = readdir(tasks))) {
        pid_t tid = atoi(entry->d_name);

        if (tid <= 0 || is_known(known, *n, tid))
            continue;
        if (*n == THREADS_MAX)
            err = -E2BIG;
        else if (!syscall(SYS_tgkill, getpid(), tid, RESTRICT_SIGNAL))
            err = await_answer();
        else if (errno != ESRCH)
            err = -errno;
        if (!err)
            known[(*n)++] = tid;
    }
    closedir(tasks);
    return err;
}

/* Until a look at the list of threads shows no new one. */
static int in_other_threads(void)
{
    pid_t known[THREADS_MAX] = {(pid_t)syscall(SYS_gettid)};
    unsigned n = 1, before;
    int err;

    do {
        before = n;
        err = signal_new_threads(known, &n);
    } while (!err && n != before);
    return err;
}

static int in_all_threads(int (*run)(const struct restrict_config *c),
                          const struct restrict_config *c)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int err = run(c);

    if (err)
        return err;
    step.run = run;
    step.config = c;
    step.err = 0;
    sem_init(&step.done, 0, 0);
    sigaction(RESTRICT_SIGNAL, &act, NULL);
    err = in_other_threads();
    signal(RESTRICT_SIGNAL, SIG_IGN);
    return err;
}

/* ---- the process ---- */

/* The C library changes the user of all threads. */
static int change_user(const struct restrict_config *c)
{
    if (initgroups(c->user, c->gid) || setresgid(c->gid, c->gid, c->gid) ||
        setresuid(c->uid, c->uid, c->uid))
        return -errno;
    return 0;
}

static int fail(const char *what, int err)
{
    fprintf(stderr, "uroced: %s: %s\n", what, strerror(-err));
    return err;
}

int restrict_process(const struct restrict_config *c)
{
    int err = 0;

    if (c->change_user) {
        err = in_all_threads(keep_capabilities, c);
        if (!err)
            err = change_user(c);
        if (err)
            return fail("cannot change the user", err);
    }
    err = in_all_threads(restrict_thread, c);
    if (err)
        return fail("cannot drop capabilities", err);
    err = c->seccomp ? restrict_system_calls(c->known_calls) : 0;
    if (err == -EOPNOTSUPP || err == -ENOSYS || err == -EINVAL) {
        fail("this system has no seccomp filters: system calls are not restricted", err);
        err = 0;
    }
    return err ? fail("cannot restrict system calls (see --seccomp)", err) : 0;
}
