/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ports over UDP sockets, at two addresses of the loopback interface. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "encap.h"
#include "encap_layout.h"
#include "random.h"
#include "roce_frame.h"
#include "socket.h"

#define LIMIT_MS 5000
#define SEGMENTS 64 /* of a datagram: the kernel's limit */

static struct pktio *a, *b;
static struct pktio_info info;

static struct pktio_socket_config config_of(const char *address)
{
    struct pktio_socket_config c = {.addresses = 1};

    assert_int_equal(gid_parse(&c.address[0], address), 0);
    return c;
}

static struct pktio *open_port(const char *address, char error[256])
{
    struct pktio_socket_config c = config_of(address);

    return pktio_socket_open(&c, error, 256);
}

static int setup(void **state)
{
    char error[256];

    a = open_port("127.1.2.1", error);
    b = open_port("127.1.2.2", error);
    if (!a || !b)
        print_message("%s\n", error);
    if (a)
        a->ops->info(a, &info);
    return !a || !b;
}

static int teardown(void **state)
{
    if (a)
        a->ops->close(a);
    if (b)
        b->ops->close(b);
    return 0;
}

static struct roce_flow flow_number(unsigned n)
{
    struct roce_flow f = roce_flow_number(n, false);

    memcpy(f.smac, info.mac, 6);
    memcpy(f.dmac, info.router, 6);
    gid_parse(&f.src, "127.1.2.1");
    gid_parse(&f.dst, "127.1.2.2");
    return f;
}

/* From a to b. */
static void send_frame(const struct roce_flow *flow, uint32_t number, bool sealed, bool right)
{
    struct frame f;

    assert_int_equal(a->ops->tx_lend(a, 0, &f, 1), 1);
    assert_true(f.icrc_omitted);
    f.len = roce_frame_write(f.data, flow, number);
    f.icrc_omitted = !sealed;
    if (!sealed)
        memset(f.data + f.len - 4, 0xEE, 4);
    if (!right)
        f.data[f.len - 2] ^= 0x10;
    pktio_send(a, 0, &f, 1, 1);
}

static unsigned receive_within(struct pktio *io, struct frame *f, unsigned n, int ms)
{
    struct pollfd p = {.fd = io->ops->wake_fd(io, 0), .events = POLLIN};
    unsigned count = io->ops->rx_burst(io, 0, f, n);

    while (!count && io->ops->wake_arm(io, 0) && poll(&p, 1, ms) > 0)
        count = io->ops->rx_burst(io, 0, f, n);
    return count;
}

static struct frame receive_one(struct pktio *io)
{
    struct frame f;

    assert_int_equal(receive_within(io, &f, 1, LIMIT_MS), 1);
    return f;
}

static void release(struct pktio *io, struct frame *f, unsigned n)
{
    io->ops->rx_release(io, 0, f, n);
}

static void test_info(void **state)
{
    assert_true(info.routed);
    assert_true(info.link_up);
    assert_int_equal(info.queues, 1);
    assert_string_equal(info.netdev, "lo");
    assert_in_range(info.mtu, 4200, 4400);
    assert_int_equal(info.mac[0] & 3, 2);
    assert_memory_not_equal(info.mac, info.router, 6);
}

static void test_mtu(void **state)
{
    struct pktio_socket_config config = {.addresses = 1, .mtu = 4335};
    char error[256] = "";
    struct pktio_info small;
    struct pktio *io;

    gid_parse(&config.address[0], "127.1.2.9");
    assert_null(pktio_socket_open(&config, error, sizeof(error)));
    assert_non_null(strstr(error, "an MTU of 4335 is too much for this device, which takes 4334"));
    config.mtu = 1500;
    io = pktio_socket_open(&config, error, sizeof(error));
    assert_non_null(io);
    io->ops->info(io, &small);
    assert_int_equal(small.mtu, 1500);
    io->ops->close(io);
}

static void test_address_in_use(void **state)
{
    char error[256] = "";

    assert_null(open_port("127.1.2.1", error));
    assert_non_null(strstr(error, "4791"));
    assert_null(open_port("192.0.2.77", error));
    assert_non_null(strstr(error, "assign"));
}

/* What arrives has all that was sent, but for the ICRC, which was checked. */
static void test_frame(void **state)
{
    struct roce_flow flow = flow_number(1);
    struct gid_table gids = {
        .len = 1,
        .entry[0] = {.gid = flow.dst, .type = GID_TYPE_ROCE_V2, .valid = true, .vlan = VLAN_NONE}};
    struct encap_port port = {.gids = &gids};
    struct encap_view v;
    struct frame f;

    send_frame(&flow, 7, false, true);
    f = receive_one(b);
    assert_true(f.icrc_omitted);
    assert_int_equal(roce_frame_number(f.data, f.len), 7);
    b->ops->info(b, &info);
    memcpy(port.mac, info.mac, 6);
    a->ops->info(a, &info);
    assert_int_equal(encap_rx(&v, f.data, f.len, &port), DROP_NONE);
    assert_true(gid_eq(&v.sgid, &flow.src) && gid_eq(&v.dgid, &flow.dst));
    assert_int_equal(v.udp_sport, flow.sport);
    assert_true(icrc_verify(v.l3_kind, v.l3, v.l3_len));
    release(b, &f, 1);
}

static void test_sealed_frames(void **state)
{
    struct roce_flow flow = flow_number(2);
    struct frame f;

    send_frame(&flow, 1, true, true);
    f = receive_one(b);
    assert_true(f.icrc_omitted);
    release(b, &f, 1);
    send_frame(&flow, 2, true, false);
    f = receive_one(b);
    assert_false(f.icrc_omitted);
    assert_int_equal(roce_frame_number(f.data, f.len), 2);
    release(b, &f, 1);
}

/* Flows that alternate, in bursts: each in its order, and nothing is lost. */
static void test_bursts(void **state)
{
    enum { FLOWS = 5, ROUNDS = 40 };
    uint32_t next[FLOWS] = {0}, sent[FLOWS] = {0};
    struct random r = {3};

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct frame f[FRAME_BURST];
        unsigned n = 1 + random_below(&r, FRAME_BURST), got = 0;

        assert_int_equal(a->ops->tx_lend(a, 0, f, n), n);
        for (unsigned i = 0; i < n; i++) {
            unsigned which = random_below(&r, FLOWS);
            struct roce_flow flow = flow_number(which);

            f[i].len = roce_frame_write(f[i].data, &flow, which << 24 | sent[which]++);
        }
        pktio_send(a, 0, f, n, n);
        while (got < n) {
            unsigned count = receive_within(b, f, FRAME_BURST, LIMIT_MS);

            assert_true(count > 0);
            for (unsigned i = 0; i < count; i++) {
                uint32_t number = roce_frame_number(f[i].data, f[i].len);

                assert_true(f[i].icrc_omitted);
                assert_int_equal(number & 0xFFFFFF, next[number >> 24]++);
            }
            release(b, f, count);
            got += count;
        }
    }
    assert_memory_equal(next, sent, sizeof(next));
}

/* A burst of a flow's packets, which the port keeps. */
static void add_burst(const struct roce_flow *flow, unsigned first, unsigned packets)
{
    struct frame f[FRAME_BURST];

    assert_int_equal(a->ops->tx_lend(a, 0, f, FRAME_BURST), FRAME_BURST);
    for (unsigned i = 0; i < packets; i++)
        f[i].len = roce_frame_write(f[i].data, flow, first + i);
    a->ops->tx_burst(a, 0, f, FRAME_BURST, packets);
}

/* The packets from `first` on, of one datagram: the identification counts them. */
static void expect_datagram(unsigned first, unsigned packets)
{
    struct frame f[FRAME_BURST];
    unsigned got = 0;

    while (got < packets) {
        unsigned count = receive_within(b, f, FRAME_BURST, LIMIT_MS);

        assert_true(count > 0);
        for (unsigned i = 0; i < count; i++, got++) {
            assert_int_equal(roce_frame_number(f[i].data, f[i].len), first + got);
            assert_int_equal(get_be16(f[i].data + ETH_LEN + 4), got);
        }
        release(b, f, count);
    }
    assert_int_equal(got, packets);
    assert_int_equal(receive_within(b, f, FRAME_BURST, 0), 0);
}

/* The packets of several bursts leave together. */
static void test_flush(void **state)
{
    struct roce_flow flow = flow_number(5);
    struct frame f[FRAME_BURST];

    for (unsigned i = 0; i < 3; i++)
        add_burst(&flow, 20 * i, 20);
    assert_false(a->ops->wake_arm(a, 0));
    assert_int_equal(receive_within(b, f, FRAME_BURST, 0), 0);
    a->ops->tx_flush(a, 0, false);
    assert_true(a->ops->wake_arm(a, 0));
    expect_datagram(0, 60);
}

/* What does not fill a datagram waits for the packets that follow; a packet by itself does not. */
static void test_more_follow(void **state)
{
    struct roce_flow flow = flow_number(6);
    struct frame f[FRAME_BURST];

    for (unsigned i = 0; i < 3; i++)
        add_burst(&flow, 30 * i, 30);
    a->ops->tx_flush(a, 0, true);
    expect_datagram(0, SEGMENTS);
    assert_int_equal(receive_within(a, f, FRAME_BURST, 0), 0);
    assert_false(a->ops->wake_arm(a, 0));
    add_burst(&flow, 90, 20);
    a->ops->tx_flush(a, 0, true);
    assert_int_equal(receive_within(b, f, FRAME_BURST, 0), 0);
    a->ops->tx_flush(a, 0, false);
    expect_datagram(SEGMENTS, 110 - SEGMENTS);
    add_burst(&flow, 110, 1);
    a->ops->tx_flush(a, 0, true);
    expect_datagram(110, 1);
    assert_true(a->ops->wake_arm(a, 0));
}

/* Packets of a flow with another hop limit are no part of the same datagram. */
static void test_hop_limits(void **state)
{
    static const uint8_t sent[] = {7, 7, 255, 0};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    struct roce_flow flow = flow_number(4);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    struct timeval limit = {.tv_sec = LIMIT_MS / 1000};
    struct frame f[ARRAY_SIZE(sent)];

    inet_pton(AF_INET, "127.1.2.3", &to.sin_addr);
    gid_parse(&flow.dst, "127.1.2.3");
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(a->ops->tx_lend(a, 0, f, ARRAY_SIZE(sent)), ARRAY_SIZE(sent));
    for (unsigned i = 0; i < ARRAY_SIZE(sent); i++) {
        f[i].len = roce_frame_write(f[i].data, &flow, i);
        f[i].data[ETH_LEN + 8] = sent[i];
    }
    pktio_send(a, 0, f, ARRAY_SIZE(sent), ARRAY_SIZE(sent));
    for (unsigned i = 0; i < ARRAY_SIZE(sent); i++) {
        uint8_t bytes[ROCE_FRAME_MAX], control[64];
        struct iovec part = {bytes, sizeof(bytes)};
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof(control)};

        assert_true(recvmsg(fd, &m, 0) > 0);
        assert_int_equal(*(int *)CMSG_DATA(CMSG_FIRSTHDR(&m)), sent[i] ? sent[i] : 64);
    }
    close(fd);
}

static void test_own_frames(void **state)
{
    struct roce_flow flow = flow_number(3);
    struct frame f;

    memcpy(flow.dmac, info.mac, 6);
    send_frame(&flow, 9, false, true);
    assert_false(a->ops->wake_arm(a, 0));
    f = receive_one(a);
    assert_int_equal(roce_frame_number(f.data, f.len), 9);
    release(a, &f, 1);
    assert_true(a->ops->wake_arm(a, 0));
}

/* More flows than there are sockets to leave by: all arrive, some by another's source port. */
static void test_source_ports(void **state)
{
    static bool seen[65536];
    unsigned ports = 0;

    for (unsigned n = 0; n < 600; n++) {
        struct roce_flow flow = flow_number(n);
        struct frame f;
        uint16_t port;

        send_frame(&flow, n, false, true);
        f = receive_one(b);
        assert_int_equal(roce_frame_number(f.data, f.len), n);
        port = get_be16(f.data + ETH_LEN + IPV4_LEN);
        ports += !seen[port];
        seen[port] = true;
        release(b, &f, 1);
    }
    assert_in_range(ports, 200, 256);
}

static int stranger(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    inet_pton(AF_INET, "127.1.2.2", &to.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A sender that chooses any identification: the packet says which. */
static void test_identification_of_others(void **state)
{
    struct sockaddr_in from = {0};
    socklen_t len = sizeof(from);
    struct roce_flow flow = flow_number(0);
    uint8_t sent[ROCE_FRAME_MAX];
    int fd = stranger();

    assert_int_equal(getsockname(fd, (struct sockaddr *)&from, &len), 0);
    flow.sport = ntohs(from.sin_port);
    gid_parse(&flow.src, "127.0.0.1");
    memcpy(flow.src.raw + 12, &from.sin_addr, 4);
    for (unsigned i = 0; i < 4; i++) {
        uint32_t bytes = roce_frame_write(sent, &flow, i);
        uint8_t *l3 = sent + ETH_LEN;
        struct frame f;

        put_be16(l3 + 4, (uint16_t)(0x4242 * i));
        put_be16(l3 + 6, i % 2 ? IPV4_DF : 0);
        icrc_seal(ICRC_IPV4, l3, bytes - ETH_LEN - 4);
        assert_int_equal(send(fd, sent + 42, bytes - 42, 0), bytes - 42);
        f = receive_one(b);
        assert_int_equal(f.len, bytes);
        assert_true(f.icrc_omitted);
        assert_int_equal(get_be16(f.data + ETH_LEN + 4), (uint16_t)(0x4242 * i));
        assert_int_equal(ipv4_sum(f.data + ETH_LEN), 0xFFFF);
        assert_memory_equal(f.data + 42, sent + 42, bytes - 42);
        release(b, &f, 1);
    }
    close(fd);
}

/* Datagrams of any length and content: handed up as wrong, or counted. */
static void test_garbage(void **state)
{
    const struct pktio_counters *count = b->ops->counters(b, 0);
    uint64_t unusable = counter_get(&count->rx_unusable);
    static uint8_t bytes[60000];
    struct random r = {4};
    int fd = stranger();

    for (unsigned i = 0; i < 300; i++) {
        size_t len = i % 3 ? random_below(&r, 80) : random_below(&r, sizeof(bytes));
        struct frame f;

        for (size_t k = 0; k < min_of(len, 100u); k++)
            bytes[k] = (uint8_t)random_next(&r);
        assert_int_equal(send(fd, bytes, len, 0), len);
        while (!receive_within(b, &f, 1, 0)) {
            if (counter_get(&count->rx_unusable) > unusable)
                break;
        }
        if (counter_get(&count->rx_unusable) > unusable) {
            unusable++;
            assert_true(len < 16 || len > 4096);
            continue;
        }
        assert_false(f.icrc_omitted);
        assert_int_equal(f.len, 42 + len);
        assert_memory_equal(f.data + 42, bytes, len);
        release(b, &f, 1);
    }
    close(fd);
}

/* All frames come back to the port: none is lost over many bursts, received or sent. */
static void test_slots(void **state)
{
    struct frame f[FRAME_BURST];
    struct roce_flow flow = flow_number(4);

    for (unsigned round = 0; round < 3000; round++) {
        assert_int_equal(a->ops->tx_lend(a, 0, f, FRAME_BURST), FRAME_BURST);
        f[0].len = roce_frame_write(f[0].data, &flow, round);
        pktio_send(a, 0, f, FRAME_BURST, 1);
        f[0] = receive_one(b);
        release(b, f, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mtu),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_address_in_use),
        cmocka_unit_test(test_frame),
        cmocka_unit_test(test_sealed_frames),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_own_frames),
        cmocka_unit_test(test_source_ports),
        cmocka_unit_test(test_identification_of_others),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_more_follow),
        cmocka_unit_test(test_hop_limits),
    };

    return cmocka_run_group_tests_name("pktio_socket", tests, setup, teardown);
}
