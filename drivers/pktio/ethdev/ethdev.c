/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a DPDK port: see ethdev.h. */
#include "ethdev_internal.h"

#include <errno.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "below.h"

/* Bytes of each of net_af_packet's two rings, which are in memory that cannot be swapped, and of a
 * block of a ring unless a slot is larger. */
#define PACKET_RING  (8u << 20)
#define PACKET_BLOCK 65536u
/* No frame of ours is longer than path MTU 4096 makes it, so smaller and more slots are better. */
#define PACKET_MTU_MAX ethdev_packet_slot_mtu(8192)

struct opening {
    const struct pktio_ethdev_config *config;
    char device[640]; /* with the arguments that are added here */
    char iface[256];
    uint32_t slot; /* bytes in net_af_packet's ring, 0: another driver */
    struct rte_eth_dev_info info;
    char *error;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int fail(struct opening *o, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(o->error, o->size, format, args);
    va_end(args);
    return -1;
}

/* ---- the device's name, arguments and kernel interface ---- */

/* Sets the configured MTU, and reads the MTU that the interface has then. */
static int set_and_read_mtu(struct ethdev *d, struct opening *o)
{
    uint32_t limit = d->kind->max_mtu;
    int err;

    if (limit && o->config->mtu > limit)
        return fail(o, "%s: an MTU of %u is too much for this device, which takes %u", d->name,
                    o->config->mtu, limit);
    err = below_mtu(d->kernel_fd, d->netdev, o->config->mtu, &d->mtu, &d->mtu_before);
    if (err && d->mtu_before)
        return fail(o, "%s: cannot set an MTU of %u: %s", d->netdev, d->mtu, strerror(-err));
    return err ? fail(o, "%s: %s", d->netdev, strerror(-err)) : 0;
}

/* net_af_packet's own default of 2 KiB for a frame loses jumbo frames. */
static int choose_packet_slot(struct ethdev *d, struct opening *o)
{
    char text[16];

    if (ethdev_devarg(o->device, "framesz", text, sizeof(text))) {
        o->slot = (uint32_t)min_of(strtoul(text, NULL, 0), 65536ul);
        return 0;
    }
    o->slot = ethdev_packet_slot(min_of(d->mtu, PACKET_MTU_MAX));
    ethdev_devarg_remove(o->device, "blocksz");
    ethdev_devarg_remove(o->device, "framecnt");
    if (ethdev_devarg_add(o->device, sizeof(o->device), ",framesz=%u,blocksz=%u,framecnt=%u",
                          o->slot, max_of(PACKET_BLOCK, o->slot),
                          min_of(PACKET_RING / o->slot, 2u * ETHDEV_DESC)))
        return fail(o, "%s: its arguments are too long", d->name);
    return 0;
}

static int read_kernel_interface(struct ethdev *d, struct opening *o)
{
    d->ifindex = o->iface[0] ? if_nametoindex(o->iface) : 0;
    if (!d->ifindex || strlen(o->iface) >= sizeof(d->netdev))
        return fail(o, "%s: there is no interface \"%s\"", d->name, o->iface);
    snprintf(d->netdev, sizeof(d->netdev), "%.15s", o->iface);
    if (set_and_read_mtu(d, o))
        return -1;
    return d->kind->kernel_sees ? choose_packet_slot(d, o) : 0;
}

/* Buffers that hold whole frames, for a net_memif whose memory is ours: its driver does not unlink
 * the buffers of a long frame before it reuses them for short ones. */
static int choose_memif_buffers(const struct ethdev *d, struct opening *o)
{
    uint32_t mtu = o->config->mtu ? o->config->mtu : RTE_ETHER_MTU;
    struct ethdev_sizes s = ethdev_choose_sizes(d->kind, &o->info, mtu, 0, 0, 0);
    char text[16];

    if (ethdev_devarg(o->device, "bsize", text, sizeof(text)))
        return 0;
    return ethdev_devarg_add(o->device, sizeof(o->device), ",bsize=%u", s.room);
}

static int read_device(struct ethdev *d, struct opening *o)
{
    const char *device = o->config->device;
    char text[8];

    d->kind = ethdev_kind_of(device);
    d->kernel_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(d->name, sizeof(d->name), "%.*s", (int)strcspn(device, ","), device);
    if ((size_t)snprintf(o->device, sizeof(o->device), "%s", device) >= sizeof(o->device))
        return fail(o, "%s: its arguments are too long", d->name);
    d->queues = ethdev_choose_queues(d->kind, o->device, sizeof(o->device), o->config->queues);
    if (!d->queues)
        return fail(o, "%s: its arguments are too long", d->name);
    ethdev_devarg(device, "iface", o->iface, sizeof(o->iface));
    if (d->kind->kernel_below && read_kernel_interface(d, o))
        return -1;
    if (d->kind->listens &&
        !(ethdev_devarg(device, "client", text, sizeof(text)) && text[0] == '1'))
        ethdev_remove_stale(o->iface, SOCK_STREAM);
    if (d->kind->relayed) {
        if (choose_memif_buffers(d, o))
            return fail(o, "%s: its arguments are too long", d->name);
        d->memif = ethdev_memif_open(d, o->device, sizeof(o->device), o->error, o->size);
        if (!d->memif)
            return -1;
    }
    return 0;
}

/* ---- the port ---- */

static void limit_queues(struct ethdev *d, const struct rte_eth_dev_info *info)
{
    d->queues = min_of(d->queues, min_of(info->max_rx_queues, info->max_tx_queues));
}

/* The name of a kernel's interface is what many give first. */
static int fail_probe(struct opening *o)
{
    if (if_nametoindex(o->device))
        return fail(o, "%s is an interface of the kernel: say net_af_packet0,iface=%s", o->device,
                    o->device);
    return fail(o, "%s: DPDK cannot use this device: %s", o->device, strerror(rte_errno));
}

static int probe_device(struct ethdev *d, struct opening *o)
{
    int ret;

    if (rte_eth_dev_get_port_by_name(d->name, &d->port)) {
        if (rte_dev_probe(o->device))
            return fail_probe(o);
        if (rte_eth_dev_get_port_by_name(d->name, &d->port))
            return fail(o, "%s: the device has no Ethernet port", o->device);
        d->probed = true;
    }
    ret = rte_eth_dev_info_get(d->port, &o->info);
    if (ret)
        return fail(o, "%s: %s", d->name, strerror(-ret));
    d->device = o->info.device;
    limit_queues(d, &o->info);
    return d->queues ? 0 : fail(o, "%s: has no queues", d->name);
}

static int choose_mtu(struct ethdev *d, struct opening *o)
{
    uint32_t limit = ethdev_mtu_limit(d->kind, &o->info, o->slot);

    /* A kernel interface has its MTU already, which may be longer than the limit. */
    if (!d->mtu && o->config->mtu > limit)
        return fail(o, "%s: an MTU of %u is too much for this device, which takes %u", d->name,
                    o->config->mtu, limit);
    if (!d->mtu)
        d->mtu = o->config->mtu ? o->config->mtu : RTE_ETHER_MTU;
    d->mtu = min_of(d->mtu, limit);
    return 0;
}

static int set_up_queue(struct ethdev *d, struct opening *o, unsigned i)
{
    const struct ethdev_sizes *s = &d->sizes;
    int socket = rte_eth_dev_socket_id(d->port);
    struct ethdev_queue *q = &d->queue[i];
    char name[RTE_MEMPOOL_NAMESIZE];
    int ret;

    snprintf(name, sizeof(name), "uroce_%u_%u", d->port, i);
    q->pool = rte_pktmbuf_pool_create(name, s->mbufs, ETHDEV_CACHE, 0,
                                      (uint16_t)(s->room + RTE_PKTMBUF_HEADROOM), socket);
    if (!q->pool)
        return fail(o, "%s: no memory for %u buffers of %u bytes (EAL option -m)", d->name,
                    s->mbufs, s->room);
    ret = rte_eth_rx_queue_setup(d->port, (uint16_t)i, s->rx_desc, (unsigned)socket, NULL, q->pool);
    if (!ret)
        ret = rte_eth_tx_queue_setup(d->port, (uint16_t)i, s->tx_desc, (unsigned)socket, NULL);
    if (ret)
        return fail(o, "%s: cannot set up queue %u: %s", d->name, i, strerror(-ret));
    return 0;
}

static int start_port(struct ethdev *d, struct opening *o)
{
    uint16_t rx_desc = ETHDEV_DESC, tx_desc = ETHDEV_DESC;
    struct rte_ether_addr mac;
    int ret;

    ret = ethdev_configure(d, &o->info);
    if (ret)
        return fail(o, "%s: cannot be configured with %u queues and MTU %u: %s", d->name, d->queues,
                    d->mtu, strerror(-ret));
    rte_eth_dev_adjust_nb_rx_tx_desc(d->port, &rx_desc, &tx_desc);
    d->sizes = ethdev_choose_sizes(d->kind, &o->info, d->mtu, o->slot, rx_desc, tx_desc);
    for (unsigned i = 0; i < d->queues; i++) {
        if (set_up_queue(d, o, i))
            return -1;
    }
    /* Before the link can change for the first time. */
    ethdev_link_open(d);
    ret = rte_eth_dev_start(d->port);
    if (ret)
        return fail(o, "%s: does not start: %s", d->name, strerror(-ret));
    d->started = true;
    ret = ethdev_pause(d, o->config->pause);
    if (ret)
        return fail(o, "%s: cannot set the flow control: %s", d->name,
                    ret == -ENOTSUP ? "the device has none that sends pause frames"
                                    : strerror(-ret));
    ethdev_rss_start(d);
    rte_eth_macaddr_get(d->port, &mac);
    /* net_ring has no MAC, and a zero MAC is not valid. */
    if (rte_is_zero_ether_addr(&mac))
        mac = (struct rte_ether_addr){{2, 0, 0, 0, (uint8_t)(d->port >> 8), (uint8_t)d->port}};
    memcpy(d->mac, mac.addr_bytes, sizeof(d->mac));
    return 0;
}

/* Opens the descriptors that a running port needs. All multicast frames are accepted, because the
 * engine distinguishes groups by their addresses; a driver without a multicast filter refuses the
 * call, which has no effect. */
static int finish_open(struct ethdev *d, struct opening *o)
{
    char remote[IFNAMSIZ];

    (void)rte_eth_allmulticast_enable(d->port);
    if (d->ifindex)
        d->multi_fd = below_open_groups(d->ifindex);
    if (d->kind->kernel_sees)
        below_open_guard(d->guard_fd, d->netdev, false);
    if (d->kind->kernel_peer && !ethdev_devarg(o->device, "remote", remote, sizeof(remote)) &&
        ethdev_peer_mac(d, o->info.if_index))
        return fail(o, "%s: cannot set the MAC of the kernel's end: %s", d->name, strerror(errno));
    if (d->memif) {
        int ret = ethdev_memif_start(d->memif);

        if (ret)
            return fail(o, "%s: %s", d->name, strerror(-ret));
    }
    for (unsigned i = 0; i < d->queues; i++) {
        if (d->kind->kernel_peer)
            d->queue[i].level_fd = ethdev_level_open(d->port, (uint16_t)i);
        else if (d->queue[i].watch_fd < 0)
            d->queue[i].intr_fd = ethdev_intr_open(d->port, (uint16_t)i);
    }
    return 0;
}

static int open_port(struct ethdev *d, struct opening *o)
{
    uint16_t port;

    /* A device that an EAL argument has created does not have our arguments. */
    if (!rte_eth_dev_get_port_by_name(d->name, &port) && !rte_eth_dev_info_get(port, &o->info))
        limit_queues(d, &o->info);
    /* Before the port opens its own sockets: see open_watch. */
    if (d->kind->kernel_sees)
        ethdev_watch_open(d);
    if (probe_device(d, o) || choose_mtu(d, o) || start_port(d, o))
        return -1;
    return finish_open(d, o);
}

static void ethdev_info(struct pktio *io, struct pktio_info *info)
{
    struct ethdev *d = ethdev_of(io);
    char name[IF_NAMESIZE];

    memset(info, 0, sizeof(*info));
    memcpy(info->mac, d->mac, sizeof(info->mac));
    info->mtu = d->mtu;
    info->mtu_before = d->mtu_before;
    info->queues = d->queues;
    info->link_up = ethdev_link_up(d, &info->speed_mbps);
    info->kernel_sees = d->kind->kernel_sees;
    snprintf(info->name, sizeof(info->name), "%s", d->name);
    snprintf(info->netdev, sizeof(info->netdev), "%s",
             d->netdev[0] && below_name(d->kernel_fd, d->ifindex, name) ? name : d->netdev);
    info->ifindex = d->ifindex;
    info->pause = d->pause;
}

static const struct pktio_counters *ethdev_counters(struct pktio *io, unsigned queue)
{
    return &ethdev_of(io)->queue[queue].counters;
}

static void ethdev_close(struct pktio *io)
{
    struct ethdev *d = ethdev_of(io);

    ethdev_flow_flush(d);
    for (unsigned i = 0; i < d->queues; i++) {
        ethdev_queue_drain(&d->queue[i]);
        below_close(d->queue[i].level_fd);
        below_close(d->queue[i].watch_fd);
        ethdev_intr_close(d->port, (uint16_t)i, d->queue[i].intr_fd);
    }
    if (d->memif)
        ethdev_memif_stop(d->memif);
    if (d->started)
        rte_eth_dev_stop(d->port);
    ethdev_link_close(d);
    if (d->port != RTE_MAX_ETHPORTS)
        rte_eth_dev_close(d->port);
    if (d->probed && d->device)
        rte_dev_remove(d->device);
    if (d->memif)
        ethdev_memif_close(d->memif);
    for (unsigned i = 0; i < d->queues; i++)
        rte_mempool_free(d->queue[i].pool);
    below_close(d->guard_fd[0]);
    below_close(d->guard_fd[1]);
    below_close(d->multi_fd);
    below_close(d->kernel_fd);
    free(d);
}

static const struct pktio_ops ethdev_ops = {
    .driver = "ethdev",
    .info = ethdev_info,
    .rx_burst = ethdev_rx_burst,
    .rx_release = ethdev_rx_release,
    .tx_lend = ethdev_tx_lend,
    .tx_burst = ethdev_tx_burst,
    .wake_fd = ethdev_wake_fd,
    .wake_arm = ethdev_wake_arm,
    .rss = ethdev_rss,
    .flow_add = ethdev_flow_add,
    .flow_remove = ethdev_flow_remove,
    .link_fd = ethdev_link_fd,
    .link_ack = ethdev_link_ack,
    .counters = ethdev_counters,
    .close = ethdev_close,
};

struct pktio *pktio_ethdev_open(const struct pktio_ethdev_config *config, char *error, size_t size)
{
    struct opening o = {.config = config, .error = error, .size = size};
    size_t len = sizeof(struct ethdev) + config->queues * sizeof(struct ethdev_queue);
    struct ethdev *d = aligned_alloc(alignof(struct ethdev), len);

    if (!d) {
        fail(&o, "out of memory");
        return NULL;
    }
    memset(d, 0, len);
    d->io.ops = &ethdev_ops;
    d->port = RTE_MAX_ETHPORTS;
    d->queues = config->queues;
    d->guard_fd[0] = d->guard_fd[1] = d->multi_fd = d->link_fd = d->kernel_fd = -1;
    for (unsigned i = 0; i < d->queues; i++)
        d->queue[i].level_fd = d->queue[i].watch_fd = d->queue[i].intr_fd = -1;
    if (read_device(d, &o) || open_port(d, &o)) {
        below_mtu_back(d->kernel_fd, d->netdev, d->mtu_before);
        ethdev_close(&d->io);
        return NULL;
    }
    return &d->io;
}
