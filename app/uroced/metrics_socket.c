/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_socket.h. */
#include "metrics_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

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

int metrics_socket_open(struct metrics_address *a)
{
    int fd, err;

    if (a->sa.ss_family == AF_UNIX)
        return socket_path_listen(&a->path, ((const struct sockaddr_un *)&a->sa)->sun_path,
                                  SOCK_STREAM, 0600, -1);
    fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    err = bind_port(fd, a);
    if (!err)
        return fd;
    close(fd);
    return err;
}

void metrics_socket_remove(const struct metrics_address *a)
{
    socket_path_remove(&a->path);
}
