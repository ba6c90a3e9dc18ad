/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the packet port, and says what it is: see packet.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "below.h"
#include "packet_internal.h"

#define BUFFER_WANTED (8 << 20) /* bytes; without CAP_NET_ADMIN the kernel grants less */
/* Defined by the headers of kernels after 6.1; older kernels ignore it. */
#define FANOUT_IGNORE_OUTGOING 0x4000
#define ROOM_UNIT              64

struct opening {
    const struct pktio_packet_config *config;
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

/* ---- sockets ---- */

/* Jumps from instruction `at` of the filter to its last two. */
#define ACCEPT(at) (14 - 1 - (at))
#define REJECT(at) (15 - 1 - (at))

/*
 * What the host sends is not for the port (PACKET_IGNORE_OUTGOING says so, too, but not to the
 * sockets of several queues, nor before Linux 4.20). A frame that is longer than the interface's
 * MTU is several packets. Of those only RoCEv2 is of use, and TCP's are many: the kernel need not
 * copy them. `longest` is the limit.
 */
static int attach_filter(int fd, uint32_t longest)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, REJECT(1), 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, longest, 0, ACCEPT(3)),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 3),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_LEN + 9),
        BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, IPV4_LEN),
        BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_LEN + 6),
        BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, IPV6_LEN),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IP_PROTO_UDP, 0, REJECT(11)),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, ETH_LEN + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 0, REJECT(13)),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {.len = ARRAY_SIZE(code), .filter = code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/* Protocol 0: nothing is received before bind, which names the interface. */
static int open_queue(struct packet_port *s, struct packet_queue *q)
{
    struct sockaddr_ll ll = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)s->ifindex};

    q->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (q->fd < 0)
        return -1;
    set(q->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set(q->fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    set(q->fd, SOL_SOCKET, SO_RCVBUF, BUFFER_WANTED);
    set(q->fd, SOL_SOCKET, SO_SNDBUF, BUFFER_WANTED);
    set(q->fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_WANTED);
    set(q->fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_WANTED);
    return set(q->fd, SOL_PACKET, PACKET_VNET_HDR, 1) ||
                   set(q->fd, SOL_PACKET, PACKET_AUXDATA, 1) ||
                   attach_filter(q->fd, s->mtu + ETH_LEN + VLAN_LEN) ||
                   bind(q->fd, (struct sockaddr *)&ll, sizeof(ll))
               ? -1
               : 0;
}

/* The sockets of the queues are a group, each with the flows that the kernel's hash gives it. */
static int join_queues(struct packet_port *s)
{
    unsigned mode = PACKET_FANOUT_HASH | FANOUT_IGNORE_OUTGOING, id = 0;
    socklen_t len = sizeof(id);

    for (unsigned i = 0; i < s->queues; i++) {
        unsigned arg = (id & UINT16_MAX) | (mode | (i ? 0 : PACKET_FANOUT_FLAG_UNIQUEID)) << 16;

        if (setsockopt(s->queue[i].fd, SOL_PACKET, PACKET_FANOUT, &arg, sizeof(arg)) ||
            (!i && getsockopt(s->queue[i].fd, SOL_PACKET, PACKET_FANOUT, &id, &len)))
            return -1;
    }
    return 0;
}

static int open_queues(struct packet_port *s, struct opening *o)
{
    uint32_t room = (uint32_t)round_up(s->mtu + ETH_LEN + 2 * VLAN_LEN, ROOM_UNIT);

    for (unsigned i = 0; i < s->queues; i++) {
        struct packet_queue *q = &s->queue[i];

        q->mtu = s->mtu;
        q->no_segments = o->config->no_segmentation || !below_has_long_frames();
        if (frame_slots_init(&q->slots, room) || packet_rx_init(q))
            return fail(o, "out of memory");
        if (open_queue(s, q))
            return fail(o, "%s: packet sockets: %s", s->netdev, strerror(errno));
    }
    if (s->queues == 1 || !join_queues(s))
        return 0;
    if (errno == EINVAL && !below_is_up(s->ask_fd, s->netdev)) /* before Linux 6.13 */
        return fail(o, "%s: is down: a port of several queues needs an interface that is up",
                    s->netdev);
    return fail(o, "%s: packet sockets of %u queues: %s", s->netdev, s->queues, strerror(errno));
}

/* ---- what the port is ---- */

static uint32_t read_speed(int fd, const char *netdev)
{
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq ifr = {.ifr_data = (void *)&command};
    uint32_t speed = 0;

    if (!below_ask(fd, netdev, SIOCETHTOOL, &ifr))
        speed = ethtool_cmd_speed(&command);
    return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

static int read_interface(struct packet_port *s, struct opening *o)
{
    struct ifreq ifr = {0};
    int err;

    s->ifindex = if_nametoindex(o->config->netdev);
    if (!s->ifindex || strlen(o->config->netdev) >= sizeof(s->netdev))
        return fail(o, "packet: there is no interface \"%s\"", o->config->netdev);
    snprintf(s->netdev, sizeof(s->netdev), "%s", o->config->netdev);
    s->ask_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s->ask_fd < 0 || below_ask(s->ask_fd, s->netdev, SIOCGIFHWADDR, &ifr))
        return fail(o, "%s: %s", s->netdev, strerror(errno));
    if (ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER)
        return fail(o, "%s: is no Ethernet interface", s->netdev);
    memcpy(s->mac, ifr.ifr_hwaddr.sa_data, sizeof(s->mac));
    err = below_mtu(s->ask_fd, s->netdev, o->config->mtu, &s->mtu, &s->mtu_before);
    if (err && s->mtu_before)
        return fail(o, "%s: cannot set an MTU of %u: %s", s->netdev, s->mtu, strerror(-err));
    if (err)
        return fail(o, "%s: %s", s->netdev, strerror(-err));
    s->mtu = min_of(s->mtu, PACKET_MTU_MAX);
    return 0;
}

static void packet_info(struct pktio *io, struct pktio_info *info)
{
    const struct packet_port *s = packet_port_of(io);
    char name[IF_NAMESIZE];
    bool exists = below_name(s->ask_fd, s->ifindex, name);

    *info = (struct pktio_info){.mtu = s->mtu,
                                .mtu_before = s->mtu_before,
                                .queues = s->queues,
                                .speed_mbps = exists ? read_speed(s->ask_fd, name) : 0,
                                .link_up = exists && below_is_up(s->ask_fd, name),
                                .kernel_sees = true,
                                .ifindex = s->ifindex};
    memcpy(info->mac, s->mac, sizeof(info->mac));
    snprintf(info->name, sizeof(info->name), "packet");
    snprintf(info->netdev, sizeof(info->netdev), "%s", exists ? name : s->netdev);
}

/* ---- bursts ---- */

/* Frames of the port to itself get at most half of the burst while others wait. */
static unsigned packet_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct packet_queue *q = &packet_port_of(io)->queue[queue];
    unsigned count;

    packet_tx_flush(q);
    count = frame_slots_take_local(&q->slots, f, n / 2);
    count += packet_rx_take(q, f + count, n - count);
    return count + frame_slots_take_local(&q->slots, f + count, n - count);
}

static void packet_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    frame_slots_release(&packet_port_of(io)->queue[queue].slots, f, n);
}

static unsigned packet_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct packet_queue *q = &packet_port_of(io)->queue[queue];

    if (q->full)
        packet_tx_flush(q);
    return q->full ? 0 : frame_slots_lend(&q->slots, f, n, false);
}

/* Members of a group on this port get a copy, like members elsewhere. */
static void keep_copy(struct packet_queue *q, uint16_t slot)
{
    uint16_t copy;

    if (!q->slots.free_count) {
        counter_inc(&q->counters.rx_overflow);
        return;
    }
    copy = frame_slots_take(&q->slots);
    memcpy(frame_slot(&q->slots, copy), frame_slot(&q->slots, slot), q->slots.len[slot]);
    q->slots.len[copy] = q->slots.len[slot];
    q->slots.omitted[copy] = false;
    counter_inc(&q->counters.local);
    frame_slots_put_local(&q->slots, copy);
}

static void packet_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                            unsigned used)
{
    struct packet_port *s = packet_port_of(io);
    struct packet_queue *q = &s->queue[queue];

    for (unsigned i = 0; i < used; i++) {
        uint16_t slot = frame_slots_note(&q->slots, &f[i]);

        if (!memcmp(f[i].data, s->mac, sizeof(s->mac))) {
            counter_inc(&q->counters.local);
            frame_slots_put_local(&q->slots, slot);
            continue;
        }
        if (f[i].data[0] & 1)
            keep_copy(q, slot);
        packet_tx_add(q, slot);
    }
    packet_rx_release(io, queue, f + used, n - used);
}

static void packet_flush(struct pktio *io, unsigned queue, bool more)
{
    struct packet_queue *q = &packet_port_of(io)->queue[queue];

    q->more = more;
    packet_tx_flush(q);
}

static int packet_wake_fd(struct pktio *io, unsigned queue)
{
    return packet_port_of(io)->queue[queue].fd;
}

/* The descriptor stays readable as long as the kernel has frames. */
static bool packet_wake_arm(struct pktio *io, unsigned queue)
{
    struct packet_queue *q = &packet_port_of(io)->queue[queue];

    return !q->groups && !frame_slots_have_local(&q->slots) && q->rx.next == q->rx.count;
}

static int packet_link_fd(struct pktio *io)
{
    return packet_port_of(io)->link_fd;
}

static void packet_link_ack(struct pktio *io)
{
    below_ack_link(packet_port_of(io)->link_fd);
}

static const struct pktio_counters *packet_counters(struct pktio *io, unsigned queue)
{
    return &packet_port_of(io)->queue[queue].counters;
}

static void packet_close(struct pktio *io)
{
    struct packet_port *s = packet_port_of(io);

    for (unsigned i = 0; i < s->queues; i++) {
        below_close(s->queue[i].fd);
        packet_rx_fini(&s->queue[i]);
        frame_slots_fini(&s->queue[i].slots);
    }
    below_close(s->link_fd);
    below_close(s->guard_fd[0]);
    below_close(s->guard_fd[1]);
    below_close(s->groups_fd);
    below_close(s->ask_fd);
    free(s);
}

static const struct pktio_ops packet_ops = {
    .driver = "packet",
    .info = packet_info,
    .rx_burst = packet_rx_burst,
    .rx_release = packet_rx_release,
    .tx_lend = packet_tx_lend,
    .tx_burst = packet_tx_burst,
    .tx_flush = packet_flush,
    .wake_fd = packet_wake_fd,
    .wake_arm = packet_wake_arm,
    .link_fd = packet_link_fd,
    .link_ack = packet_link_ack,
    .counters = packet_counters,
    .close = packet_close,
};

/* ---- opening ---- */

static struct packet_port *make_port(unsigned queues)
{
    size_t bytes = sizeof(struct packet_port) + queues * sizeof(struct packet_queue);
    struct packet_port *s =
        aligned_alloc(alignof(struct packet_port), round_up(bytes, alignof(struct packet_port)));

    if (!s)
        return NULL;
    memset(s, 0, bytes);
    s->io.ops = &packet_ops;
    s->queues = queues;
    s->ask_fd = s->groups_fd = s->guard_fd[0] = s->guard_fd[1] = s->link_fd = -1;
    for (unsigned i = 0; i < queues; i++)
        s->queue[i].fd = -1;
    return s;
}

struct pktio *pktio_packet_open(const struct pktio_packet_config *config, char *error, size_t size)
{
    struct opening o = {.config = config, .error = error, .size = size};
    struct packet_port *s = make_port(min_of(max_of(config->queues, 1u), PACKET_QUEUES_MAX));

    if (!s) {
        fail(&o, "out of memory");
        return NULL;
    }
    if (read_interface(s, &o) || open_queues(s, &o)) {
        below_mtu_back(s->ask_fd, s->netdev, s->mtu_before);
        packet_close(&s->io);
        return NULL;
    }
    s->groups_fd = below_open_groups(s->ifindex);
    below_open_guard(s->guard_fd, s->netdev, below_has_long_frames());
    s->link_fd = below_open_link();
    return &s->io;
}
