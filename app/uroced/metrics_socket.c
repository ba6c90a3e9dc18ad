/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_socket.h. */
#include "metrics_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

static int new_socket(const struct metrics_address *a)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

/* 0: there is no socket of this name any more, or nothing of it. */
static int remove_dead(const struct metrics_address *a)
{
    const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path;
    struct stat st;
    int fd, err;

    if (lstat(path, &st))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    fd = new_socket(a);
    if (fd < 0)
        return fd;
    err = connect(fd, (const struct sockaddr *)&a->sa, a->length) ? errno : 0;
    close(fd);
    if (err != ECONNREFUSED)
        return -EADDRINUSE;
    return unlink(path) && errno != ENOENT ? -errno : 0;
}

/* The name appears when the socket has its permissions and listens. */
static int bind_path(int fd, const struct metrics_address *a)
{
    const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path;
    struct sockaddr_un temporary = {.sun_family = AF_UNIX};
    int err = 0;

    snprintf(temporary.sun_path, sizeof(temporary.sun_path), "%.*s.%d", METRICS_PATH_MAX, path,
             (int)getpid());
    unlink(temporary.sun_path);
    if (bind(fd, (const struct sockaddr *)&temporary, sizeof(temporary)))
        return -errno;
    if (chmod(temporary.sun_path, 0600) || listen(fd, BACKLOG) || rename(temporary.sun_path, path))
        err = -errno;
    if (err)
        unlink(temporary.sun_path);
    return err;
}

/* A socket for IPv6 takes no IPv4: what is configured is what there is. */
static int bind_port(int fd, const struct metrics_address *a)
{
    const int yes = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)))
        return -errno;
    if (a->sa.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)))
        return -errno;
    if (bind(fd, (const struct sockaddr *)&a->sa, a->length) || listen(fd, BACKLOG))
        return -errno;
    return 0;
}

int metrics_socket_open(const struct metrics_address *a)
{
    bool is_path = a->sa.ss_family == AF_UNIX;
    int err = is_path ? remove_dead(a) : 0, fd;

    if (err)
        return err;
    fd = new_socket(a);
    if (fd < 0)
        return fd;
    err = is_path ? bind_path(fd, a) : bind_port(fd, a);
    if (err) {
        close(fd);
        return err;
    }
    return fd;
}

void metrics_socket_remove(const struct metrics_address *a)
{
    if (a->sa.ss_family == AF_UNIX)
        unlink(((const struct sockaddr_un *)&a->sa)->sun_path);
}
