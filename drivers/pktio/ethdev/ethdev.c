/* SPDX-License-Identifier: BSD-3-Clause */
#include "ethdev_internal.h"

#include <errno.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define AF_PACKET_PREFIX "net_af_packet"
/* The driver's default frame of 2 KiB loses jumbo frames; these take 8 KiB. */
#define AF_PACKET_DEFAULTS ",framesz=8192,blocksz=65536,framecnt=1024"

struct opening {
    const struct pktio_ethdev_config *config;
    char device[512]; /* with defaults added */
    char name[64];    /* up to the first comma */
    char iface[256];
    bool af_packet;
    uint32_t room;
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

/* The value of key= in the device's arguments into out, or "". */
static void devarg(const char *device, const char *key, char *out, size_t size)
{
    size_t len = strlen(key);

    out[0] = 0;
    for (const char *p = strchr(device, ','); p; p = strchr(p + 1, ',')) {
        if (!strncmp(p + 1, key, len) && p[1 + len] == '=') {
            const char *value = p + len + 2;

            snprintf(out, size, "%.*s", (int)strcspn(value, ","), value);
            return;
        }
    }
}

static int read_device(struct opening *o)
{
    const char *device = o->config->device;
    char framesz[16];

    o->af_packet = !strncmp(device, AF_PACKET_PREFIX, strlen(AF_PACKET_PREFIX));
    devarg(device, "framesz", framesz, sizeof(framesz));
    snprintf(o->device, sizeof(o->device), "%s%s", device,
             o->af_packet && !framesz[0] ? AF_PACKET_DEFAULTS : "");
    snprintf(o->name, sizeof(o->name), "%.*s", (int)strcspn(device, ","), device);
    devarg(device, "iface", o->iface, sizeof(o->iface));
    /* The packet socket's driver wants mbufs that hold its whole frame. */
    devarg(o->device, "framesz", framesz, sizeof(framesz));
    o->room = ETHDEV_DATA_ROOM;
    if (o->af_packet && strtoul(framesz, NULL, 0) > o->room)
        o->room = (uint32_t)min_of(strtoul(framesz, NULL, 0), 65535ul - RTE_PKTMBUF_HEADROOM);
    if (o->af_packet && !if_nametoindex(o->iface))
        return fail(o, "%s: there is no interface \"%s\"", o->name, o->iface);
    return 0;
}

static int kernel_ioctl(const char *netdev, unsigned long request, struct ifreq *ifr)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int ret;

    if (fd < 0)
        return -1;
    snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", netdev);
    ret = ioctl(fd, request, ifr);
    close(fd);
    return ret;
}

static int probe(struct ethdev *d, struct opening *o)
{
    if (!rte_eth_dev_get_port_by_name(o->name, &d->port))
        return 0;
    if (rte_dev_probe(o->device))
        return fail(o, "%s: DPDK cannot use this device: %s", o->device, strerror(rte_errno));
    if (rte_eth_dev_get_port_by_name(o->name, &d->port))
        return fail(o, "%s: the device has no Ethernet port", o->device);
    return 0;
}

/* The kernel's MTU counts for ports on top of a kernel interface: the driver below does not know
 * it. */
static int choose_mtu(struct ethdev *d, struct opening *o)
{
    struct ifreq ifr = {.ifr_mtu = (int)o->config->mtu};
    uint32_t limit = o->room - 14 - 4;

    if (d->netdev[0] && o->config->mtu && kernel_ioctl(d->netdev, SIOCSIFMTU, &ifr))
        return fail(o, "%s: cannot set an MTU of %u: %s", d->netdev, o->config->mtu,
                    strerror(errno));
    d->mtu = o->config->mtu ? o->config->mtu : RTE_ETHER_MTU;
    if (d->netdev[0] && !kernel_ioctl(d->netdev, SIOCGIFMTU, &ifr))
        d->mtu = (uint32_t)ifr.ifr_mtu;
    d->mtu = min_of(d->mtu, limit);
    return 0;
}

/* Receive interrupts where the port has them, its MTU where it knows one; plain otherwise. */
static int configure(struct ethdev *d, struct opening *o)
{
    struct rte_eth_conf conf = {.rxmode.mtu = d->mtu, .intr_conf.rxq = 1};
    uint16_t queues = (uint16_t)d->queues;
    struct rte_eth_dev_info info;
    int ret = rte_eth_dev_info_get(d->port, &info);

    /* A driver that takes the frames of a kernel interface may not know how long they are. */
    if (!ret && d->netdev[0] && d->mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN > info.max_rx_pktlen)
        conf.rxmode.mtu = 0;
    if (!ret)
        ret = rte_eth_dev_configure(d->port, queues, queues, &conf);
    if (ret) {
        conf.intr_conf.rxq = 0;
        ret = rte_eth_dev_configure(d->port, queues, queues, &conf);
    }
    if (ret)
        return fail(o, "%s: cannot be configured with %u queues and MTU %u: %s", o->name, queues,
                    d->mtu, strerror(-ret));
    return 0;
}

static int setup_queue(struct ethdev *d, struct opening *o, unsigned i, uint16_t rx_desc,
                       uint16_t tx_desc)
{
    int socket = rte_eth_dev_socket_id(d->port);
    struct ethdev_queue *q = &d->queue[i];
    char name[RTE_MEMPOOL_NAMESIZE];
    int ret;

    snprintf(name, sizeof(name), "uroce_%u_%u", d->port, i);
    q->pool = rte_pktmbuf_pool_create(name, ETHDEV_MBUFS, ETHDEV_CACHE, 0,
                                      (uint16_t)(o->room + RTE_PKTMBUF_HEADROOM), socket);
    if (!q->pool)
        return fail(o, "%s: no memory for %u buffers of %u bytes (EAL option -m)", o->name,
                    ETHDEV_MBUFS, o->room);
    ret = rte_eth_rx_queue_setup(d->port, (uint16_t)i, rx_desc, (unsigned)socket, NULL, q->pool);
    if (!ret)
        ret = rte_eth_tx_queue_setup(d->port, (uint16_t)i, tx_desc, (unsigned)socket, NULL);
    if (ret)
        return fail(o, "%s: cannot set up queue %u: %s", o->name, i, strerror(-ret));
    return 0;
}

static int start(struct ethdev *d, struct opening *o)
{
    uint16_t rx_desc = ETHDEV_DESC, tx_desc = ETHDEV_DESC;
    struct rte_ether_addr mac;
    int ret;

    if (configure(d, o))
        return -1;
    rte_eth_dev_adjust_nb_rx_tx_desc(d->port, &rx_desc, &tx_desc);
    for (unsigned i = 0; i < d->queues; i++) {
        if (setup_queue(d, o, i, rx_desc, tx_desc))
            return -1;
    }
    ret = rte_eth_dev_start(d->port);
    if (ret)
        return fail(o, "%s: does not start: %s", o->name, strerror(-ret));
    d->started = true;
    /* Groups are told apart by their addresses, in software. Drivers without such a filter refuse.
     */
    (void)rte_eth_allmulticast_enable(d->port);
    rte_eth_macaddr_get(d->port, &mac);
    memcpy(d->mac, mac.addr_bytes, sizeof(d->mac));
    return 0;
}

static int open_port(struct ethdev *d, struct opening *o)
{
    /* First of all, see ethdev_watch_open; for the first queue, as all wake the same way. */
    if (o->af_packet)
        d->queue[0].watch_fd = ethdev_watch_open(o->iface);
    if (probe(d, o))
        return -1;
    d->ifindex = o->iface[0] ? if_nametoindex(o->iface) : 0;
    if (d->ifindex)
        snprintf(d->netdev, sizeof(d->netdev), "%.15s", o->iface);
    if (choose_mtu(d, o) || start(d, o))
        return -1;
    if (o->af_packet)
        ethdev_guard_open(d->guard_fd, d->netdev);
    for (unsigned i = 0; i < d->queues; i++) {
        if (d->queue[i].watch_fd < 0)
            d->queue[i].intr_fd = ethdev_intr_open(d->port, (uint16_t)i);
    }
    return 0;
}

static void ethdev_info(struct pktio *io, struct pktio_info *info)
{
    struct ethdev *d = ethdev_of(io);
    struct rte_eth_link link = {0};
    struct ifreq ifr = {0};

    memset(info, 0, sizeof(*info));
    memcpy(info->mac, d->mac, sizeof(info->mac));
    info->mtu = d->mtu;
    if (!rte_eth_link_get_nowait(d->port, &link)) {
        info->link_up = link.link_status == RTE_ETH_LINK_UP;
        info->speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
    }
    if (d->netdev[0] && !kernel_ioctl(d->netdev, SIOCGIFFLAGS, &ifr))
        info->link_up = (ifr.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    snprintf(info->name, sizeof(info->name), "%s", d->name);
    snprintf(info->netdev, sizeof(info->netdev), "%s", d->netdev);
    info->ifindex = d->ifindex;
}

static const struct pktio_counters *ethdev_counters(struct pktio *io, unsigned queue)
{
    return &ethdev_of(io)->queue[queue].counters;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void ethdev_close(struct pktio *io)
{
    struct ethdev *d = ethdev_of(io);

    for (unsigned i = 0; i < d->queues; i++) {
        ethdev_queue_drain(&d->queue[i]);
        close_fd(d->queue[i].watch_fd);
        ethdev_intr_close(d->port, (uint16_t)i, d->queue[i].intr_fd);
    }
    if (d->started)
        rte_eth_dev_stop(d->port);
    if (d->port != RTE_MAX_ETHPORTS)
        rte_eth_dev_close(d->port);
    for (unsigned i = 0; i < d->queues; i++)
        rte_mempool_free(d->queue[i].pool);
    close_fd(d->guard_fd[0]);
    close_fd(d->guard_fd[1]);
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
    .counters = ethdev_counters,
    .close = ethdev_close,
};

struct pktio *pktio_ethdev_open(const struct pktio_ethdev_config *config, char *error, size_t size)
{
    struct opening o = {.config = config, .error = error, .size = size};
    struct ethdev *d = calloc(1, sizeof(*d) + config->queues * sizeof(d->queue[0]));

    if (!d) {
        fail(&o, "out of memory");
        return NULL;
    }
    d->io.ops = &ethdev_ops;
    d->port = RTE_MAX_ETHPORTS;
    d->queues = config->queues;
    d->guard_fd[0] = d->guard_fd[1] = -1;
    for (unsigned i = 0; i < d->queues; i++)
        d->queue[i].watch_fd = d->queue[i].intr_fd = -1;
    if (read_device(&o) || open_port(d, &o)) {
        ethdev_close(&d->io);
        return NULL;
    }
    snprintf(d->name, sizeof(d->name), "%s", o.name);
    return &d->io;
}
