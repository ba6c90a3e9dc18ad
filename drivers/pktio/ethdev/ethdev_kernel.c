/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel interface at the other end of a tap, and files of unix sockets. */
#include "ethdev_internal.h"

#include <errno.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "below.h"

/* The socket of a running process, or another kind of file, stays, and the listener's bind fails.
 */
void ethdev_remove_stale(const char *path, int type)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat st;
    int fd;

    /* A connection to another kind of file is refused too. */
    if (lstat(path, &st) || !S_ISSOCK(st.st_mode))
        return;
    if ((size_t)snprintf(un.sun_path, sizeof(un.sun_path), "%s", path) >= sizeof(un.sun_path))
        return;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (struct sockaddr *)&un, sizeof(un)) && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

/*
 * DPDK gives both ends of a tap the same MAC. Each end then treats the other's frames as its own,
 * and the two cannot communicate. Our end keeps the MAC, the kernel's end gets an adjacent one.
 */
int ethdev_peer_mac(const struct ethdev *d, uint32_t ifindex)
{
    struct ifreq ifr = {0};
    char netdev[IFNAMSIZ];

    if (!if_indextoname(ifindex, netdev))
        return -1;
    ifr.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(ifr.ifr_hwaddr.sa_data, d->mac, sizeof(d->mac));
    ifr.ifr_hwaddr.sa_data[0] |= 2;
    ifr.ifr_hwaddr.sa_data[5] ^= 1;
    return below_ask(d->kernel_fd, netdev, SIOCSIFHWADDR, &ifr);
}
