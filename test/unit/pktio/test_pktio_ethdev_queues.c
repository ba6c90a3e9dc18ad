/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports with several queues: how many are opened, where frames arrive and where the port predicts
 * them, and flow rules. On a simulated NIC (fake_nic.h) and the kernel's packet sockets.
 */
#include "unit.h"

#include "ethdev_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <rte_version.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "env.h"
#include "fake_nic.h"
#include "frame_layout.h"
#include "roce_frame.h"

#define FLOWS 300

static bool own_network;
static unsigned ports; /* number opened so far, for unique names */

/* The EAL does not free all of its memory, and never unloads its drivers. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct pktio *open_queues(const char *device, unsigned queues)
{
    struct pktio_ethdev_config config = {.device = device, .queues = queues};
    char error[256] = "";
    struct pktio *io = pktio_ethdev_open(&config, error, sizeof(error));

    if (!io)
        fail_msg("%s", error);
    return io;
}

static struct pktio *open_nic(unsigned queues)
{
    char device[32];

    snprintf(device, sizeof(device), "net_ring%u", ports++);
    return open_queues(device, queues);
}

static unsigned queues_of(struct pktio *io)
{
    struct pktio_info info;

    io->ops->info(io, &info);
    return info.queues;
}

/* ---- flows ---- */

/* Flow n of many, between different hosts. */
static struct roce_flow make_flow(unsigned n, bool v6)
{
    struct roce_flow flow = roce_flow_number(n, v6);

    put_be16(flow.src.raw + 13, (uint16_t)(n * 40503));
    flow.dst.raw[15] = (uint8_t)(100 + n % 3);
    return flow;
}

/* The queue on which one frame waits; no other queue has one. */
static unsigned take_one(struct pktio *io)
{
    unsigned found = UINT32_MAX;

    for (unsigned q = 0; q < queues_of(io); q++) {
        struct frame f[4];
        unsigned n = io->ops->rx_burst(io, q, f, 4);

        if (n) {
            assert_int_equal(n, 1);
            assert_int_equal(found, UINT32_MAX);
            found = q;
        }
        io->ops->rx_release(io, q, f, n);
    }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

static unsigned arrives_at(struct pktio *io, const struct roce_flow *flow)
{
    uint8_t frame[ROCE_FRAME_MAX];
    uint16_t len = (uint16_t)roce_frame_write(frame, flow, 1), queue;

    queue = fake_nic_deliver(ethdev_of(io)->port, frame, len);
    assert_int_equal(take_one(io), queue);
    return queue;
}

static unsigned foreseen(const struct rss *rss, const struct roce_flow *flow)
{
    struct rss_frame r = roce_flow_tuple(flow);

    return rss_queue(rss, &r.tuple);
}

/* Every flow arrives at the queue that RSS selects, and each queue gets its share. */
static void assert_foreseen(struct pktio *io, bool v6)
{
    unsigned share[16] = {0}, queues = queues_of(io);
    struct rss *rss = malloc(sizeof(*rss));

    assert_non_null(rss);
    assert_int_equal(io->ops->rss(io, v6, rss), 0);
    for (unsigned n = 0; n < FLOWS; n++) {
        struct roce_flow flow = make_flow(n, v6);
        unsigned queue = arrives_at(io, &flow);

        assert_int_equal(queue, foreseen(rss, &flow));
        share[queue]++;
    }
    for (unsigned q = 0; q < queues; q++)
        assert_true(share[q] > FLOWS / queues / 3);
    free(rss);
}

static uint64_t mismatches(struct pktio *io)
{
    uint64_t sum = 0;

    for (unsigned q = 0; q < queues_of(io); q++)
        sum += counter_get(&io->ops->counters(io, q)->rss_mismatch);
    return sum;
}

static void assert_untold(struct pktio *io)
{
    struct rss *rss = malloc(sizeof(*rss));

    assert_non_null(rss);
    assert_int_equal(io->ops->rss(io, false, rss), -ENOTSUP);
    assert_int_equal(io->ops->rss(io, true, rss), -ENOTSUP);
    free(rss);
}

/* ---- how many queues ---- */

static void test_queues_wanted_and_had(void **state)
{
    static const struct {
        uint16_t had;
        unsigned wanted, opened;
    } rows[] = {{8, 4, 4}, {2, 8, 2}, {8, 1, 1}, {1, 4, 1}, {3, 3, 3}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct pktio *io;

        fake_nic_reset(rows[i].had);
        io = open_nic(rows[i].wanted);
        assert_int_equal(queues_of(io), rows[i].opened);
        for (unsigned q = 0; q < rows[i].opened; q++) {
            assert_non_null(ethdev_of(io)->queue[q].pool);
            assert_int_equal((uintptr_t)&ethdev_of(io)->queue[q] % RTE_CACHE_LINE_SIZE, 0);
        }
        io->ops->close(io);
    }
}

static void test_queues_of_drivers(void **state)
{
    static const struct {
        const char *device;
        unsigned wanted, opened;
        const char *becomes;
    } rows[] = {
        {"net_af_packet0,iface=e", 4, 4, "net_af_packet0,iface=e,qpairs=4"},
        {"net_af_packet0,iface=e", 1, 1, "net_af_packet0,iface=e,qpairs=1"},
        {"net_af_packet0,iface=e", 99, 16, "net_af_packet0,iface=e,qpairs=16"},
        {"net_af_packet0,qpairs=2,iface=e", 4, 2, "net_af_packet0,qpairs=2,iface=e"},
        {"net_af_packet0,qpairs=8,iface=e", 4, 4, "net_af_packet0,qpairs=8,iface=e"},
        {"net_af_packet0,qpairs=x,iface=e", 4, 1, "net_af_packet0,qpairs=x,iface=e"},
        {"net_memif0,role=client", 4, 1, "net_memif0,role=client"},
        {"net_memif0,zero-copy=yes", 4, 1, "net_memif0,zero-copy=yes"},
        {"net_tap0", 4, 4, "net_tap0"},
        {"0000:03:00.0", 4, 4, "0000:03:00.0"},
    };
    char device[64];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(device, sizeof(device), "%s", rows[i].device);
        assert_int_equal(
            ethdev_choose_queues(ethdev_kind_of(device), device, sizeof(device), rows[i].wanted),
            rows[i].opened);
        assert_string_equal(device, rows[i].becomes);
    }
    snprintf(device, sizeof(device), "net_af_packet0,iface=e");
    assert_int_equal(ethdev_choose_queues(ethdev_kind_of(device), device, 28, 4), 0);
}

/* Each queue is a worker's: frames that it sends, to others and to the port itself, use no other
 * queue. */
static void test_queues_keep_to_themselves(void **state)
{
    struct pktio *io;
    struct frame f;

    fake_nic_reset(4);
    io = open_nic(4);
    for (unsigned q = 0; q < 4; q++) {
        for (unsigned own = 0; own < 2; own++) {
            assert_int_equal(io->ops->tx_lend(io, q, &f, 1), 1);
            memset(f.data, 0, 60);
            memcpy(f.data, own ? (const void *)ethdev_of(io)->mac : "\x02\0\0\0\0\x77", 6);
            f.len = 60;
            io->ops->tx_burst(io, q, &f, 1, 1);
            assert_int_equal(take_one(io), q);
        }
        assert_int_equal(counter_get(&io->ops->counters(io, q)->local), 1);
    }
    io->ops->close(io);
}

/* ---- receive-side scaling ---- */

static void test_flows_arrive_as_foreseen(void **state)
{
    static const struct {
        uint16_t queues, reta_size;
        uint8_t key_size;
    } rows[] = {{2, 128, 40}, {4, 64, 52},   {3, 512, 40},  {8, 128, 52},
                {5, 32, 40},  {6, 2048, 52}, {2, 4096, 40}, {2, 2, 64}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct pktio *io;

        fake_nic_reset(rows[i].queues);
        fake_nic.types = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP;
        fake_nic.reta_size = rows[i].reta_size;
        fake_nic.key_size = rows[i].key_size;
        fake_nic.reports_hash = i % 2;
        io = open_nic(16);
        assert_true(fake_nic.rss_on);
        assert_int_equal(fake_nic.types_on & ~RTE_ETH_RSS_UDP & ~RTE_ETH_RSS_IPV6_UDP_EX, 0);
        assert_memory_equal(fake_nic.key, toeplitz_key_microsoft, TOEPLITZ_KEY_LEN);
        assert_foreseen(io, false);
        assert_foreseen(io, true);
        assert_int_equal(mismatches(io), 0);
        io->ops->close(io);
    }
}

/* Ports are not hashed: all flows of two hosts arrive together. */
static void test_hash_of_addresses_only(void **state)
{
    struct pktio *io;
    struct rss rss;

    fake_nic_reset(4);
    fake_nic.types = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
    io = open_nic(4);
    assert_int_equal(fake_nic.types_on, fake_nic.types);
    assert_foreseen(io, false);
    assert_foreseen(io, true);
    assert_int_equal(io->ops->rss(io, false, &rss), 0);
    assert_int_equal(rss.fields, RSS_ADDRESSES);
    assert_int_equal(io->ops->rss(io, true, &rss), 0);
    assert_int_equal(rss.fields, RSS_ALL);
    io->ops->close(io);
    /* One IP version is spread; for the other nothing is known. */
    fake_nic_reset(4);
    fake_nic.types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    io = open_nic(4);
    assert_foreseen(io, false);
    assert_int_equal(io->ops->rss(io, true, &rss), -ENOTSUP);
    io->ops->close(io);
}

/* The port's reported configuration counts, not the requested one. */
static void test_port_that_has_its_own_way(void **state)
{
    struct pktio *io;

    for (unsigned i = 1; i < 4; i++) {
        fake_nic_reset(4);
        fake_nic.types = RTE_ETH_RSS_UDP;
        fake_nic.keeps_key = i & 1;
        fake_nic.keeps_reta = i & 2;
        io = open_nic(4);
        assert_int_equal(!!memcmp(fake_nic.key, toeplitz_key_microsoft, 40), i & 1);
        assert_foreseen(io, false);
        assert_foreseen(io, true);
        assert_int_equal(mismatches(io), 0);
        io->ops->close(io);
    }
    /* It does not even report the length of its key. */
    fake_nic_reset(4);
    fake_nic.types = RTE_ETH_RSS_UDP;
    fake_nic.key_size = 0;
    fake_nic.conf_error = -ENOTSUP;
    io = open_nic(4);
    assert_untold(io);
    io->ops->close(io);
}

static void test_port_that_does_not_tell(void **state)
{
    for (unsigned i = 0; i < 10; i++) {
        struct roce_flow flow = make_flow(1, false);
        struct pktio *io;

        fake_nic_reset(4);
        fake_nic.types = i == 0 ? 0 : RTE_ETH_RSS_UDP;
        fake_nic.conf_error = i == 1 ? -ENOTSUP : 0;
        fake_nic.query_error = i == 2 ? -ENOTSUP : 0;
        fake_nic.answers_empty = i == 3;
        fake_nic.reta_size = i == 4 ? 0 : i == 5 ? 100 : i == 6 ? 2048 : 128;
        fake_nic.keeps_reta = i == 6; /* in a pattern too long for the table */
        fake_nic.refuses_rss = i == 7;
        fake_nic.key_size = i == 8 ? 16 : 40;
        io = open_nic(i == 9 ? 1 : 4);
        assert_int_equal(fake_nic.rss_on, i != 0 && i != 7 && i != 9);
        assert_untold(io);
        if (fake_nic.reta_size)
            arrives_at(io, &flow);
        assert_int_equal(mismatches(io), 0);
        io->ops->close(io);
    }
}

/* It reports one key and hashes with another, or reports a hash that is not its key's. */
static void test_port_that_lies(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        struct pktio *io;
        unsigned n = 0;
        struct rss rss;

        fake_nic_reset(2);
        fake_nic.types = RTE_ETH_RSS_UDP;
        fake_nic.wrong_key = i == 0 ? 0x10 : 0;
        fake_nic.reports_hash = fake_nic.reports_wrong = i == 1;
        io = open_nic(2);
        while (n < FLOWS && !io->ops->rss(io, n % 2, &rss)) {
            struct roce_flow flow = make_flow(n, n % 2);

            arrives_at(io, &flow);
            n++;
        }
        if (i == 2) {
            assert_int_equal(n, FLOWS);
            assert_int_equal(mismatches(io), 0);
        } else {
            assert_true(n >= 5 && n < 4 * ETHDEV_RSS_CHECKS);
            assert_true(mismatches(io) >= 5);
            assert_untold(io);
        }
        io->ops->close(io);
    }
}

static unsigned unchecked(struct pktio *io)
{
    unsigned sum = 0;

    for (unsigned q = 0; q < queues_of(io); q++)
        sum += ethdev_of(io)->queue[q].unchecked[0] + ethdev_of(io)->queue[q].unchecked[1];
    return sum;
}

/* Only the hash of one IP version is wrong, and packets of the other come first. */
static void test_port_that_lies_about_one_version(void **state)
{
    struct pktio *io;
    struct rss rss;
    unsigned n = 0;

    fake_nic_reset(2);
    fake_nic.types = RTE_ETH_RSS_UDP;
    io = open_nic(2);
    for (; n < FLOWS; n++) {
        struct roce_flow flow = make_flow(n, false);

        arrives_at(io, &flow);
    }
    assert_int_equal(mismatches(io), 0);
    fake_nic.wrong_key = 0x10;
    for (n = 0; n < FLOWS && !io->ops->rss(io, true, &rss); n++) {
        struct roce_flow flow = make_flow(n, true);

        arrives_at(io, &flow);
    }
    assert_true(n >= 5 && n < 2 * ETHDEV_RSS_CHECKS);
    assert_untold(io);
    io->ops->close(io);
}

/* Only RoCEv2 packets are compared, and only a limited number. */
static void test_only_the_first_frames_are_compared(void **state)
{
    struct roce_flow flow = make_flow(1, false);
    uint8_t frame[ROCE_FRAME_MAX];
    struct pktio *io;
    uint16_t len;

    fake_nic_reset(2);
    fake_nic.types = RTE_ETH_RSS_UDP;
    io = open_nic(2);
    len = (uint16_t)roce_frame_write(frame, &flow, 1);
    frame[AT_UDP_DPORT + 1]++; /* not RoCE's */
    for (unsigned i = 0; i < ETHDEV_RSS_CHECKS; i++) {
        fake_nic.wrong_key = (uint8_t)(i & 1);
        fake_nic_deliver(ethdev_of(io)->port, frame, len);
        take_one(io);
    }
    assert_int_equal(mismatches(io), 0);
    assert_int_equal(unchecked(io), 4 * ETHDEV_RSS_CHECKS);
    fake_nic.wrong_key = 0;
    for (unsigned n = 0; n < 2 * FLOWS; n++) {
        flow = make_flow(n, n % 2);
        arrives_at(io, &flow);
    }
    assert_int_equal(unchecked(io), 0);
    fake_nic.wrong_key = 0x10;
    for (unsigned n = 0; n < FLOWS; n++) {
        flow = make_flow(n, n % 2);
        arrives_at(io, &flow);
    }
    assert_int_equal(mismatches(io), 0);
    io->ops->close(io);
}

/* ---- rules ---- */

static struct pktio_flow match_of(const struct roce_flow *flow)
{
    return (struct pktio_flow){.src = flow->src, .dst = flow->dst, .sport = flow->sport};
}

static void test_rules_steer_one_flow(void **state)
{
    struct pktio *io;

    fake_nic_reset(4);
    fake_nic.types = RTE_ETH_RSS_UDP;
    fake_nic.rule_room = 4;
    io = open_nic(4);
    for (unsigned v6 = 0; v6 < 2; v6++) {
        for (unsigned to = 0; to < 4; to++) {
            struct roce_flow flow = make_flow(7, v6), others[3] = {flow, flow, flow};
            struct pktio_flow match = match_of(&flow);
            unsigned before = arrives_at(io, &flow), elsewhere[3];
            void *rule = NULL;

            others[0].sport ^= 1;
            others[1].src.raw[15] ^= 1;
            others[2].dst.raw[15] ^= 1;
            for (unsigned i = 0; i < 3; i++)
                elsewhere[i] = arrives_at(io, &others[i]);
            assert_int_equal(io->ops->flow_add(io, &match, to, &rule), 0);
            assert_int_equal(arrives_at(io, &flow), to);
            for (unsigned i = 0; i < 3; i++)
                assert_int_equal(arrives_at(io, &others[i]), elsewhere[i]);
            io->ops->flow_remove(io, rule);
            assert_int_equal(arrives_at(io, &flow), before);
            assert_int_equal(fake_nic.rules, 0);
        }
    }
    /* Frames that a rule redirects do not count as a wrong prediction. */
    assert_int_equal(mismatches(io), 0);
    io->ops->close(io);
}

static void test_rules_by_queue_pair(void **state)
{
    struct roce_flow flow = make_flow(7, true);
    struct pktio_flow match = {.dst = flow.dst, .dest_qpn = flow.dest_qpn};
    struct pktio *io;
    void *rule;

    fake_nic_reset(4);
    fake_nic.types = RTE_ETH_RSS_UDP;
    fake_nic.rule_room = 4;
    io = open_nic(4);
    if (RTE_VERSION < RTE_VERSION_NUM(23, 7, 0, 0)) {
        assert_int_equal(io->ops->flow_add(io, &match, 1, &rule), -ENOTSUP);
    } else {
        unsigned before = arrives_at(io, &flow), to = (before + 1) % 4;

        assert_int_equal(io->ops->flow_add(io, &match, to, &rule), 0);
        assert_int_equal(arrives_at(io, &flow), to);
        /* From any source, but to this destination only. */
        flow.src.raw[15] ^= 1;
        assert_int_equal(arrives_at(io, &flow), to);
        flow.src.raw[15] ^= 1;
        flow.dest_qpn ^= 1;
        assert_int_equal(arrives_at(io, &flow), before);
        io->ops->flow_remove(io, rule);
    }
    io->ops->close(io);
}

static void test_rules_refused(void **state)
{
    static const struct {
        int error, becomes;
    } rows[] = {{-ENOTSUP, -ENOTSUP}, {-EINVAL, -ENOTSUP}, {-ENOSYS, -ENOTSUP}, {-ENOMEM, -ENOSPC},
                {-ENOSPC, -ENOSPC},   {-EEXIST, -EEXIST},  {-EBUSY, -EBUSY}};
    struct roce_flow flow = make_flow(7, false), v6 = make_flow(7, true);
    struct pktio_flow match = match_of(&flow);
    struct pktio *io;
    void *rule;

    fake_nic_reset(2);
    fake_nic.rule_room = 4;
    io = open_nic(2);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        fake_nic.validate_error = rows[i].error;
        assert_int_equal(io->ops->flow_add(io, &match, 1, &rule), rows[i].becomes);
    }
    fake_nic.validate_error = 0;
    assert_int_equal(io->ops->flow_add(io, &match, 2, &rule), -EINVAL);
    match.src = v6.src;
    assert_int_equal(io->ops->flow_add(io, &match, 1, &rule), -EINVAL);
    assert_int_equal(fake_nic.rules, 0);
    io->ops->close(io);
    assert_int_equal(fake_nic.flushes, 0);
}

/* The port holds this many rules, and removes them when it is closed. */
static void test_rules_fill_the_port(void **state)
{
    struct pktio *io;
    void *rule[4];

    fake_nic_reset(2);
    fake_nic.rule_room = 3;
    io = open_nic(2);
    for (unsigned i = 0; i < 4; i++) {
        struct roce_flow flow = make_flow(i, i % 2);
        struct pktio_flow match = match_of(&flow);

        assert_int_equal(io->ops->flow_add(io, &match, 1, &rule[i]), i < 3 ? 0 : -ENOSPC);
    }
    io->ops->flow_remove(io, rule[1]);
    assert_int_equal(fake_nic.rules, 2);
    io->ops->close(io);
    assert_int_equal(fake_nic.rules, 0);
    assert_int_equal(fake_nic.flushes, 1);
}

/* ---- packet sockets: the kernel spreads, and wakes ---- */

static int open_tap(const char *name)
{
    struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR), s = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
    assert_int_equal(ioctl(fd, TUNSETIFF, &ifr), 0);
    assert_int_equal(ioctl(s, SIOCGIFFLAGS, &ifr), 0);
    ifr.ifr_flags |= IFF_UP;
    assert_int_equal(ioctl(s, SIOCSIFFLAGS, &ifr), 0);
    close(s);
    return fd;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* Frames of others, such as the kernel's own, leave no buffer behind. */
static void quieten(struct pktio *io)
{
    for (unsigned q = 0; q < queues_of(io); q++) {
        struct frame f[FRAME_BURST];
        unsigned n;

        do {
            io->ops->wake_arm(io, q);
            n = io->ops->rx_burst(io, q, f, FRAME_BURST);
            io->ops->rx_release(io, q, f, n);
        } while (n || readable(io->ops->wake_fd(io, q)));
    }
}

static void test_packet_sockets_wake_who_has_the_frame(void **state)
{
    unsigned share[4] = {0};
    struct pktio *io;
    int tap;

    if (!own_network || access("/dev/net/tun", R_OK | W_OK))
        skip();
    fake_nic_reset(0);
    tap = open_tap("utap7");
    io = open_queues("net_af_packet7,iface=utap7", 4);
    assert_int_equal(queues_of(io), 4);
    assert_untold(io);
    quieten(io);
    for (unsigned n = 0; n < 64; n++) {
        struct roce_flow flow = make_flow(n, n % 2);
        uint8_t frame[ROCE_FRAME_MAX];
        uint16_t len = (uint16_t)roce_frame_write(frame, &flow, 1);
        unsigned woken = 0, queue = 0;

        assert_int_equal(write(tap, frame, len), len);
        for (unsigned q = 0; q < 4; q++) {
            if (readable(io->ops->wake_fd(io, q))) {
                woken++;
                queue = q;
            }
        }
        assert_int_equal(woken, 1);
        assert_int_equal(take_one(io), queue);
        share[queue]++;
        assert_true(io->ops->wake_arm(io, queue));
    }
    for (unsigned q = 0; q < 4; q++)
        assert_true(share[q] > 2);
    io->ops->close(io);
    close(tap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queues_wanted_and_had),
        cmocka_unit_test(test_queues_of_drivers),
        cmocka_unit_test(test_queues_keep_to_themselves),
        cmocka_unit_test(test_flows_arrive_as_foreseen),
        cmocka_unit_test(test_hash_of_addresses_only),
        cmocka_unit_test(test_port_that_has_its_own_way),
        cmocka_unit_test(test_port_that_does_not_tell),
        cmocka_unit_test(test_port_that_lies),
        cmocka_unit_test(test_port_that_lies_about_one_version),
        cmocka_unit_test(test_only_the_first_frames_are_compared),
        cmocka_unit_test(test_rules_steer_one_flow),
        cmocka_unit_test(test_rules_by_queue_pair),
        cmocka_unit_test(test_rules_refused),
        cmocka_unit_test(test_rules_fill_the_port),
        cmocka_unit_test(test_packet_sockets_wake_who_has_the_frame),
    };
    struct env_config config = {0};
    int failed;

    own_network = !geteuid() && !unshare(CLONE_NEWNET);
    if (env_dpdk.init(&config))
        return EXIT_FAILURE;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    env_dpdk.fini();
    return failed;
}
