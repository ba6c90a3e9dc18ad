/* SPDX-License-Identifier: BSD-3-Clause */
/* A port over packet sockets of a tap device, whose other end is the test: the kernel's own cutting
 * of long frames, and long frames as a network hands them on. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "encap.h"
#include "encap_layout.h"
#include "packet_internal.h"
#include "random.h"

#define LIMIT_MS   5000
#define GSO_UDP    5
#define OFFLOADS   (TUN_F_CSUM | 0x20 | 0x40) /* TUN_F_USO4, TUN_F_USO6: Linux 6.2 */
#define NETDEV     "utest0"
#define FRAME_MAX  1600
#define LONG_MAX   65536
#define MANY       20
#define SEGMENT    (12 + 1024 + 4) /* BTH, payload, ICRC */
#define HEAD_BYTES sizeof(struct virtio_net_hdr)

static const uint8_t port_mac[6] = {2, 0, 0, 0, 0, 0xAA}, peer_mac[6] = {2, 0, 0, 0, 0, 0xBB};
static bool own_network;
static int tap = -1;
static struct pktio *port;

struct bytes {
    uint32_t len;
    uint8_t data[FRAME_MAX];
};

static int interface_named(const char *name, unsigned long request, struct ifreq *ifr)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

    snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", name);
    err = ioctl(fd, request, ifr);
    close(fd);
    return err;
}

static int interface(unsigned long request, struct ifreq *ifr)
{
    return interface_named(NETDEV, request, ifr);
}

static void set_up(bool up)
{
    struct ifreq ifr = {0};

    assert_int_equal(interface(SIOCGIFFLAGS, &ifr), 0);
    ifr.ifr_flags = (short)(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
    assert_int_equal(interface(SIOCSIFFLAGS, &ifr), 0);
}

static int open_tap(void)
{
    struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -1;
    snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), NETDEV);
    if (ioctl(fd, TUNSETIFF, &ifr)) {
        close(fd);
        return -1;
    }
    ifr = (struct ifreq){.ifr_hwaddr.sa_family = ARPHRD_ETHER};
    memcpy(ifr.ifr_hwaddr.sa_data, port_mac, 6);
    assert_int_equal(interface(SIOCSIFHWADDR, &ifr), 0);
    return fd;
}

static struct pktio *open_port(const struct pktio_packet_config *config)
{
    char error[256];
    struct pktio *io = pktio_packet_open(config, error, sizeof(error));

    if (!io)
        print_message("%s\n", error);
    assert_non_null(io);
    return io;
}

/* The kernel finds out about the carrier a little later, and sends nothing before. */
static void await_link(void)
{
    struct pollfd p = {.fd = port->ops->link_fd(port), .events = POLLIN};
    struct pktio_info info;

    for (port->ops->info(port, &info); !info.link_up; port->ops->info(port, &info)) {
        assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
        port->ops->link_ack(port);
    }
}

static void open_with(const struct pktio_packet_config *config)
{
    if (!own_network)
        skip();
    tap = open_tap();
    if (tap < 0)
        skip();
    port = open_port(config);
    set_up(true);
    await_link();
}

static void open_one(void)
{
    open_with(&(struct pktio_packet_config){.netdev = NETDEV, .queues = 1});
}

static int teardown(void **state)
{
    if (port)
        port->ops->close(port);
    if (tap >= 0)
        close(tap);
    port = NULL;
    tap = -1;
    return 0;
}

/* ---- packets ---- */

static struct address_vector flow(bool to_port, bool ipv6, uint16_t sport, uint16_t vlan)
{
    struct address_vector av = {
        .gid_type = GID_TYPE_ROCE_V2, .vlan = vlan, .hop_limit = 64, .udp_sport = sport};

    gid_parse(&av.sgid, ipv6 ? "fd00::1" : "192.0.2.1");
    gid_parse(&av.dgid, ipv6 ? "fd00::2" : "192.0.2.2");
    memcpy(av.smac, to_port ? peer_mac : port_mac, 6);
    memcpy(av.dmac, to_port ? port_mac : peer_mac, 6);
    return av;
}

/* A packet of `payload` bytes whose content tells its PSN. */
static struct bytes make(const struct address_vector *av, uint32_t payload, uint16_t id,
                         uint32_t psn)
{
    struct encap_template t;
    struct bytes b;
    size_t at;

    assert_int_equal(encap_template_make(&t, av), 0);
    at = encap_tx(b.data, &t, 12 + payload + 4, id);
    memset(b.data + at, 0, 12);
    put_be32(b.data + at + 8, psn);
    for (uint32_t i = 0; i < payload; i++)
        b.data[at + 12 + i] = (uint8_t)(psn + i / 3);
    b.len = (uint32_t)encap_seal(b.data, &t, 12 + payload + 4);
    return b;
}

static unsigned l3_of(const uint8_t *frame)
{
    return get_be16(frame + 12) == ETHERTYPE_VLAN ? 18 : 14;
}

static bool is_roce(const uint8_t *frame, uint32_t len)
{
    unsigned l3 = l3_of(frame);
    bool ipv4 = get_be16(frame + l3 - 2) == ETHERTYPE_IPV4;

    return len >= l3 + 44 && (ipv4 || get_be16(frame + l3 - 2) == ETHERTYPE_IPV6) &&
           get_be16(frame + l3 + (ipv4 ? IPV4_LEN : IPV6_LEN) + 2) == ROCE_UDP_PORT;
}

/* A right UDP checksum, which the kernel may have computed, becomes 0. */
static void clear_udp_checksum(uint8_t *frame, uint32_t len)
{
    unsigned l3 = l3_of(frame);
    bool ipv4 = get_be16(frame + l3 - 2) == ETHERTYPE_IPV4;
    unsigned udp = l3 + (ipv4 ? IPV4_LEN : IPV6_LEN);
    uint32_t sum = IP_PROTO_UDP + len - udp;

    if (!get_be16(frame + udp + 6))
        return;
    for (unsigned i = l3 + (ipv4 ? 12 : 8); i < len; i += 2)
        sum += i + 1 < len ? get_be16(frame + i) : (uint32_t)frame[i] << 8;
    assert_int_equal(sum_fold(sum), 0xFFFF);
    put_be16(frame + udp + 6, 0);
}

/* ---- from the port ---- */

/* The port keeps them until it is told to send. */
static void add_all(const struct bytes *b, unsigned n)
{
    struct frame f[FRAME_BURST];

    assert_int_equal(port->ops->tx_lend(port, 0, f, n), n);
    for (unsigned i = 0; i < n; i++) {
        assert_false(f[i].icrc_omitted);
        assert_true(f[i].room >= b[i].len);
        memcpy(f[i].data, b[i].data, b[i].len);
        f[i].len = b[i].len;
    }
    port->ops->tx_burst(port, 0, f, n, n);
}

static void send_all(const struct bytes *b, unsigned n)
{
    add_all(b, n);
    port->ops->tx_flush(port, 0, false);
}

/* The next RoCE frame on the wire; the interface sends others, of its own. */
static uint32_t read_tap(struct virtio_net_hdr *head, uint8_t *frame)
{
    static uint8_t buffer[HEAD_BYTES + LONG_MAX];
    struct pollfd p = {.fd = tap, .events = POLLIN};
    ssize_t n;

    do {
        assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
        n = read(tap, buffer, sizeof(buffer));
        assert_true(n > (ssize_t)HEAD_BYTES);
    } while (!is_roce(buffer + HEAD_BYTES, (uint32_t)n - HEAD_BYTES));
    memcpy(head, buffer, HEAD_BYTES);
    memcpy(frame, buffer + HEAD_BYTES, (size_t)n - HEAD_BYTES);
    return (uint32_t)n - (uint32_t)HEAD_BYTES;
}

static void expect_on_wire(const struct bytes *b)
{
    static uint8_t frame[LONG_MAX];
    struct virtio_net_hdr head;
    uint32_t len = read_tap(&head, frame);

    assert_int_equal(len, b->len);
    clear_udp_checksum(frame, len);
    assert_memory_equal(frame, b->data, len);
}

static void send_run(const struct address_vector *av, uint16_t id)
{
    struct bytes b[MANY];

    for (unsigned i = 0; i < MANY; i++)
        b[i] = make(av, i + 1 < MANY ? 1024 : 100, (uint16_t)(id + i), i);
    send_all(b, MANY);
    for (unsigned i = 0; i < MANY; i++)
        expect_on_wire(&b[i]);
}

/* The kernel cuts a long frame into what the engine made, with all identifications and ICRCs. */
static void test_kernel_cuts(void **state)
{
    open_one();
    for (unsigned i = 0; i < 4; i++) {
        struct address_vector av = flow(false, i & 1, 0xC000, i & 2 ? 7 : VLAN_NONE);

        send_run(&av, 0);
        send_run(&av, 65530);
    }
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->tx_refused), 0);
}

/* An interface that can cut gets one frame. */
static void test_one_long_frame(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    static uint8_t frame[LONG_MAX];
    struct virtio_net_hdr head;
    struct bytes b[MANY];

    open_one();
    if (ioctl(tap, TUNSETOFFLOAD, OFFLOADS))
        skip();
    for (unsigned i = 0; i < MANY; i++)
        b[i] = make(&av, 1024, (uint16_t)(9 + i), i);
    send_all(b, MANY);
    assert_int_equal(read_tap(&head, frame), 42 + MANY * SEGMENT);
    assert_int_equal(head.gso_type, GSO_UDP);
    assert_int_equal(head.gso_size, SEGMENT);
    assert_int_equal(head.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
    assert_int_equal(ipv4_sum(frame + 14), 0xFFFF);
    assert_int_equal(get_be16(frame + 18), 9);
    for (unsigned i = 0; i < MANY; i++)
        assert_memory_equal(frame + 42 + i * SEGMENT, b[i].data + 42, SEGMENT);
}

static bool wire_has_frame(void)
{
    static uint8_t buffer[HEAD_BYTES + LONG_MAX];
    struct pollfd p = {.fd = tap, .events = POLLIN};
    ssize_t n = 0;

    while (poll(&p, 1, 0) == 1 && !is_roce(buffer + HEAD_BYTES, (uint32_t)n)) {
        n = read(tap, buffer, sizeof(buffer)) - (ssize_t)HEAD_BYTES;
        assert_true(n > 0);
    }
    return is_roce(buffer + HEAD_BYTES, (uint32_t)n);
}

/* Packets of several bursts leave together, as many as one frame may have. What does not fill one
 * waits for the packets that follow; a packet by itself does not. */
static void test_several_bursts(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    static uint8_t frame[LONG_MAX];
    static struct bytes b[5 * MANY + 1];
    struct virtio_net_hdr head;
    unsigned one_frame = 65000 / SEGMENT;

    open_one();
    if (ioctl(tap, TUNSETOFFLOAD, OFFLOADS))
        skip();
    for (unsigned i = 0; i <= 5 * MANY; i++)
        b[i] = make(&av, 1024, (uint16_t)(9 + i), i);
    for (unsigned i = 0; i < 4; i++)
        add_all(b + i * MANY, MANY);
    assert_false(wire_has_frame());
    port->ops->tx_flush(port, 0, true);
    assert_int_equal(read_tap(&head, frame), 42 + one_frame * SEGMENT);
    assert_false(wire_has_frame());
    send_all(b + 4 * MANY, MANY);
    assert_int_equal(read_tap(&head, frame), 42 + (5 * MANY - one_frame) * SEGMENT);
    add_all(b + 5 * MANY, 1);
    port->ops->tx_flush(port, 0, true);
    expect_on_wire(&b[5 * MANY]);
}

/* The kernel turns out not to know long frames when more wait than one system call sends. */
static void test_cut_after_all(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    static struct bytes b[4 * MANY];

    open_one();
    for (unsigned i = 0; i < 4 * MANY; i++)
        b[i] = make(&av, 1024, (uint16_t)(9 + i), i);
    for (unsigned i = 0; i < 4; i++)
        add_all(b + i * MANY, MANY);
    packet_port_of(port)->queue[0].no_segments = true;
    port->ops->tx_flush(port, 0, false);
    for (unsigned i = 0; i < 4 * MANY; i++)
        expect_on_wire(&b[i]);
}

/* More flows than groups: those that do not fit are not lost. */
static void test_many_flows(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    static struct bytes b[4 * MANY];

    open_one();
    for (unsigned i = 0; i < 4 * MANY; i++, av.udp_sport++)
        b[i] = make(&av, 64, (uint16_t)i, i);
    for (unsigned i = 0; i < 4; i++)
        add_all(b + i * MANY, MANY);
    port->ops->tx_flush(port, 0, false);
    for (unsigned i = 0; i < 4 * MANY; i++)
        expect_on_wire(&b[i]);
}

static void test_without_segmentation(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);

    open_with(
        &(struct pktio_packet_config){.netdev = NETDEV, .queues = 1, .no_segmentation = true});
    assert_int_equal(ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM), 0);
    send_run(&av, 3);
}

/* Packets whose headers differ are not put together; each flow keeps its order. */
static void test_runs_end(void **state)
{
    struct address_vector one = flow(false, false, 0xC000, VLAN_NONE), two = one, marked = one;
    struct bytes b[12];
    unsigned n = 0;

    open_one();
    two.udp_sport++;
    marked.traffic_class = 4;
    b[n++] = make(&one, 1024, 1, 0);
    b[n++] = make(&one, 1024, 2, 1);
    b[n++] = make(&marked, 1024, 3, 2);
    b[n++] = make(&one, 1024, 4, 3);    /* gets 3 */
    b[n++] = make(&marked, 1024, 5, 4); /* gets 4 */
    b[n++] = make(&one, 64, 4, 5);      /* shorter: the last */
    b[n++] = make(&one, 64, 7, 6);
    b[n++] = make(&one, 128, 8, 7); /* longer */
    b[n++] = make(&two, 1024, 9, 8);
    b[n++] = make(&two, 1024, 10, 9);
    b[n++] = make(&one, 128, 9, 10);
    b[n++] = make(&one, 0, 10, 11);
    send_all(b, n);
    b[3] = make(&one, 1024, 3, 3);
    b[4] = make(&marked, 1024, 4, 4);
    /* The last two belong to the run that 7 has begun, before that of 8 and 9. */
    for (unsigned i = 0; i < n; i++)
        expect_on_wire(&b[(const unsigned[]){0, 1, 3, 5, 2, 4, 6, 7, 10, 11, 8, 9}[i]]);
}

/* What cutting would change leaves by itself: raw packets with UDP fields of their own, and what is
 * longer than the MTU, which the interface refuses. */
static void test_kept_apart(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    static uint8_t frame[LONG_MAX];
    struct virtio_net_hdr head;
    struct bytes raw[2] = {make(&av, 64, 1, 0), make(&av, 64, 2, 1)};
    struct bytes tall[2] = {make(&av, 1460, 1, 0), make(&av, 1460, 2, 1)};

    open_one();
    for (unsigned i = 0; i < 2; i++)
        put_be32(raw[i].data + 38, 20u << 16 | 0x1111);
    send_all(raw, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(read_tap(&head, frame), raw[i].len);
        assert_memory_equal(frame, raw[i].data, raw[i].len);
    }
    assert_int_equal(tall[0].len, 14 + 1504);
    send_all(tall, 2);
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->tx_refused), 2);
}

/* Below the port a frame is dropped each time that it is sent: it does not hold up the others. */
static void test_dropped_below(void **state)
{
    struct sock_filter short_ones[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 1000, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog filter = {ARRAY_SIZE(short_ones), short_ones};
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    struct bytes b[2] = {make(&av, 1024, 1, 0), make(&av, 64, 2, 1)};

    open_one();
    /* As with veth: between the port and the drop is no queue, which would hide it. */
    if (system("tc qdisc replace dev " NETDEV " root noqueue 2>/dev/null"))
        skip();
    assert_int_equal(ioctl(tap, TUNATTACHFILTER, &filter), 0);
    send_all(&b[0], 1);
    send_all(&b[1], 1);
    expect_on_wire(&b[1]);
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->tx_refused), 1);
    assert_true(port->ops->wake_arm(port, 0));
}

/* A packet whose ICRC a program made wrong stays wrong when it gets another number. */
static void test_wrong_stays_wrong(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    struct bytes b[2] = {make(&av, 64, 1, 0), make(&av, 64, 9, 1)};
    static uint8_t frame[LONG_MAX];
    struct virtio_net_hdr head;
    uint32_t len;

    open_one();
    b[1].data[b[1].len - 1] ^= 0x40;
    send_all(b, 2);
    expect_on_wire(&b[0]);
    len = read_tap(&head, frame);
    assert_int_equal(len, b[1].len);
    assert_false(icrc_verify(ICRC_IPV4, frame + 14, len - 14));
    frame[len - 1] ^= 0x40;
    assert_true(icrc_verify(ICRC_IPV4, frame + 14, len - 14));
}

static void test_other_frames(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    static uint8_t frame[LONG_MAX];
    struct bytes b = make(&av, 16, 0, 0);
    struct virtio_net_hdr head;

    open_one();
    put_be16(b.data + 18, 0x1234); /* the IP length is not the frame's: as it is */
    put_be16(b.data + 16, get_be16(b.data + 16) - 4);
    send_all(&b, 1);
    assert_int_equal(read_tap(&head, frame), b.len);
    assert_memory_equal(frame, b.data, b.len);
}

/* ---- to the port ---- */

static void write_tap(const struct virtio_net_hdr *head, const uint8_t *frame, uint32_t len)
{
    static uint8_t buffer[HEAD_BYTES + LONG_MAX];

    memcpy(buffer, head, HEAD_BYTES);
    memcpy(buffer + HEAD_BYTES, frame, len);
    if (write(tap, buffer, HEAD_BYTES + len) == (ssize_t)(HEAD_BYTES + len))
        return;
    assert_int_equal(errno, EINVAL); /* Linux before 6.2 knows no long frames of UDP */
    assert_int_equal(head->gso_type, GSO_UDP);
    skip();
}

/* Writes packets of one length, but for the last, as one frame. */
static void write_long(const struct bytes *b, unsigned n)
{
    static uint8_t frame[LONG_MAX];
    bool ipv4 = get_be16(b[0].data + 12) == ETHERTYPE_IPV4;
    uint32_t payload = ipv4 ? 42 : 62, len = payload;
    struct virtio_net_hdr head = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                  .gso_type = GSO_UDP,
                                  .gso_size = (uint16_t)(b[0].len - payload),
                                  .hdr_len = (uint16_t)payload,
                                  .csum_start = (uint16_t)(payload - 8),
                                  .csum_offset = 6};

    memcpy(frame, b[0].data, payload);
    for (unsigned i = 0; i < n; i++) {
        memcpy(frame + len, b[i].data + payload, b[i].len - payload);
        len += b[i].len - payload;
    }
    put_be16(frame + payload - 4, (uint16_t)(len - payload + 8));
    if (ipv4) {
        put_be16(frame + 16, (uint16_t)(len - 14));
        put_be16(frame + 24, 0);
        put_be16(frame + 24, (uint16_t)~ipv4_sum(frame + 14));
    } else {
        put_be16(frame + 18, (uint16_t)(len - 54));
    }
    write_tap(&head, frame, len);
}

static void write_short(const struct bytes *b)
{
    write_tap(&(struct virtio_net_hdr){0}, b->data, b->len);
}

static unsigned receive(struct frame *f, unsigned n)
{
    struct pollfd p = {.fd = port->ops->wake_fd(port, 0), .events = POLLIN};
    unsigned count = port->ops->rx_burst(port, 0, f, n);

    while (!count) {
        if (port->ops->wake_arm(port, 0))
            assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
        count = port->ops->rx_burst(port, 0, f, n);
    }
    return count;
}

/* The next RoCE frame, with what its UDP checksum said before. */
static void expect(const struct bytes *b)
{
    enum icrc_l3 kind =
        get_be16(b->data + l3_of(b->data) - 2) == ETHERTYPE_IPV4 ? ICRC_IPV4 : ICRC_IPV6;
    struct frame f;

    receive(&f, 1);
    while (!is_roce(f.data, f.len)) {
        port->ops->rx_release(port, 0, &f, 1);
        receive(&f, 1);
    }
    assert_int_equal(f.len, b->len);
    clear_udp_checksum(f.data, f.len);
    assert_memory_equal(f.data, b->data, f.len);
    assert_true(icrc_verify(kind, f.data + l3_of(f.data), f.len - l3_of(f.data)));
    port->ops->rx_release(port, 0, &f, 1);
}

static void test_short(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, VLAN_NONE);

    open_one();
    for (unsigned i = 0; i < 100; i++) {
        struct bytes b = make(&av, 4 * i, (uint16_t)(i * 77), i);

        write_short(&b);
        expect(&b);
    }
}

/* The kernel takes the tag off, the port puts it back. */
static void test_tags(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, 5);
    struct bytes b[3];

    open_one();
    for (unsigned i = 0; i < 3; i++) {
        b[i] = make(&av, 1024, (uint16_t)i, i);
        write_short(&b[i]);
    }
    for (unsigned i = 0; i < 3; i++)
        expect(&b[i]);
}

/* A provider's tag (802.1ad) is no tag of ours. */
static void test_other_tags(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, 5);
    struct bytes b = make(&av, 64, 0, 0);
    struct frame f;

    open_one();
    put_be16(b.data + 12, 0x88A8);
    write_short(&b);
    for (receive(&f, 1); get_be16(f.data + 12) != 0x88A8; receive(&f, 1))
        port->ops->rx_release(port, 0, &f, 1);
    assert_int_equal(f.len, b.len);
    assert_memory_equal(f.data, b.data, b.len);
    port->ops->rx_release(port, 0, &f, 1);
}

static void take_run(bool ipv6, unsigned n, uint32_t payload, unsigned id, unsigned id_step)
{
    struct address_vector av = flow(true, ipv6, 0xC000, VLAN_NONE);
    static struct bytes b[60];

    for (unsigned i = 0; i < n; i++)
        b[i] =
            make(&av, i + 1 < n ? payload : min_of(payload, 40u), (uint16_t)(id + i * id_step), i);
    write_long(b, n);
    for (unsigned i = 0; i < n; i++)
        expect(&b[i]);
}

static void test_long(void **state)
{
    open_one();
    for (unsigned round = 0; round < 8; round++) {
        take_run(false, 60, 1024, 65500, 1);
        take_run(true, 60, 1024, 0, 0);
        take_run(false, 2, 8, 1, 1);
        take_run(false, 60, 0, 1, 1);
        take_run(false, 40, 1440, 1, 1);
    }
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->rx_unusable), 0);
}

/* Packets of a sender that numbers otherwise, put together on the way. */
static void test_other_numbers(void **state)
{
    open_one();
    take_run(false, 40, 1024, 7, 0);
    take_run(false, 40, 1024, 65000, 12345);
}

/* One packet of a long frame is damaged: it is handed up as it is, and the others are right. */
static void test_damage(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, VLAN_NONE);

    open_one();
    for (unsigned damaged = 0; damaged < 5; damaged++) {
        struct bytes b[5];
        struct frame f[5];
        unsigned n = 0;

        for (unsigned i = 0; i < 5; i++)
            b[i] = make(&av, 512, (uint16_t)i, i);
        b[damaged].data[100] ^= 4;
        write_long(b, 5);
        while (n < 5)
            n += receive(f + n, 5 - n);
        for (unsigned i = 0; i < 5; i++) {
            bool right = icrc_verify(ICRC_IPV4, f[i].data + 14, f[i].len - 14);

            assert_int_equal(right, i != damaged);
            assert_true(right || !f[i].icrc_omitted);
        }
        port->ops->rx_release(port, 0, f, 5);
    }
}

/* Long frames of others do not reach the port, and none that a slot cannot hold is handed up. */
static void test_unusable(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, VLAN_NONE);
    const struct pktio_counters *counters;
    static uint8_t frame[LONG_MAX];
    struct virtio_net_hdr head = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                  .gso_type = GSO_UDP,
                                  .gso_size = 3000,
                                  .hdr_len = 42,
                                  .csum_start = 34,
                                  .csum_offset = 6};
    struct bytes b = make(&av, 64, 0, 0);

    open_one();
    counters = port->ops->counters(port, 0);
    memcpy(frame, b.data, 42);
    put_be16(frame + 16, 20 + 8 + 9000);
    put_be16(frame + 38, 8 + 9000);
    put_be16(frame + 24, 0);
    put_be16(frame + 24, (uint16_t)~ipv4_sum(frame + 14));
    write_tap(&head, frame, 42 + 9000);
    write_short(&b);
    expect(&b);
    assert_int_equal(counter_get(&counters->rx_unusable), 1);
    put_be16(frame + 36, 5000); /* another program's */
    head.gso_size = 1000;
    write_tap(&head, frame, 42 + 9000);
    write_short(&b);
    expect(&b);
    assert_int_equal(counter_get(&counters->rx_unusable), 1);
}

/* Two segments of TCP that are together no longer than a packet of ours. */
static void test_short_tcp(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, VLAN_NONE);
    struct virtio_net_hdr head = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                  .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                                  .gso_size = 400,
                                  .hdr_len = 54,
                                  .csum_start = 34,
                                  .csum_offset = 16};
    uint8_t frame[54 + 800] = {0};
    struct bytes b = make(&av, 64, 0, 0);

    open_one();
    memcpy(frame, b.data, 34);
    put_be16(frame + 16, sizeof(frame) - 14);
    frame[23] = 6;
    put_be16(frame + 24, 0);
    put_be16(frame + 24, (uint16_t)~ipv4_sum(frame + 14));
    frame[34 + 12] = 5 << 4;
    write_tap(&head, frame, sizeof(frame));
    write_short(&b);
    expect(&b);
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->rx_unusable), 0);
}

/* The kernel cannot say what a received frame is, and the socket remembers the error: what is sent
 * next leaves all the same, as one frame. */
static void test_error_of_another_frame(void **state)
{
    struct address_vector in = flow(true, false, 0xC000, VLAN_NONE);
    struct address_vector out = flow(false, false, 0xC000, VLAN_NONE);
    struct virtio_net_hdr head = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                  .gso_type = VIRTIO_NET_HDR_GSO_UDP,
                                  .gso_size = 400,
                                  .hdr_len = 42,
                                  .csum_start = 34,
                                  .csum_offset = 6};
    struct bytes b = make(&in, 1000, 0, 0), run[2] = {make(&out, 64, 1, 1), make(&out, 64, 2, 2)};
    static uint8_t frame[LONG_MAX];

    open_one();
    if (ioctl(tap, TUNSETOFFLOAD, OFFLOADS))
        skip();
    write_short(&b);
    write_tap(&head, b.data, b.len);
    expect(&b);
    send_all(run, 2);
    assert_int_equal(read_tap(&head, frame), 42 + 2 * (12 + 64 + 4));
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->tx_refused), 0);
}

/* A checksum that the sender's kernel has left open. */
static void test_open_checksum(void **state)
{
    struct address_vector av = flow(true, false, 0xC000, VLAN_NONE);
    struct virtio_net_hdr head = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .hdr_len = 42, .csum_start = 34, .csum_offset = 6};

    open_one();
    for (uint32_t cut = 0; cut < 2; cut++) {
        struct bytes b = make(&av, 64, 0, 0), open;
        uint32_t sum = IP_PROTO_UDP + b.len - 34;

        for (unsigned i = 26; i < 34; i += 2)
            sum += get_be16(b.data + i);
        open = b;
        put_be16(open.data + 40, sum_fold(sum));
        write_tap(&head, open.data, open.len);
        expect(&b); /* checks the sum */
    }
}

/* ---- the port ---- */

static void test_what_it_is(void **state)
{
    struct pktio_info info;

    open_one();
    port->ops->info(port, &info);
    assert_memory_equal(info.mac, port_mac, 6);
    assert_int_equal(info.mtu, 1500);
    assert_int_equal(info.mtu_before, 0);
    assert_int_equal(info.queues, 1);
    assert_string_equal(info.netdev, NETDEV);
    assert_int_equal(info.ifindex, if_nametoindex(NETDEV));
    assert_true(info.kernel_sees);
    assert_true(info.link_up);
}

static void test_mtu(void **state)
{
    struct pktio_info info;
    struct ifreq ifr = {0};

    open_with(&(struct pktio_packet_config){.netdev = NETDEV, .queues = 1, .mtu = 4200});
    port->ops->info(port, &info);
    assert_int_equal(info.mtu, 4200);
    assert_int_equal(info.mtu_before, 1500);
    assert_int_equal(interface(SIOCGIFMTU, &ifr), 0);
    assert_int_equal(ifr.ifr_mtu, 4200);
}

static void test_refusals(void **state)
{
    char error[256] = "";

    assert_null(pktio_packet_open(&(struct pktio_packet_config){.netdev = "nosuch0", .queues = 1},
                                  error, sizeof(error)));
    assert_string_equal(error, "packet: there is no interface \"nosuch0\"");
    assert_null(pktio_packet_open(&(struct pktio_packet_config){.netdev = "lo", .queues = 1}, error,
                                  sizeof(error)));
    assert_string_equal(error, "lo: is no Ethernet interface");
}

static void test_link(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    struct bytes b = make(&av, 64, 0, 0);
    struct pktio_info info;
    struct pollfd p;

    open_one();
    p = (struct pollfd){.fd = port->ops->link_fd(port), .events = POLLIN};
    port->ops->link_ack(port);
    set_up(false);
    assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
    port->ops->link_ack(port);
    port->ops->info(port, &info);
    assert_false(info.link_up);
    send_all(&b, 1);
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->tx_refused), 1);
    set_up(true);
    await_link();
    send_all(&b, 1);
    expect_on_wire(&b);
}

/* An interface with the name of one that is gone is another one. */
static void test_made_anew(void **state)
{
    struct pktio_info info;

    open_one();
    close(tap);
    port->ops->info(port, &info);
    assert_false(info.link_up);
    tap = open_tap();
    set_up(true);
    port->ops->info(port, &info);
    assert_false(info.link_up);
}

/* The kernel goes on with it under its other name, and so does the port. */
static void test_renamed(void **state)
{
    static const char other[] = "uroce-other";
    struct ifreq ifr = {0};
    struct pktio_info info;

    open_one();
    set_up(false);
    snprintf(ifr.ifr_newname, sizeof(ifr.ifr_newname), "%s", other);
    assert_int_equal(interface(SIOCSIFNAME, &ifr), 0);
    ifr = (struct ifreq){.ifr_flags = IFF_UP};
    assert_int_equal(interface_named(other, SIOCSIFFLAGS, &ifr), 0);
    await_link();
    port->ops->info(port, &info);
    assert_string_equal(info.netdev, other);
}

/* Frames to the port itself stay; those to groups go both ways. */
static void test_own_frames(void **state)
{
    struct address_vector av = flow(false, false, 0xC000, VLAN_NONE);
    struct bytes own, group;

    open_one();
    memcpy(av.dmac, port_mac, 6);
    own = make(&av, 64, 0, 0);
    memcpy(av.dmac, (const uint8_t[]){1, 0, 0x5E, 1, 2, 3}, 6);
    group = make(&av, 64, 1, 1);
    send_all((struct bytes[]){own, group}, 2);
    expect_on_wire(&group);
    expect(&own);
    expect(&group);
    assert_int_equal(counter_get(&port->ops->counters(port, 0)->local), 2);
}

/* The kernel gives each queue the flows of a hash: a flow's packets stay on one queue. */
static void test_queues(void **state)
{
    unsigned on[2] = {0};

    open_with(&(struct pktio_packet_config){.netdev = NETDEV, .queues = 2});
    for (uint16_t n = 0; n < 64; n++) {
        struct address_vector av = flow(true, false, (uint16_t)(0xC000 + n), VLAN_NONE);
        struct bytes b[2] = {make(&av, 512, 1, 1), make(&av, 512, 2, 2)};
        struct frame f[2];
        unsigned count[2] = {0};

        write_long(b, 2);
        while (count[0] + count[1] < 2) {
            for (unsigned q = 0; q < 2; q++) {
                unsigned got = port->ops->rx_burst(port, q, f, 2);

                for (unsigned i = 0; i < got; i++)
                    count[q] += is_roce(f[i].data, f[i].len);
                port->ops->rx_release(port, q, f, got);
            }
        }
        assert_true(!count[0] || !count[1]);
        on[!!count[1]]++;
    }
    assert_true(on[0] && on[1]);
}

/* Every slot comes back, as what is lent shows. */
static void test_slots(void **state)
{
    struct frame f[FRAME_BURST];
    static struct frame held[4096];
    unsigned lent[2] = {0};

    open_one();
    for (unsigned round = 0; round < 2; round++) {
        unsigned n, total = 0;

        while ((n = port->ops->tx_lend(port, 0, f, FRAME_BURST))) {
            memcpy(held + total, f, n * sizeof(f[0]));
            total += n;
        }
        for (unsigned i = 0; i < total; i += FRAME_BURST)
            port->ops->tx_burst(port, 0, held + i, min_of(total - i, FRAME_BURST), 0);
        lent[round] = total;
        if (round)
            break;
        take_run(false, 60, 1024, 1, 1); /* which takes slots for the next frames */
        for (unsigned i = 0; i < 50; i++)
            take_run(false, 30, 256, 1, 1);
    }
    assert_in_range(lent[1], lent[0] - FRAME_BURST, lent[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_kernel_cuts, teardown),
        cmocka_unit_test_teardown(test_one_long_frame, teardown),
        cmocka_unit_test_teardown(test_several_bursts, teardown),
        cmocka_unit_test_teardown(test_cut_after_all, teardown),
        cmocka_unit_test_teardown(test_many_flows, teardown),
        cmocka_unit_test_teardown(test_without_segmentation, teardown),
        cmocka_unit_test_teardown(test_runs_end, teardown),
        cmocka_unit_test_teardown(test_kept_apart, teardown),
        cmocka_unit_test_teardown(test_dropped_below, teardown),
        cmocka_unit_test_teardown(test_wrong_stays_wrong, teardown),
        cmocka_unit_test_teardown(test_other_frames, teardown),
        cmocka_unit_test_teardown(test_short, teardown),
        cmocka_unit_test_teardown(test_tags, teardown),
        cmocka_unit_test_teardown(test_other_tags, teardown),
        cmocka_unit_test_teardown(test_long, teardown),
        cmocka_unit_test_teardown(test_other_numbers, teardown),
        cmocka_unit_test_teardown(test_damage, teardown),
        cmocka_unit_test_teardown(test_unusable, teardown),
        cmocka_unit_test_teardown(test_short_tcp, teardown),
        cmocka_unit_test_teardown(test_error_of_another_frame, teardown),
        cmocka_unit_test_teardown(test_open_checksum, teardown),
        cmocka_unit_test_teardown(test_what_it_is, teardown),
        cmocka_unit_test_teardown(test_mtu, teardown),
        cmocka_unit_test_teardown(test_refusals, teardown),
        cmocka_unit_test_teardown(test_link, teardown),
        cmocka_unit_test_teardown(test_renamed, teardown),
        cmocka_unit_test_teardown(test_made_anew, teardown),
        cmocka_unit_test_teardown(test_own_frames, teardown),
        cmocka_unit_test_teardown(test_queues, teardown),
        cmocka_unit_test_teardown(test_slots, teardown),
    };

    own_network = !unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
