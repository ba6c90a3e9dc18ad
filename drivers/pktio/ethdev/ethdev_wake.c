/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a sleeping worker learns that frames have arrived. A port with receive interrupts has a
 * descriptor for them. net_af_packet has none, but a second packet socket can watch the kernel
 * interface below it. All other ports must be polled from time to time.
 */
#include "ethdev_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <rte_interrupts.h>
#include <rte_log.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "encap.h"

/* Defined by the headers of kernels after 6.1; older kernels ignore it. */
#define FANOUT_IGNORE_OUTGOING 0x4000
/* Jumps from instruction `at` of the filter to its last two. */
#define ACCEPT(at) (18 - 1 - (at))
#define REJECT(at) (19 - 1 - (at))

/*
 * The frames for which a worker wakes: UDP to port 4791 over IPv4 (any options) or IPv6 (no
 * extension headers), RoCEv1, and the protocols that find neighbours, groups and routes: ARP, ICMP,
 * IGMP, ICMPv6 (MLD behind a hop-by-hop header). One byte of each is kept: only its arrival
 * matters.
 */
static const struct sock_filter wake_filter[] = {
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_ETHERTYPE, ACCEPT(1), 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, ACCEPT(2), 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 6),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, ACCEPT(5), 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_HOPOPTS, ACCEPT(6), 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, REJECT(7)),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, ACCEPT(9), REJECT(9)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, REJECT(10)),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMP, ACCEPT(12), 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IGMP, ACCEPT(13), 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, REJECT(14)),
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, ACCEPT(17), REJECT(17)),
    BPF_STMT(BPF_RET | BPF_K, 1),
    BPF_STMT(BPF_RET | BPF_K, 0),
};

_Static_assert(ARRAY_SIZE(wake_filter) == 18 + 2, "ACCEPT and REJECT jump to the last two");

/*
 * The socket must be opened before the port's own: the kernel gives a frame to younger sockets
 * first, so a frame that this socket announces is already in the port's ring. A worker that is
 * awake does not read the socket: its small buffer stays full and costs the kernel almost nothing.
 */
static int open_watch(const char *netdev)
{
    struct sock_fprog prog = {.len = ARRAY_SIZE(wake_filter),
                              .filter = (struct sock_filter *)(uintptr_t)wake_filter};
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
    /* Kernels before 4.20 lack this option: our own frames then cause needless wake-ups. */
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
        bind(fd, (struct sockaddr *)&ll, sizeof(ll))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Joins a fanout group, whose sockets each get the flows that the kernel's hash gives them. A new
 * group with PACKET_FANOUT_FLAG_UNIQUEID, else the existing group `id`. */
static int join_fanout(int fd, unsigned id, unsigned flags)
{
    unsigned arg = id | (PACKET_FANOUT_HASH | FANOUT_IGNORE_OUTGOING | flags) << 16;

    return setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &arg, sizeof(arg));
}

/*
 * net_af_packet's sockets, one per queue, form such a group. Ours form a second group with as many
 * members in the same order, which get the same flows: a frame wakes the worker of its queue. If
 * that fails, every frame wakes all workers.
 */
static void join_all_fanouts(struct ethdev *d)
{
    unsigned id;
    socklen_t len = sizeof(id);

    if (join_fanout(d->queue[0].watch_fd, 0, PACKET_FANOUT_FLAG_UNIQUEID) ||
        getsockopt(d->queue[0].watch_fd, SOL_PACKET, PACKET_FANOUT, &id, &len))
        return;
    for (unsigned i = 1; i < d->queues; i++)
        join_fanout(d->queue[i].watch_fd, id & UINT16_MAX, 0);
}

void ethdev_watch_open(struct ethdev *d)
{
    for (unsigned i = 0; i < d->queues; i++)
        d->queue[i].watch_fd = open_watch(d->netdev);
    if (d->queues > 1)
        join_all_fanouts(d);
}

/*
 * net_tap's interrupt is the readiness of the kernel's queue itself, but its driver reads the queue
 * only after a signal, which may come a little later. An event that is cleared in between would be
 * lost, so this descriptor is never cleared: it is readable while there are frames.
 */
int ethdev_level_open(uint16_t port, uint16_t queue)
{
    int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue), set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) {
        close(set);
        return -1;
    }
    return set;
}

/* When the kernel's interface has been deleted its queues report nothing but that, for ever. */
static void drop_deleted(int set)
{
    struct epoll_event event;

    if (epoll_wait(set, &event, 1, 0) == 1 && !(event.events & EPOLLIN))
        epoll_ctl(set, EPOLL_CTL_DEL, event.data.fd, NULL);
}

/* A separate epoll instance: the worker can wait for it, and rte_epoll_wait on it reads what this
 * kind of interrupt requires. */
int ethdev_intr_open(uint16_t port, uint16_t queue)
{
    uint32_t log_level = rte_log_get_global_level();
    int fd = epoll_create1(EPOLL_CLOEXEC);
    int err;

    if (fd < 0)
        return -1;
    /* A port without such interrupts is expected, and DPDK must not log it as an error. */
    rte_log_set_global_level(RTE_LOG_CRIT);
    err = rte_eth_dev_rx_intr_ctl_q(port, queue, fd, RTE_INTR_EVENT_ADD, NULL);
    rte_log_set_global_level(log_level);
    if (err || rte_eth_dev_rx_intr_enable(port, queue)) {
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

    if (q->level_fd >= 0)
        return q->level_fd;
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
    if (q->level_fd >= 0) {
        drop_deleted(q->level_fd);
    } else if (q->watch_fd >= 0) {
        while (recv(q->watch_fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
            ;
    } else if (q->intr_fd >= 0) {
        while (rte_epoll_wait(q->intr_fd, &event, 1, 0) > 0)
            ;
        rte_eth_dev_rx_intr_enable(d->port, (uint16_t)queue);
    }
    return true;
}
