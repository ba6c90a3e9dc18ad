/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a port's link is up, and how the control thread learns of changes: from the kernel for
 * ports with a kernel interface (net_tap reports link interrupts, but never calls back), from
 * DPDK's callback for drivers with link interrupts, and from the relay for net_memif. Other drivers
 * must be polled.
 */
#include "ethdev_internal.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool ethdev_link_up(struct ethdev *d, uint32_t *speed_mbps)
{
    struct rte_eth_link link = {0};
    struct ifreq ifr = {0};
    bool known = !rte_eth_link_get_nowait(d->port, &link);

    if (speed_mbps)
        *speed_mbps = known && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN ? link.link_speed : 0;
    if (d->netdev[0])
        return !ethdev_kernel_ask(d, d->netdev, SIOCGIFFLAGS, &ifr) &&
               (ifr.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    if (d->memif)
        return ethdev_memif_is_open(d->memif);
    return known && link.link_status == RTE_ETH_LINK_UP;
}

/* The socket reports changes of every interface; the reader then checks ours. */
static int open_netlink(void)
{
    struct sockaddr_nl nl = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&nl, sizeof(nl))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void ethdev_link_changed(struct ethdev *d)
{
    eventfd_write(d->link_fd, 1);
}

static int on_link_event(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
    ethdev_link_changed(arg);
    return 0;
}

void ethdev_link_open(struct ethdev *d)
{
    if (ethdev_kernel_tells(d)) {
        d->link_fd = open_netlink();
        return;
    }
    if (!d->link_events && !d->memif)
        return;
    d->link_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->link_fd >= 0 && d->link_events)
        rte_eth_dev_callback_register(d->port, RTE_ETH_EVENT_INTR_LSC, on_link_event, d);
}

void ethdev_link_close(struct ethdev *d)
{
    if (d->link_fd < 0)
        return;
    /* -EAGAIN: the callback is running. */
    while (d->link_events && rte_eth_dev_callback_unregister(d->port, RTE_ETH_EVENT_INTR_LSC,
                                                             on_link_event, d) == -EAGAIN)
        sched_yield();
    close(d->link_fd);
    d->link_fd = -1;
}

int ethdev_link_fd(struct pktio *io)
{
    return ethdev_of(io)->link_fd;
}

/* ENOBUFS reports lost messages once, and the next call returns the messages that are left. */
void ethdev_link_ack(struct pktio *io)
{
    struct ethdev *d = ethdev_of(io);
    eventfd_t count;
    char byte;

    if (d->link_fd < 0)
        return;
    if (!ethdev_kernel_tells(d)) {
        (void)!eventfd_read(d->link_fd, &count);
        return;
    }
    while (recv(d->link_fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
        ;
}
