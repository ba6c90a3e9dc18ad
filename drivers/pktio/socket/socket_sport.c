/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets that datagrams leave by. The kernel takes the source port of a datagram from its
 * socket, so each port in use needs one. They are opened when they are needed, and there are 256 at
 * most: a flow whose place has another port uses that one. Peers send to port 4791 alone.
 */
#include <errno.h>
#include <unistd.h>

#include "socket_internal.h"

#define PLACES_TRIED 4 /* each with a system call or two when no socket can be opened */

void socket_sport_init(struct socket_port *s)
{
    for (unsigned i = 0; i < SOCKET_SPORTS; i++)
        s->sport[i].fd[0] = s->sport[i].fd[1] = -1;
}

void socket_sport_fini(struct socket_port *s)
{
    for (unsigned i = 0; i < 2 * SOCKET_SPORTS; i++) {
        int fd = s->sport[i / 2].fd[i % 2];

        if (fd >= 0)
            close(fd);
    }
}

/* A socket for a port that is in use (by another program, or another daemon) is opened with one
 * that the kernel chooses. */
static int open_place(struct socket_port *s, unsigned place, uint16_t port, bool ipv4)
{
    static const union gid any;
    struct sockaddr_in6 bound = {0};
    socklen_t len = sizeof(bound);
    int fd = socket_bound(&any, ipv4, port);
    const int least = 1;

    if (fd < 0 && !s->sport[place].port)
        fd = socket_bound(&any, ipv4, 0);
    if (fd < 0)
        return fd;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
    if (getsockname(fd, (struct sockaddr *)&bound, &len)) {
        close(fd);
        return -errno;
    }
    s->sport[place].port = ntohs(bound.sin6_port); /* as in sockaddr_in */
    s->sport[place].fd[ipv4] = fd;
    return fd;
}

unsigned socket_sport_choose(struct socket_port *s, uint16_t wanted, bool ipv4)
{
    for (unsigned tried = 0; tried < PLACES_TRIED; tried++) {
        unsigned place = (wanted + tried) % SOCKET_SPORTS;
        uint16_t port = s->sport[place].port ? s->sport[place].port : wanted;

        if (s->sport[place].fd[ipv4] >= 0 || open_place(s, place, port, ipv4) >= 0)
            return place;
    }
    return SOCKET_SPORTS;
}
