/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports of DPDK that need no hardware. net_ring returns the same mbufs that are put in, so that a
 * test can receive what a NIC would deliver. The kernel's interfaces are in a namespace of the
 * test's own, if it may create one.
 */
#include "descriptors.h"
#include "unit.h"

#include "ethdev_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ether.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "frame_layout.h"

static bool own_network;
static char folder[64];

/* The EAL does not free all of its memory, and never unloads its drivers. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct pktio *open_device(const char *device, uint32_t mtu)
{
    struct pktio_ethdev_config config = {.device = device, .queues = 1, .mtu = mtu};
    char error[256] = "";
    struct pktio *io = pktio_ethdev_open(&config, error, sizeof(error));

    if (!io)
        print_error("%s\n", error);
    return io;
}

static void assert_refused(const char *device, uint32_t mtu, const char *why)
{
    struct pktio_ethdev_config config = {.device = device, .queues = 1, .mtu = mtu};
    char error[256] = "";

    assert_null(pktio_ethdev_open(&config, error, sizeof(error)));
    assert_non_null(strstr(error, why));
}

/* What a device without flow control cannot do is refused, and the frames come up. */
static void test_flow_control(void **state)
{
    static const enum pktio_pause pause[] = {PKTIO_PAUSE_DEFAULT, PKTIO_PAUSE_OFF, PKTIO_PAUSE_RX,
                                             PKTIO_PAUSE_TX, PKTIO_PAUSE_BOTH};

    for (unsigned i = 0; i < ARRAY_SIZE(pause); i++) {
        struct pktio_ethdev_config config = {.device = "net_null7", .queues = 1, .pause = pause[i]};
        char error[256] = "";
        struct pktio *io = pktio_ethdev_open(&config, error, sizeof(error));
        struct pktio_info info;

        if (pause[i] == PKTIO_PAUSE_TX || pause[i] == PKTIO_PAUSE_BOTH) {
            assert_null(io);
            assert_non_null(strstr(error, "net_null7: cannot set the flow control: the device has "
                                          "none that sends pause frames"));
            continue;
        }
        assert_non_null(io);
        io->ops->info(io, &info);
        assert_int_equal(info.pause, PKTIO_PAUSE_DEFAULT);
        io->ops->close(io);
    }
}

/* Sends n frames to `to`; returns how many the port lent. */
static unsigned send_frames(struct pktio *io, const uint8_t to[6], unsigned n, uint32_t len)
{
    struct frame f;

    for (unsigned i = 0; i < n; i++) {
        if (!io->ops->tx_lend(io, 0, &f, 1))
            return i;
        assert_true(f.room >= len);
        memset(f.data, 0, len);
        memcpy(f.data, to, 6);
        f.len = len;
        io->ops->tx_burst(io, 0, &f, 1, 1);
    }
    return n;
}

static unsigned receive_all(struct pktio *io)
{
    struct frame f[FRAME_BURST];
    unsigned count = 0, n;

    while ((n = io->ops->rx_burst(io, 0, f, FRAME_BURST))) {
        io->ops->rx_release(io, 0, f, n);
        count += n;
    }
    return count;
}

static const uint8_t other[6] = {2, 0, 0, 0, 0, 0x77};

/* ---- sizes ---- */

static void test_sizes_follow_the_device(void **state)
{
    static const struct {
        const char *device;
        uint32_t mtu, slot, min_rx_bufsize, room, rings;
    } rows[] = {
        {"0000:03:00.0", 1500, 0, 0, 2048, 768},
        {"0000:03:00.0", 2026, 0, 0, 2048, 768},
        {"0000:03:00.0", 2027, 0, 0, 3072, 768},
        {"0000:03:00.0", 4200, 0, 0, 5120, 768},
        {"0000:03:00.0", 9000, 0, 0, 9216, 768},
        {"0000:03:00.0", 1500, 0, 4096, 4096, 768},
        {"net_af_packet0", 1500, 2048, 0, 2048, 0},
        {"net_af_packet0", 9000, 16384, 0, 16384, 0},
        {"net_vhost0", 1500, 0, 0, 5120, 0},
        {"net_memif3", 9000, 0, 0, 9216, 0},
        {"net_af_xdp0", 1500, 0, 0, 3584, 768},
        {"net_tap0", 1500, 0, 0, 2048, 768},
        {"net_memif3,zero-copy=yes", 9000, 0, 0, 9216, 768},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct rte_eth_dev_info info = {.min_rx_bufsize = rows[i].min_rx_bufsize};
        struct ethdev_sizes s = ethdev_choose_sizes(ethdev_kind_of(rows[i].device), &info,
                                                    rows[i].mtu, rows[i].slot, 512, 256);

        assert_int_equal(s.room, rows[i].room);
        assert_int_equal(s.rx_desc, 512);
        assert_int_equal(s.tx_desc, 256);
        assert_true(s.mbufs >= rows[i].rings + ETHDEV_LOCAL + 3 * FRAME_BURST);
        assert_true(s.mbufs < rows[i].rings + 2 * ETHDEV_LOCAL);
    }
}

/* The driver's own rings, whatever size is requested, are added. */
static void test_pool_covers_the_drivers_own_rings(void **state)
{
    struct rte_eth_dev_info info = {.default_rxportconf.ring_size = 2048,
                                    .default_txportconf.ring_size = 2048};
    struct ethdev_sizes s =
        ethdev_choose_sizes(ethdev_kind_of("net_af_xdp0"), &info, 1500, 0, 1024, 1024);

    assert_true(s.mbufs >= 2048 + 1024 + 2048 + ETHDEV_LOCAL + 3 * FRAME_BURST);
}

static void test_mtu_limits(void **state)
{
    struct rte_eth_dev_info tap = {.max_rx_pktlen = 1522, .max_mtu = UINT16_MAX};
    struct rte_eth_dev_info nic = {.max_rx_pktlen = 9618, .max_mtu = 9592};
    struct rte_eth_dev_info memif = {.max_rx_pktlen = 1518, .max_mtu = UINT16_MAX};

    assert_int_equal(ethdev_mtu_limit(ethdev_kind_of("net_tap0"), &tap, 0), 1504);
    assert_int_equal(ethdev_mtu_limit(ethdev_kind_of("0000:03:00.0"), &nic, 0), 9592);
    assert_true(ethdev_mtu_limit(ethdev_kind_of("net_memif0"), &memif, 0) >= 9600);
    /* A page, less the headers of the kernel and of an mbuf. */
    assert_int_equal(ethdev_mtu_limit(ethdev_kind_of("net_af_xdp0"), &nic, 0), 3306);
    for (uint32_t mtu = 576; mtu <= 9600; mtu++) {
        uint32_t slot = ethdev_packet_slot(mtu);

        assert_true(is_pow2(slot));
        assert_true(ethdev_packet_slot_mtu(slot) >= mtu);
    }
}

static void test_device_arguments(void **state)
{
    char device[64] = "net_x0,a=1,socket=/p,ab=2";
    char value[8];

    assert_true(ethdev_devarg(device, "a", value, sizeof(value)));
    assert_string_equal(value, "1");
    assert_false(ethdev_devarg(device, "b", value, sizeof(value)));
    ethdev_devarg_remove(device, "socket");
    ethdev_devarg_remove(device, "c");
    assert_int_equal(ethdev_devarg_add(device, sizeof(device), ",d=%d", 4), 0);
    assert_string_equal(device, "net_x0,a=1,ab=2,d=4");
    ethdev_devarg_remove(device, "d");
    assert_string_equal(device, "net_x0,a=1,ab=2");
    assert_int_equal(ethdev_devarg_add(device, 20, ",long=%d", 4), -1);
}

static void test_what_cannot_be_opened(void **state)
{
    char device[256], path[128];

    assert_refused("net_nothing0", 0, "net_nothing0: DPDK cannot use this device");
    assert_refused("net_af_packet9,iface=nosuch0", 0, "there is no interface \"nosuch0\"");
    assert_refused("net_af_xdp9", 0, "there is no interface \"\"");
    assert_refused("net_memif9,role=server,socket-abstract=no,socket=/nosuch/dir/s", 0,
                   "cannot listen on /nosuch/dir/s: No such file or directory");
    /* An existing file stays, unless it is a stale socket. */
    snprintf(path, sizeof(path), "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(device, sizeof(device), "net_memif9,role=server,socket-abstract=no,socket=%s", path);
    assert_refused(device, 0, "Address already in use");
    assert_int_equal(unlink(path), 0);
}

/* ---- the burst functions, over net_ring ---- */

/* All frames out at once: the ring full, frames refused and waiting, the port's own queue full. */
static void test_full_rings_leave_buffers(void **state)
{
    struct pktio *io = open_device("net_ring0", 0);
    struct ethdev *d;
    struct frame f[FRAME_BURST];
    unsigned sent = 0;

    assert_non_null(io);
    d = ethdev_of(io);
    assert_int_equal(send_frames(io, d->mac, ETHDEV_LOCAL - 1, 64), ETHDEV_LOCAL - 1);
    while (send_frames(io, other, 1, 64))
        sent++;
    assert_true(sent > 1000);
    assert_true(d->queue[0].unsent_count > 0);
    io->ops->tx_burst(io, 0, f, 0, 0); /* none is sent: the refused ones wait on */
    assert_true(d->queue[0].unsent_count > 0);
    /* The remaining mbufs still fill a receive ring and the frames of bursts. */
    assert_true(rte_mempool_avail_count(d->queue[0].pool) >= d->sizes.rx_desc + 2u * FRAME_BURST);
    /* No frame is lost: refused frames are sent as soon as there is room. */
    assert_int_equal(receive_all(io), ETHDEV_LOCAL - 1 + sent);
    assert_int_equal(io->ops->tx_lend(io, 0, f, FRAME_BURST), FRAME_BURST);
    io->ops->tx_burst(io, 0, f, FRAME_BURST, 0);
    assert_int_equal(rte_mempool_in_use_count(d->queue[0].pool), 0);
    assert_int_equal(counter_get(&d->queue[0].counters.tx_refused), 0);
    io->ops->close(io);
}

static struct rte_mbuf *put_mbuf(struct ethdev *d, uint64_t flags, uint16_t tci, uint32_t len)
{
    struct rte_mbuf *m = rte_pktmbuf_alloc(d->queue[0].pool);
    uint8_t *data;

    assert_non_null(m);
    data = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
    for (uint32_t i = 0; i < len; i++)
        data[i] = (uint8_t)i;
    put_be16(data + ETH_TYPE_OFF, ETHERTYPE_IPV4);
    m->ol_flags = flags;
    m->vlan_tci = tci;
    assert_int_equal(rte_eth_tx_burst(d->port, 0, &m, 1), 1);
    return m;
}

static void test_stripped_tags_are_put_back(void **state)
{
    static const uint8_t tagged[] = {0, 1,  2,  3,    4, 5,    6,    7, 8,
                                     9, 10, 11, 0x81, 0, 0xA0, 0x2A, 8, 0};
    struct pktio *io = open_device("net_ring1", 0);
    struct ethdev *d = ethdev_of(io);
    struct rte_mbuf *m;
    struct frame f[4];

    put_mbuf(d, RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED, 0xA02A, 60);
    assert_int_equal(io->ops->rx_burst(io, 0, f, 4), 1);
    assert_int_equal(f[0].len, 64);
    assert_memory_equal(f[0].data, tagged, sizeof(tagged));
    assert_int_equal(f[0].data[18], 14);
    io->ops->rx_release(io, 0, f, 1);
    /* A tag that is still in the frame's bytes is not added again. */
    put_mbuf(d, RTE_MBUF_F_RX_VLAN, 0xA02A, 60);
    assert_int_equal(io->ops->rx_burst(io, 0, f, 4), 1);
    assert_int_equal(f[0].len, 60);
    io->ops->rx_release(io, 0, f, 1);
    /* No headroom: no room for the tag. */
    m = put_mbuf(d, RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED, 1, 60);
    m->data_off = 2;
    assert_int_equal(io->ops->rx_burst(io, 0, f, 4), 0);
    assert_int_equal(counter_get(&d->queue[0].counters.rx_unusable), 1);
    assert_int_equal(rte_mempool_in_use_count(d->queue[0].pool), 0);
    io->ops->close(io);
}

static void test_bad_checksums_are_counted(void **state)
{
    static const uint64_t fine[] = {RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_IP_CKSUM_NONE,
                                    RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN, RTE_MBUF_F_RX_L4_CKSUM_BAD,
                                    RTE_MBUF_F_RX_L4_CKSUM_NONE};
    struct pktio *io = open_device("net_ring2", 0);
    struct ethdev *d = ethdev_of(io);

    for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
        put_mbuf(d, fine[i], 0, 60);
    put_mbuf(d, RTE_MBUF_F_RX_IP_CKSUM_BAD, 0, 60);
    put_mbuf(d, RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_VLAN_STRIPPED, 0, 60);
    assert_int_equal(receive_all(io), ARRAY_SIZE(fine));
    assert_int_equal(counter_get(&d->queue[0].counters.rx_bad_checksum), 2);
    assert_int_equal(counter_get(&d->queue[0].counters.rx_unusable), 0);
    assert_int_equal(rte_mempool_in_use_count(d->queue[0].pool), 0);
    io->ops->close(io);
}

static void test_segments_are_joined(void **state)
{
    struct pktio *io = open_device("net_ring3", 0);
    struct ethdev *d = ethdev_of(io);
    struct frame f[4];

    for (uint16_t first = 100;;
         first = (uint16_t)(rte_pktmbuf_data_room_size(d->queue[0].pool) - RTE_PKTMBUF_HEADROOM)) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(d->queue[0].pool),
                        *rest = rte_pktmbuf_alloc(d->queue[0].pool);

        memset(rte_pktmbuf_append(m, first), 1, first);
        memset(rte_pktmbuf_append(rest, 50), 2, 50);
        assert_int_equal(rte_pktmbuf_chain(m, rest), 0);
        assert_int_equal(rte_eth_tx_burst(d->port, 0, &m, 1), 1);
        if (first != 100)
            break;
        assert_int_equal(io->ops->rx_burst(io, 0, f, 4), 1);
        assert_int_equal(f[0].len, 150);
        assert_int_equal(f[0].data[149], 2);
        io->ops->rx_release(io, 0, f, 1);
    }
    /* Too long for one buffer. */
    assert_int_equal(receive_all(io), 0);
    assert_int_equal(counter_get(&d->queue[0].counters.rx_unusable), 1);
    assert_int_equal(rte_mempool_in_use_count(d->queue[0].pool), 0);
    io->ops->close(io);
}

/* ---- links ---- */

#define TRY_MS 250

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;

    /* net_tap works with signals. */
    do
        n = poll(&p, 1, ms);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static bool link_is(struct pktio *io, bool up)
{
    struct pktio_info info;

    io->ops->info(io, &info);
    return info.link_up == up;
}

/* Follows link_fd, as the control thread does, until the link has the expected state. */
static void await_link(struct pktio *io, bool up)
{
    int fd = io->ops->link_fd(io);

    assert_true(fd >= 0);
    while (!link_is(io, up)) {
        assert_true(readable(fd, 5000));
        io->ops->link_ack(io);
    }
}

static void set_up(const char *netdev, bool up)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq ifr = {0};

    snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", netdev);
    assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &ifr), 0);
    ifr.ifr_flags = (short)(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
    close(fd);
}

static void test_link_of_a_kernel_interface(void **state)
{
    struct pktio_info info;
    struct pktio *io;

    if (!own_network)
        skip();
    set_up("lo", false);
    io = open_device("net_af_packet0,iface=lo", 0);
    assert_non_null(io);
    io->ops->info(io, &info);
    assert_string_equal(info.netdev, "lo");
    assert_true(info.kernel_sees);
    assert_false(info.link_up);
    assert_false(readable(io->ops->link_fd(io), 0));
    for (unsigned i = 0; i < 3; i++) {
        set_up("lo", true);
        await_link(io, true);
        set_up("lo", false);
        await_link(io, false);
        io->ops->link_ack(io);
        assert_false(readable(io->ops->link_fd(io), 0));
    }
    io->ops->close(io);
}

/* A port that does not open leaves the kernel's interface as it was. */
static void test_mtu_after_all(void **state)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq ifr = {.ifr_name = "lo"};
    int before;

    if (!own_network)
        skip();
    assert_int_equal(ioctl(fd, SIOCGIFMTU, &ifr), 0);
    before = ifr.ifr_mtu;
    assert_refused("net_af_packet9,iface=lo,nosuch=1", 4200, "DPDK cannot use this device");
    assert_int_equal(ioctl(fd, SIOCGIFMTU, &ifr), 0);
    assert_int_equal(ifr.ifr_mtu, before);
    close(fd);
}

/* The kernel's interface is not below the port but opposite, and has a MAC of its own. */
static void test_tap_and_its_other_end(void **state)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq ifr = {.ifr_name = "utest0"};
    struct pktio_info info;
    struct pktio *io;

    if (!own_network || access("/dev/net/tun", R_OK | W_OK))
        skip();
    io = open_device("net_tap0,iface=utest0,mac=02:00:00:00:00:10", 0);
    assert_non_null(io);
    io->ops->info(io, &info);
    assert_string_equal(info.netdev, "");
    assert_int_equal(info.ifindex, 0);
    assert_false(info.kernel_sees);
    assert_int_equal(info.mac[5], 0x10);
    assert_int_equal(ioctl(fd, SIOCGIFHWADDR, &ifr), 0);
    assert_memory_equal(ifr.ifr_hwaddr.sa_data, "\x02\0\0\0\0\x11", 6);
    close(fd);
    set_up("utest0", false);
    await_link(io, false);
    set_up("utest0", true);
    await_link(io, true);
    io->ops->close(io);
    assert_refused("net_tap1,iface=utest1", 70000, "an MTU of 70000 is too much for this device");
}

/* Nothing more comes: a worker may sleep. */
static void test_tap_that_is_deleted(void **state)
{
    struct pktio *io;

    if (!own_network || access("/dev/net/tun", R_OK | W_OK))
        skip();
    io = open_device("net_tap2,iface=utest2,mac=02:00:00:00:00:20", 0);
    assert_non_null(io);
    assert_int_equal(system("ip link del utest2"), 0);
    assert_true(readable(io->ops->wake_fd(io, 0), TRY_MS));
    assert_true(io->ops->wake_arm(io, 0));
    assert_false(readable(io->ops->wake_fd(io, 0), 0));
    io->ops->close(io);
}

/* ---- tagged frames, from end to end ---- */

static void port_mac(struct pktio *io, uint8_t mac[6])
{
    struct pktio_info info;

    io->ops->info(io, &info);
    memcpy(mac, info.mac, 6);
}

static void fill_tagged(uint8_t *data, uint32_t len, const uint8_t to[6], const uint8_t from[6])
{
    static const uint8_t tag[] = {0x81, 0x00, 0x60, 0x2A, 0x08, 0x00};

    for (uint32_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    memcpy(data, to, 6);
    memcpy(data + 6, from, 6);
    memcpy(data + ETH_TYPE_OFF, tag, sizeof(tag));
    data[ETH_LEN + VLAN_LEN + IPV4_PROTO_OFF] =
        IPPROTO_ICMP; /* a protocol that wakes a sleeping worker */
}

#define TRIES 10

/* As a worker before it sleeps: armed, then polled once more. False: nothing woke it. */
static bool await_frames(struct pktio *io)
{
    int fd = io->ops->wake_fd(io, 0);

    if (fd != PKTIO_WAKE_POLL)
        return readable(fd, TRY_MS);
    sched_yield();
    return true;
}

/* Whether the frame comes in some time. Others are skipped, such as the kernel's to its groups. */
static bool receives(struct pktio *io, const uint8_t *data, uint32_t len)
{
    uint64_t end = rte_get_timer_cycles() + 2 * TRY_MS * rte_get_timer_hz() / 1000;
    bool found = false, armed = false, woken = true;
    struct frame f;

    while (!found && (rte_get_timer_cycles() < end || !woken)) {
        if (!io->ops->rx_burst(io, 0, &f, 1)) {
            if (!woken)
                break;
            if (armed) /* or what wakes came just now */
                woken = await_frames(io) || await_frames(io);
            armed = !armed && io->ops->wake_arm(io, 0);
            continue;
        }
        found = f.len == len && !memcmp(f.data, data, len);
        io->ops->rx_release(io, 0, &f, 1);
    }
    assert_true(woken || !found); /* what comes wakes */
    return found;
}

/* An interface that is up drops what it is to send until the kernel's work on its link is done:
 * some time later on a busy machine. */
static void send_tagged(struct pktio *from, struct pktio *to, uint32_t len)
{
    static uint8_t sent[16384];
    bool received = false;
    uint8_t mac[2][6];
    struct frame f;

    port_mac(from, mac[0]);
    port_mac(to, mac[1]);
    fill_tagged(sent, len, mac[1], mac[0]);
    for (unsigned i = 0; i < TRIES && !received; i++) {
        assert_int_equal(from->ops->tx_lend(from, 0, &f, 1), 1);
        assert_true(f.room >= len);
        memcpy(f.data, sent, len);
        f.len = len;
        from->ops->tx_burst(from, 0, &f, 1, 1);
        received = receives(to, sent, len);
    }
    assert_true(received);
}

/* Small frames, and frames of a full MTU with a tag. */
static void exchange_tagged(struct pktio *a, struct pktio *b)
{
    struct pktio_info info;
    uint32_t longest;

    a->ops->info(a, &info);
    longest = info.mtu;
    b->ops->info(b, &info);
    longest = min_of(longest, info.mtu) + 14 + 4;
    for (uint32_t len = 64;; len = longest) {
        send_tagged(a, b, len);
        send_tagged(b, a, len);
        if (len == longest)
            return;
    }
}

/* A tap, and a port of another driver on the kernel's end of it. */
static void tags_over_tap(const char *tap, const char *other_end)
{
    struct pktio *a, *b;

    if (!own_network || access("/dev/net/tun", R_OK | W_OK))
        skip();
    a = open_device(tap, 0);
    assert_non_null(a);
    b = open_device(other_end, 0);
    assert_non_null(b);
    await_link(b, true);
    exchange_tagged(a, b);
    b->ops->close(b);
    a->ops->close(a);
}

static void test_tags_over_packet_sockets(void **state)
{
    tags_over_tap("net_tap0,iface=utest2", "net_af_packet0,iface=utest2");
}

static void test_tags_over_xdp_sockets(void **state)
{
    int fd = socket(AF_XDP, SOCK_RAW, 0);

    if (fd < 0)
        skip(); /* a kernel without them */
    close(fd);
    tags_over_tap("net_tap0,iface=utest3", "net_af_xdp0,iface=utest3");
}

/* ---- ports whose other end comes and goes ---- */

/* No peer: frames are dropped and do not wait. */
static void assert_drops(struct pktio *io)
{
    const struct pktio_counters *c = io->ops->counters(io, 0);
    uint64_t before = counter_get(&c->tx_refused);

    assert_true(link_is(io, false));
    assert_int_equal(send_frames(io, other, 100, 4218), 100);
    assert_int_equal(counter_get(&c->tx_refused), before + 100);
    assert_int_equal(rte_mempool_in_use_count(ethdev_of(io)->queue[0].pool), 0);
    assert_true(io->ops->wake_arm(io, 0));
}

/* As when a process is killed. */
static void leave_socket(const char *path, int type)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    close(fd);
}

/* A virtio-user port instead of a guest, in a process of its own, as its driver does not always
 * survive being closed. Ends with its input. */
static int be_guest(const char *socket)
{
    char device[256];
    char byte;

    snprintf(device, sizeof(device), "net_virtio_user0,path=%s", socket);
    if (!open_device(device, 4200))
        return EXIT_FAILURE;
    while (read(STDIN_FILENO, &byte, sizeof(byte)) > 0)
        ;
    _exit(EXIT_SUCCESS);
}

static pid_t start_guest(const char *socket, int *input)
{
    int fd[2];
    pid_t pid;

    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid = fork();
    if (!pid) {
        dup2(fd[0], STDIN_FILENO);
        execl("/proc/self/exe", "guest", socket, NULL);
        _exit(EXIT_FAILURE);
    }
    assert_true(pid > 0);
    close(fd[0]);
    *input = fd[1];
    return pid;
}

/* While a peer connects and leaves, the driver reports a link that goes down and comes back. It has
 * seen the end of the peer once it has closed what the peer had given it. */
static void await_descriptors(struct pktio *io, unsigned descriptors)
{
    for (unsigned i = 0; open_descriptors() != descriptors; i++) {
        assert_true(i < 5000);
        (void)readable(io->ops->link_fd(io), 1);
        io->ops->link_ack(io);
    }
    await_link(io, false);
}

/* The driver calls back. */
static void test_link_of_a_guest(void **state)
{
    char device[256], socket[128];
    struct pktio *io;
    unsigned descriptors;
    int input, status;
    pid_t pid;

    snprintf(socket, sizeof(socket), "%s/v.sock", folder);
    snprintf(device, sizeof(device), "net_vhost0,iface=%s", socket);
    leave_socket(socket, SOCK_STREAM);
    io = open_device(device, 4200);
    assert_non_null(io);
    for (unsigned i = 0; i < 2; i++) {
        assert_drops(io);
        descriptors = open_descriptors();
        pid = start_guest(socket, &input);
        await_link(io, true);
        close(input);
        await_link(io, false);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        await_descriptors(io, descriptors);
    }
    io->ops->close(io);
}

static void memif_device(char out[256], const char *name, const char *role)
{
    snprintf(out, 256, "%s,role=%s,socket-abstract=no,socket=%s/m.sock", name, role, folder);
}

static void test_memif_without_peer(void **state)
{
    char device[256];
    struct pktio *io;

    memif_device(device, "net_memif0", "server");
    leave_socket(strchr(strstr(device, "socket=/"), '/'), SOCK_SEQPACKET);
    io = open_device(device, 9000);
    assert_non_null(io);
    assert_drops(io);
    io->ops->close(io);
    /* It removes its files. */
    assert_int_equal(access(strchr(strstr(device, "socket=/"), '/'), F_OK), -1);
}

/* A daemon that was killed had this process's number, and so its folder, where its socket is. */
static void test_memif_of_a_killed_daemon(void **state)
{
    char device[256], path[256];
    struct pktio *io;

    snprintf(path, sizeof(path), "%s/net_memif0", rte_eal_get_runtime_dir());
    leave_socket(path, SOCK_SEQPACKET);
    memif_device(device, "net_memif0", "server");
    io = open_device(device, 9000);
    assert_non_null(io);
    io->ops->close(io);
}

/* Sends a message with copies of the socket itself. */
static void send_with_descriptors(int fd, const uint8_t *message, size_t len, unsigned copies)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)message, .iov_len = len};
    union {
        struct cmsghdr align;
        uint8_t space[CMSG_SPACE(4 * sizeof(int))];
    } control = {.align = {.cmsg_len = CMSG_LEN(copies * sizeof(int)),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS}};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    for (unsigned i = 0; i < copies; i++)
        memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(int));
    if (copies) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(copies * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &m, MSG_NOSIGNAL), (int)len);
}

static int connect_to_memif(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s/m.sock", folder);
    assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    return fd;
}

/* The port sends a hello, perhaps a reason, and disconnects. A copy of fd may outlive it. */
static void await_refusal(int fd)
{
    uint8_t answer[256];

    shutdown(fd, SHUT_WR);
    while (recv(fd, answer, sizeof(answer), 0) > 0)
        ;
    close(fd);
}

/* Connects to the socket of memif_device and sends messages that no memif client sends. */
static void be_a_stranger(const uint8_t *message, size_t len)
{
    int fd = connect_to_memif();

    if (len)
        send_with_descriptors(fd, message, len, 0);
    await_refusal(fd);
}

static void test_strangers_at_a_memif(void **state)
{
    struct pktio *server, *client;
    uint8_t message[256] = {0};
    char device[256];

    memif_device(device, "net_memif0", "server");
    server = open_device(device, 4200);
    assert_non_null(server);
    for (unsigned i = 0; i < 20; i++) {
        be_a_stranger(NULL, 0);
        be_a_stranger(message, 1 + i * 8);
        be_a_stranger(message, sizeof(message));
        message[0] = (uint8_t)i; /* each type of message, and some unknown ones */
        be_a_stranger(message, 128);
    }
    assert_true(link_is(server, false));
    memif_device(device, "net_memif1", "client");
    client = open_device(device, 4200);
    assert_non_null(client);
    await_link(server, true);
    await_link(client, true);
    (void)receive_all(client);
    exchange_tagged(server, client);
    client->ops->close(client);
    server->ops->close(server);
}

/* Descriptors that come with messages of strangers do not stay in the process: it would run out of
 * them. A message of each type, and some unknown ones, with a descriptor or two. */
static void send_descriptors(bool introduced)
{
    static const uint8_t hello[128] = {3, 0, 0, 2}; /* of version 2.0, for the device with id 0 */

    for (unsigned type = 0; type < 12; type++)
        for (unsigned copies = 1; copies <= 2; copies++) {
            uint8_t message[128] = {(uint8_t)type, [2] = 1, [4] = 1};
            int fd = connect_to_memif();

            if (introduced)
                send_with_descriptors(fd, hello, sizeof(hello), 0);
            send_with_descriptors(fd, message, sizeof(message), copies);
            await_refusal(fd);
        }
}

static void test_descriptors_of_strangers(void **state)
{
    struct pktio *server;
    unsigned before;
    char device[256];

    memif_device(device, "net_memif0", "server");
    server = open_device(device, 4200);
    assert_non_null(server);
    before = open_descriptors();
    send_descriptors(false);
    send_descriptors(true);
    await_descriptors(server, before);
    server->ops->close(server);
}

struct hammer {
    struct pktio *io;
    _Atomic bool stop;
    pthread_t thread;
    unsigned sent, received;
};

static void *hammer(void *arg)
{
    struct hammer *h = arg;
    struct frame f[FRAME_BURST];

    while (!atomic_load(&h->stop)) {
        unsigned n = h->io->ops->tx_lend(h->io, 0, f, FRAME_BURST);

        for (unsigned i = 0; i < n; i++) {
            memcpy(f[i].data, other, 6);
            f[i].len = 4200;
        }
        if (n)
            h->io->ops->tx_burst(h->io, 0, f, n, n);
        h->sent += n;
        h->received += receive_all(h->io);
    }
    return NULL;
}

/* The port's thread works without a pause while its peer connects and disconnects as fast as it
 * can. */
static void hammer_while_leaving(struct pktio *io, struct pktio *peer, unsigned rounds)
{
    struct hammer h = {.io = io};

    assert_int_equal(pthread_create(&h.thread, NULL, hammer, &h), 0);
    for (unsigned i = 0; i < rounds; i++) {
        await_link(io, true);
        await_link(peer, true);
        for (unsigned j = 0; j < 4; j++)
            receive_all(peer);
        send_frames(peer, other, 256, 4200);
        /* The peer drops the connection; its port starts over by itself. */
        ethdev_memif_stop(ethdev_of(peer)->memif);
        await_link(io, false);
        rte_eth_dev_stop(ethdev_of(peer)->port);
        rte_eth_dev_start(ethdev_of(peer)->port);
        assert_int_equal(ethdev_memif_start(ethdev_of(peer)->memif), 0);
    }
    atomic_store(&h.stop, true);
    pthread_join(h.thread, NULL);
    assert_true(h.sent > 0 && h.received > 0);
}

static void test_memif_peer_leaves(void **state)
{
    struct pktio *server, *client;
    char device[256];

    memif_device(device, "net_memif1", "client");
    client = open_device(device, 4200); /* before there is a server */
    assert_non_null(client);
    assert_true(link_is(client, false));
    memif_device(device, "net_memif0", "server");
    server = open_device(device, 4200);
    assert_non_null(server);
    await_link(server, true);
    await_link(client, true);
    (void)receive_all(client); /* gives its buffers to the server */
    exchange_tagged(server, client);
    hammer_while_leaving(server, client, 300);
    server->ops->close(server);
    await_link(client, false);
    client->ops->close(client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_follow_the_device),
        cmocka_unit_test(test_pool_covers_the_drivers_own_rings),
        cmocka_unit_test(test_mtu_limits),
        cmocka_unit_test(test_flow_control),
        cmocka_unit_test(test_device_arguments),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_full_rings_leave_buffers),
        cmocka_unit_test(test_stripped_tags_are_put_back),
        cmocka_unit_test(test_bad_checksums_are_counted),
        cmocka_unit_test(test_segments_are_joined),
        cmocka_unit_test(test_link_of_a_kernel_interface),
        cmocka_unit_test(test_mtu_after_all),
        cmocka_unit_test(test_tap_and_its_other_end),
        cmocka_unit_test(test_tap_that_is_deleted),
        cmocka_unit_test(test_tags_over_packet_sockets),
        cmocka_unit_test(test_tags_over_xdp_sockets),
        cmocka_unit_test(test_link_of_a_guest),
        cmocka_unit_test(test_memif_without_peer),
        cmocka_unit_test(test_memif_of_a_killed_daemon),
        cmocka_unit_test(test_strangers_at_a_memif),
        cmocka_unit_test(test_descriptors_of_strangers),
        cmocka_unit_test(test_memif_peer_leaves),
    };
    struct env_config config = {0};
    int failed;

    own_network = !geteuid() && !unshare(CLONE_NEWNET);
    snprintf(folder, sizeof(folder), "/tmp/uroce-test.XXXXXX");
    if (!mkdtemp(folder) || env_dpdk.init(&config))
        return EXIT_FAILURE;
    if (!strcmp(argv[0], "guest")) {
        rmdir(folder);
        return be_guest(argv[1]);
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    env_dpdk.fini();
    rmdir(folder);
    return failed;
}
