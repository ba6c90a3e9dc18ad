/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel interfaces, below a port or at the other end of a tap, and files of unix sockets. */
#include "ethdev_internal.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "encap.h"

int ethdev_kernel_ask(const struct ethdev *d, const char *netdev, unsigned long request,
                      struct ifreq *ifr)
{
    snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", netdev);
    return ioctl(d->kernel_fd, request, ifr);
}

/* Unlike the interface's flag, this mode ends with the socket, even if the process is killed. */
int ethdev_multi_open(uint32_t ifindex)
{
    struct packet_mreq mreq = {.mr_ifindex = (int)ifindex, .mr_type = PACKET_MR_ALLMULTI};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &mreq, sizeof(mreq))) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * The kernel has the interface's addresses too, and gets the same frames. Without a socket on UDP
 * port 4791 it would answer each frame with ICMP port unreachable, which real peers may treat as an
 * error. A socket that is never read, with the smallest buffer, makes the kernel drop the frames
 * silently. A socket of another owner on that port (the kernel's rdma_rxe) has the same effect.
 */
void ethdev_guard_open(int fd[2], const char *netdev)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
    const struct sockaddr *addr[2] = {(struct sockaddr *)&v4, (struct sockaddr *)&v6};
    socklen_t len[2] = {sizeof(v4), sizeof(v6)};
    int one = 1, small = 1;

    for (int i = 0; i < 2; i++) {
        fd[i] = socket(addr[i]->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd[i] < 0)
            continue;
        setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        setsockopt(fd[i], SOL_SOCKET, SO_BINDTODEVICE, netdev, (socklen_t)strlen(netdev));
        if (i == 1)
            setsockopt(fd[i], IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        if (bind(fd[i], addr[i], len[i])) {
            close(fd[i]);
            fd[i] = -1;
        }
    }
}

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
    return ethdev_kernel_ask(d, netdev, SIOCSIFHWADDR, &ifr);
}
