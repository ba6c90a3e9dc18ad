/* SPDX-License-Identifier: BSD-3-Clause */
/* See watcher.h. */
#include "watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* ms for which an answer is used: the kernel's lifespan of hardware counters. */
#define LIFESPAN 10
/* ms between questions to the daemon while a file is open; and while none is, for what has no lease
 * (GIDs). */
#define OPEN_INTERVAL 100
#define IDLE_INTERVAL 1000

/* A program that opens a file waits this long at most for a daemon that does not answer. */
#define ANSWER_SECONDS 1

static void limit_wait(int sock)
{
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};

    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static void update(struct watch *w)
{
    if (w->sock >= 0 && face_update(w->face, w->sock) != 0) {
        close(w->sock);
        w->sock = -1;
    }
    for (unsigned i = 0; w->sock < 0 && i < w->face->devices; i++)
        w->face->device[i].active = false;
    sys_tree_update(w->tree, w->face);
}

/* The next daemon on this socket. Its counters begin at 0. */
static void reconnect(struct watch *w)
{
    int sock = endpoint_probe(w->path);

    if (sock < 0)
        return;
    limit_wait(sock);
    w->sock = sock;
    w->tree->is_new = true;
}

/* ---- leases ---- */

/* False: one of the files is open, or cannot have a lease. */
static bool lease_all(struct watch *w)
{
    bool all = true;

    for (unsigned i = 0; i < w->tree->ports; i++)
        for (unsigned k = 0; k < w->tree->files; k++) {
            struct sys_file *file = &w->tree->port[i].file[k];

            if (!file->is_leased)
                file->is_leased = fcntl(file->fd, F_SETLEASE, F_WRLCK) == 0;
            all = all && file->is_leased;
        }
    return all;
}

static void release_all(struct watch *w)
{
    for (unsigned i = 0; i < w->tree->ports; i++)
        for (unsigned k = 0; k < w->tree->files; k++) {
            struct sys_file *file = &w->tree->port[i].file[k];

            if (file->is_leased)
                fcntl(file->fd, F_SETLEASE, F_UNLCK);
            file->is_leased = false;
        }
}

/* ---- the loop ---- */

/* A signal for each file that is to be opened, which stay pending as one. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool take_signal(int signals)
{
    struct signalfd_siginfo info;
    bool any = false;

    while (read(signals, &info, sizeof(info)) == sizeof(info))
        any = true;
    return any;
}

/* Sleeps. False: all processes have ended. */
static bool await(struct watch *w)
{
    struct pollfd fd[] = {{.fd = w->alive, .events = POLLIN},
                          {.fd = w->program, .events = POLLIN},
                          {.fd = w->signals, .events = POLLIN},
                          {.fd = user_ns_descriptor(&w->user_ns), .events = POLLIN}};

    if (poll(fd, sizeof(fd) / sizeof(fd[0]), w->timeout) < 0)
        return errno == EINTR;
    if (fd[0].revents != 0)
        w->alive = -1;
    if (fd[1].revents != 0)
        w->program = -1;
    if (fd[3].revents != 0)
        user_ns_serve(&w->user_ns);
    return w->alive >= 0 || w->program >= 0;
}

void watch_begin(struct watch *w)
{
    limit_wait(w->sock);
    w->signals = open_signals();
    w->timeout = lease_all(w) ? IDLE_INTERVAL : OPEN_INTERVAL;
}

void watch(struct watch *w)
{
    while (await(w)) {
        bool is_read = take_signal(w->signals);

        if (w->sock < 0)
            reconnect(w);
        /* After a reader was served, it may open many files: leases wait for the next turn. */
        if (is_read || w->timeout != LIFESPAN)
            update(w);
        if (is_read)
            release_all(w);
        if (is_read)
            w->timeout = LIFESPAN;
        else
            w->timeout = lease_all(w) ? IDLE_INTERVAL : OPEN_INTERVAL;
    }
    close(w->signals);
}
