/* SPDX-License-Identifier: BSD-3-Clause */
/* See below.h. */
#include "below.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "encap.h"

int below_ask(int fd, const char *netdev, unsigned long request, struct ifreq *ifr)
{
    snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", netdev);
    return ioctl(fd, request, ifr);
}

bool below_name(int fd, uint32_t ifindex, char name[IF_NAMESIZE])
{
    struct ifreq ifr = {.ifr_ifindex = (int)ifindex};

    if (ioctl(fd, SIOCGIFNAME, &ifr))
        return false;
    memcpy(name, ifr.ifr_name, IF_NAMESIZE);
    return true;
}

bool below_is_up(int fd, const char *netdev)
{
    struct ifreq ifr = {0};

    return !below_ask(fd, netdev, SIOCGIFFLAGS, &ifr) &&
           (ifr.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

int below_mtu(int fd, const char *netdev, uint32_t wanted, uint32_t *mtu, uint32_t *before)
{
    struct ifreq ifr = {0};

    *before = 0;
    if (below_ask(fd, netdev, SIOCGIFMTU, &ifr))
        return -errno;
    *mtu = (uint32_t)ifr.ifr_mtu;
    if (!wanted || wanted == *mtu)
        return 0;
    *before = *mtu;
    *mtu = wanted;
    ifr.ifr_mtu = (int)wanted;
    return below_ask(fd, netdev, SIOCSIFMTU, &ifr) ? -errno : 0;
}

void below_mtu_back(int fd, const char *netdev, uint32_t before)
{
    struct ifreq ifr = {.ifr_mtu = (int)before};

    if (before)
        below_ask(fd, netdev, SIOCSIFMTU, &ifr);
}

/* Unlike the interface's flag, this mode ends with the socket, even if the process is killed. */
int below_open_groups(uint32_t ifindex)
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
void below_open_guard(int fd[2], const char *netdev, bool joined)
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
        if (joined)
            setsockopt(fd[i], IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
        if (bind(fd[i], addr[i], len[i])) {
            close(fd[i]);
            fd[i] = -1;
        }
    }
}

bool below_has_long_frames(void)
{
    struct utsname name;
    unsigned major, minor;

    return !uname(&name) && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 2));
}

int below_open_link(void)
{
    struct sockaddr_nl nl = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&nl, sizeof(nl))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ENOBUFS reports lost messages once, and the next call returns the messages that are left. */
void below_ack_link(int fd)
{
    char byte;

    while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
        ;
}

void below_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
