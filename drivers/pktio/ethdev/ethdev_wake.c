/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an idle worker learns that frames arrived. A port with receive interrupts has a descriptor
 * for them. net_af_packet has none, but the kernel interface below it can be watched with a second
 * packet socket. Everything else must be polled from time to time.
 */
#include "ethdev_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rte_interrupts.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define UDP_ROCE       4791
#define ETHERTYPE_ROCE 0x8915

/* UDP to port 4791 over IPv4 (any options) or IPv6 (no extension headers), or RoCEv1. One byte of
 * each is kept: only its arrival matters. */
static const struct sock_filter roce_filter[] = {
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETHERTYPE_ROCE, 11, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 4),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 9),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UDP_ROCE, 6, 7),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 6),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 4),
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UDP_ROCE, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 1),
    BPF_STMT(BPF_RET | BPF_K, 0),
};

/*
 * The socket must be made before the port's own: the kernel gives a frame to the younger sockets
 * first, so a frame that this one announces is in the port's ring already. While the worker runs
 * nobody reads it: its small buffer stays full and costs the kernel next to nothing.
 */
int ethdev_watch_open(const char *netdev)
{
    struct sock_fprog prog = {.len = ARRAY_SIZE(roce_filter),
                              .filter = (struct sock_filter *)(uintptr_t)roce_filter};
    struct sockaddr_ll ll = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = (int)if_nametoindex(netdev)};
    int one = 1, small = 1;
    int fd;

    /* Protocol 0: nothing is received before the filter is in place and bind names the interface.
     */
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    /* Kernels before 4.20 have no such option: there our own frames wake us once too often. */
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
        bind(fd, (struct sockaddr *)&ll, sizeof(ll))) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * The kernel owns the interface's addresses too and sees the same frames. With nobody bound to UDP
 * port 4791 it would answer each with ICMP port unreachable, which real peers may take as an error.
 * A socket that nobody reads, with the smallest buffer, makes it drop them in silence. If somebody
 * else has the port already (the kernel's rdma_rxe), that serves as well.
 */
void ethdev_guard_open(int fd[2], const char *netdev)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(UDP_ROCE)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(UDP_ROCE)};
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

/* An epoll instance of its own: it can itself be waited for, and rte_epoll_wait on it reads
 * whatever the kind of interrupt wants read. */
int ethdev_intr_open(uint16_t port, uint16_t queue)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    int err;

    if (fd < 0)
        return -1;
    err = rte_eth_dev_rx_intr_ctl_q(port, queue, fd, RTE_INTR_EVENT_ADD, NULL);
    if (!err) {
        err = rte_eth_dev_rx_intr_enable(port, queue);
        /* Some need no enabling (net_tap: its descriptor is the kernel's queue itself). */
        if (err == -ENOTSUP)
            err = 0;
    }
    if (err) {
        close(fd);
        return -1;
    }
    return fd;
}

void ethdev_intr_close(uint16_t port, uint16_t queue, int fd)
{
    if (fd < 0)
        return;
    rte_eth_dev_rx_intr_disable(port, queue);
    rte_eth_dev_rx_intr_ctl_q(port, queue, fd, RTE_INTR_EVENT_DEL, NULL);
    close(fd);
}

int ethdev_wake_fd(struct pktio *io, unsigned queue)
{
    struct ethdev_queue *q = &ethdev_of(io)->queue[queue];

    if (q->watch_fd >= 0)
        return q->watch_fd;
    return q->intr_fd >= 0 ? q->intr_fd : PKTIO_WAKE_POLL;
}

bool ethdev_wake_arm(struct pktio *io, unsigned queue)
{
    struct ethdev *d = ethdev_of(io);
    struct ethdev_queue *q = &d->queue[queue];
    struct rte_epoll_event event;
    uint8_t byte;

    if (q->unsent_count || q->local_head != q->local_tail)
        return false;
    if (q->watch_fd >= 0) {
        while (recv(q->watch_fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
            ;
    } else if (q->intr_fd >= 0) {
        while (rte_epoll_wait(q->intr_fd, &event, 1, 0) > 0)
            ;
        rte_eth_dev_rx_intr_enable(d->port, (uint16_t)queue);
    }
    return true;
}
