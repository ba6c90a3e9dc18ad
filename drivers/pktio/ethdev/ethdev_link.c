/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a port's link is up, and how the control thread learns of changes: from the kernel for
 * ports with a kernel interface (net_tap reports link interrupts, but never calls back), from
 * DPDK's callback for drivers with link interrupts, and from the relay for net_memif. Other drivers
 * must be polled.
 */
#include "ethdev_internal.h"

#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "below.h"

bool ethdev_link_up(struct ethdev *d, uint32_t *speed_mbps)
{
    struct rte_eth_link link = {0};
    bool known = !rte_eth_link_get_nowait(d->port, &link);
    char name[IF_NAMESIZE];

    if (speed_mbps)
        *speed_mbps = known && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN ? link.link_speed : 0;
    if (d->netdev[0])
        return below_name(d->kernel_fd, d->ifindex, name) && below_is_up(d->kernel_fd, name);
    if (d->memif)
        return ethdev_memif_is_open(d->memif);
    return known && link.link_status == RTE_ETH_LINK_UP;
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
        d->link_fd = below_open_link(); /* of every interface: info() then asks for ours */
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

void ethdev_link_ack(struct pktio *io)
{
    struct ethdev *d = ethdev_of(io);
    eventfd_t count;

    if (d->link_fd < 0)
        return;
    if (ethdev_kernel_tells(d))
        below_ack_link(d->link_fd);
    else
        (void)!eventfd_read(d->link_fd, &count);
}
