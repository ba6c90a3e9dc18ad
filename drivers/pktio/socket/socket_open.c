/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the socket port, and says what it is: see socket.h. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "below.h"
#include "bytes.h"
#include "socket_internal.h"

#define BUFFER_WANTED (8 << 20) /* bytes; the kernel grants less to users (net.core.rmem_max) */
#define MTU_MAX       (SOCKET_ROOM - ETH_LEN - VLAN_LEN)

/* ---- sockets ---- */

static socklen_t make_sockaddr(struct sockaddr_in6 *out, const union gid *address, bool ipv4,
                               uint16_t port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)out;

    memset(out, 0, sizeof(*out));
    if (ipv4) {
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, address->raw + 12, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    out->sin6_family = AF_INET6;
    out->sin6_port = htons(port);
    memcpy(&out->sin6_addr, address->raw, sizeof(out->sin6_addr));
    return sizeof(*out);
}

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/* The kernel fragments nothing, so that it sends identification 0 (and counts on from there in the
 * segments of one datagram). */
static int set_up(int fd, bool ipv4)
{
    set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_WANTED);
    if (ipv4)
        return set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    return set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) ||
           set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) ||
           set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
}

int socket_bound(const union gid *address, bool ipv4, uint16_t port)
{
    struct sockaddr_in6 bound;
    socklen_t len = make_sockaddr(&bound, address, ipv4, port);
    int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

    if (fd < 0)
        return -errno;
    if (!set_up(fd, ipv4) && !bind(fd, (struct sockaddr *)&bound, len))
        return fd;
    err = -errno;
    close(fd);
    return err;
}

static int set_up_rx(int fd, bool ipv4)
{
    set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_WANTED);
    set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_WANTED); /* with CAP_NET_ADMIN */
    set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    set(fd, IPPROTO_UDP, UDP_GRO, 1); /* Linux 5.0; without, each packet is a datagram */
    if (ipv4)
        return set(fd, IPPROTO_IP, IP_PKTINFO, 1) || set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    /* RoCEv2 may leave out the UDP checksum (A17.3.2), also where IPv6 has it otherwise. */
    return set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1) ||
           set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) || set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
}

static int open_rx(struct socket_port *s, const union gid *address, bool ipv4)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = socket_bound(address, ipv4, ROCE_UDP_PORT);

    if (fd < 0)
        return fd;
    s->rx_ipv4[s->rx_fds] = ipv4;
    s->rx_fd[s->rx_fds++] = fd;
    return set_up_rx(fd, ipv4) || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* A host may have no IPv6. */
static int open_all_rx(struct socket_port *s)
{
    static const union gid any;
    int err = 0;

    for (unsigned i = 0; i < s->config.addresses && !err; i++)
        err = open_rx(s, &s->config.address[i], gid_is_ipv4(&s->config.address[i]));
    if (s->config.addresses)
        return err;
    err = open_rx(s, &any, true);
    if (err)
        return err;
    err = open_rx(s, &any, false);
    return err == -EAFNOSUPPORT ? 0 : err;
}

/* ---- what the port is ---- */

/* The interface whose MTU and name are the port's: that of the first address, or the one with the
 * smallest MTU that is up and leads out of the host, or lo. */
static bool is_better(const struct ifaddrs *a, uint32_t mtu, const struct pktio_info *best)
{
    bool outside = !(a->ifa_flags & IFF_LOOPBACK);

    if (!best->netdev[0])
        return true;
    if (outside != !!strcmp(best->netdev, "lo"))
        return outside;
    return mtu < best->mtu;
}

/* All of 127.0.0.0/8 is lo's, with one address. */
static bool has_ipv4(const struct ifaddrs *a, const union gid *address)
{
    uint32_t wanted, has = ((struct sockaddr_in *)a->ifa_addr)->sin_addr.s_addr, mask = UINT32_MAX;

    if (a->ifa_flags & IFF_LOOPBACK && a->ifa_netmask)
        mask = ((struct sockaddr_in *)a->ifa_netmask)->sin_addr.s_addr;
    memcpy(&wanted, address->raw + 12, sizeof(wanted));
    return gid_is_ipv4(address) && (wanted & mask) == (has & mask);
}

static bool is_wanted(const struct socket_port *s, const struct ifaddrs *a)
{
    const union gid *first = s->config.addresses ? &s->config.address[0] : NULL;

    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP))
        return false;
    if (a->ifa_addr->sa_family == AF_INET)
        return !first || has_ipv4(a, first);
    return a->ifa_addr->sa_family == AF_INET6 &&
           (!first || !memcmp(first->raw, &((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr, 16));
}

static uint32_t interface_mtu(int fd, const char *name)
{
    struct ifreq request = {0};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return ioctl(fd, SIOCGIFMTU, &request) ? 0 : (uint32_t)request.ifr_mtu;
}

/* As the interface's, so that the device has the same GUID each time, but with the
 * bit of locally assigned addresses. */
static void choose_mac(struct pktio_info *info, int fd)
{
    struct ifreq request = {0};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", info->netdev);
    if (!ioctl(fd, SIOCGIFHWADDR, &request))
        memcpy(info->mac, request.ifr_hwaddr.sa_data, sizeof(info->mac));
    info->mac[0] = (uint8_t)((info->mac[0] | 2) & ~1);
    memcpy(info->router, info->mac, sizeof(info->router));
    info->router[5] ^= 0xFF;
}

static int describe(struct socket_port *s)
{
    struct pktio_info *info = &s->info;
    struct ifaddrs *all;

    *info = (struct pktio_info){.queues = 1, .link_up = true, .routed = true};
    snprintf(info->name, sizeof(info->name), "socket");
    if (getifaddrs(&all))
        return -errno;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        uint32_t mtu = is_wanted(s, a) ? interface_mtu(s->rx_fd[0], a->ifa_name) : 0;

        if (!mtu || !is_better(a, mtu, info))
            continue;
        snprintf(info->netdev, sizeof(info->netdev), "%.*s", (int)strcspn(a->ifa_name, ":"),
                 a->ifa_name); /* of IPv4 the address's label: eth0:1 */
        info->mtu = mtu;
    }
    freeifaddrs(all);
    info->ifindex = if_nametoindex(info->netdev);
    info->mtu = min_of(s->config.mtu ? s->config.mtu : info->mtu, MTU_MAX);
    choose_mac(info, s->rx_fd[0]);
    return info->netdev[0] ? 0 : -EADDRNOTAVAIL;
}

static void socket_info(struct pktio *io, struct pktio_info *info)
{
    const struct socket_port *s = socket_port_of(io);
    char name[IF_NAMESIZE];

    *info = s->info;
    if (below_name(s->rx_fd[0], info->ifindex, name))
        snprintf(info->netdev, sizeof(info->netdev), "%s", name);
}

/* ---- bursts ---- */

/* Frames of the port to itself get at most half of the burst while datagrams wait. */
static unsigned socket_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct socket_port *s = socket_port_of(io);
    unsigned count;

    socket_tx_flush(s);
    count = frame_slots_take_local(&s->slots, f, n / 2);
    count += socket_rx_take(s, f + count, n - count);
    return count + frame_slots_take_local(&s->slots, f + count, n - count);
}

static void socket_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    frame_slots_release(&socket_port_of(io)->slots, f, n);
}

static unsigned socket_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct socket_port *s = socket_port_of(io);

    if (s->groups > FRAME_BURST / 2)
        socket_tx_flush(s);
    return s->groups > FRAME_BURST / 2 ? 0 : frame_slots_lend(&s->slots, f, n, true);
}

static void socket_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                            unsigned used)
{
    struct socket_port *s = socket_port_of(io);

    for (unsigned i = 0; i < used; i++)
        socket_tx_add(s, frame_slots_note(&s->slots, &f[i]));
    socket_rx_release(io, queue, f + used, n - used);
}

static void socket_flush(struct pktio *io, unsigned queue, bool more)
{
    struct socket_port *s = socket_port_of(io);

    s->more = more;
    socket_tx_flush(s);
}

static int socket_wake_fd(struct pktio *io, unsigned queue)
{
    return socket_port_of(io)->epoll;
}

/* The descriptor stays readable as long as the kernel has datagrams. */
static bool socket_wake_arm(struct pktio *io, unsigned queue)
{
    struct socket_port *s = socket_port_of(io);

    return !s->groups && !frame_slots_have_local(&s->slots) && s->rx.next == s->rx.count;
}

static const struct pktio_counters *socket_counters(struct pktio *io, unsigned queue)
{
    return &socket_port_of(io)->counters;
}

static void socket_close(struct pktio *io)
{
    struct socket_port *s = socket_port_of(io);

    socket_sport_fini(s);
    for (unsigned i = 0; i < s->rx_fds; i++)
        close(s->rx_fd[i]);
    if (s->epoll >= 0)
        close(s->epoll);
    socket_rx_fini(s);
    socket_send_fini(s);
    frame_slots_fini(&s->slots);
    free(s);
}

static const struct pktio_ops socket_ops = {
    .driver = "socket",
    .info = socket_info,
    .rx_burst = socket_rx_burst,
    .rx_release = socket_rx_release,
    .tx_lend = socket_tx_lend,
    .tx_burst = socket_tx_burst,
    .tx_flush = socket_flush,
    .wake_fd = socket_wake_fd,
    .wake_arm = socket_wake_arm,
    .counters = socket_counters,
    .close = socket_close,
};

/* ---- opening ---- */

static int init(struct socket_port *s)
{
    int err = frame_slots_init(&s->slots, SOCKET_ROOM);

    if (!err)
        err = socket_rx_init(s);
    if (!err)
        err = socket_send_init(s);
    if (err)
        return err;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0)
        return -errno;
    err = open_all_rx(s);
    return err ? err : describe(s);
}

struct pktio *pktio_socket_open(const struct pktio_socket_config *config, char *error, size_t size)
{
    struct socket_port *s;
    int err = -ENOMEM;

    if (config->mtu > MTU_MAX) {
        snprintf(error, size, "an MTU of %u is too much for this device, which takes %u",
                 config->mtu, (unsigned)MTU_MAX);
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (s) {
        s->io.ops = &socket_ops;
        s->config = *config;
        s->no_segments = config->no_segmentation;
        s->epoll = -1;
        socket_sport_init(s);
        err = init(s);
        if (!err)
            return &s->io;
        socket_close(&s->io);
    }
    if (err == -EADDRINUSE)
        snprintf(error, size,
                 "another program has UDP port %u: another uroced, or the kernel's "
                 "rdma_rxe",
                 ROCE_UDP_PORT);
    else
        snprintf(error, size, "UDP sockets: %s", strerror(-err));
    return NULL;
}
