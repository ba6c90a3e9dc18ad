/* SPDX-License-Identifier: BSD-3-Clause */
/* See user_ns.h. */
#include "user_ns.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cover.h"

#define FOLLOWERS 128
/* ms for the one that serves to take a connection, and to make its namespaces. */
#define LEADER_TIMEOUT 5000
/* Between bind and listen of the one that serves, connections are refused. */
#define CONNECT_ATTEMPTS 1000

static socklen_t set_address(struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* The first byte stays 0: the address is in no folder, and gone with the process. */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
           (socklen_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "uroce-sys-%u",
                               (unsigned)geteuid());
}

static int open_socket(int flags)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* ---- the one that serves ---- */

static int watch_descriptor(struct user_ns *s, int fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};

    return epoll_ctl(s->serving, EPOLL_CTL_ADD, fd, &e);
}

static void stop_serving(struct user_ns *s)
{
    if (s->address >= 0)
        close(s->address);
    if (s->serving >= 0)
        close(s->serving);
    s->address = s->serving = -1;
}

/* False: another process has the address. */
static bool begin_serving(struct user_ns *s)
{
    struct sockaddr_un a;
    socklen_t length = set_address(&a);

    s->address = open_socket(SOCK_NONBLOCK);
    s->serving = epoll_create1(EPOLL_CLOEXEC);
    if (s->address >= 0 && s->serving >= 0 &&
        bind(s->address, (const struct sockaddr *)&a, length) == 0 &&
        listen(s->address, FOLLOWERS) == 0 && watch_descriptor(s, s->address) == 0)
        return true;
    stop_serving(s);
    return false;
}

static bool is_of_user(int fd, pid_t *pid)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    *pid = peer.pid;
    return peer.uid == geteuid();
}

/* Without a free descriptor, accept4 fails even if no connection waits. The next one that starts
 * then serves, as if this one had ended; and the daemon's answers have a descriptor. */
static void accept_followers(struct user_ns *s)
{
    int fd;

    while ((fd = accept4(s->address, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pid_t pid;

        if (!is_of_user(fd, &pid) || send(fd, "", 1, MSG_NOSIGNAL) != 1 ||
            watch_descriptor(s, fd) != 0)
            close(fd);
    }
    if (errno == EAGAIN)
        return;
    close(s->address);
    s->address = -1;
}

/* ---- the others ---- */

/* 0; -EAGAIN: none serves; or -1: it takes no more connections, and may be another user's, who
 * keeps this one waiting. */
static int connect_leader(int fd)
{
    const struct timeval limit = {.tv_sec = LEADER_TIMEOUT / 1000};
    struct sockaddr_un a;
    socklen_t length = set_address(&a);

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&a, length) == 0)
        return 0;
    return errno == EAGAIN ? -1 : -EAGAIN;
}

/* Waits until the one that serves has its namespace. Returns its pidfd; -1: there is none, or it is
 * not the user's; -EAGAIN: it has ended. */
static int follow(struct user_ns *s)
{
    struct pollfd fd = {.fd = open_socket(0), .events = POLLIN};
    int n, result;
    pid_t pid = 0;
    char byte;

    if (fd.fd < 0)
        return -1;
    result = connect_leader(fd.fd);
    if (result != 0) {
        close(fd.fd);
        return result;
    }
    result = -1;
    if (is_of_user(fd.fd, &pid) && pid > 0) {
        do
            n = poll(&fd, 1, LEADER_TIMEOUT);
        while (n < 0 && errno == EINTR);
        if (n > 0)
            result = read(fd.fd, &byte, 1) == 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -EAGAIN;
    }
    if (result >= 0)
        s->leader = fd.fd;
    else
        close(fd.fd);
    return result;
}

/* 0; or a negative errno: it is not to be shared. */
static int enter_shared(int pidfd)
{
    int err = setns(pidfd, CLONE_NEWUSER) != 0 || unshare(CLONE_NEWNS) != 0 ? -errno : 0;

    close(pidfd);
    return err;
}

int user_ns_enter(struct user_ns *s)
{
    int pidfd = -EAGAIN;

    for (int i = 0; i < CONNECT_ATTEMPTS && pidfd == -EAGAIN; i++) {
        if (begin_serving(s))
            return cover_user_namespace();
        pidfd = follow(s);
        if (pidfd == -EAGAIN)
            sched_yield();
    }
    return pidfd >= 0 && enter_shared(pidfd) == 0 ? 0 : cover_user_namespace();
}

int user_ns_descriptor(const struct user_ns *s)
{
    return s->serving >= 0 ? s->serving : s->leader;
}

void user_ns_serve(struct user_ns *s)
{
    struct epoll_event e;
    int pidfd;

    if (s->serving < 0) { /* the one that served has ended */
        close(s->leader);
        s->leader = -1;
        if (!begin_serving(s)) {
            pidfd = follow(s);
            if (pidfd >= 0)
                close(pidfd);
        }
        return;
    }
    while (epoll_wait(s->serving, &e, 1, 0) == 1)
        if (e.data.fd == s->address)
            accept_followers(s);
        else
            close(e.data.fd);
}
