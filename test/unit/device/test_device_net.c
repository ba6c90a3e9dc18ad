/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices on a network: two of them on one cable, whose IP hosts resolve each other. The workers do
 * not run by themselves: the test calls their polls and sets the time. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"
#include "frame_layout.h"
#include "sim.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct session *session;
static int async_fd;
static uint32_t pd;
static ns_t now;
static unsigned retries;
static int exception_fd = -1;             /* of the first port; -1: none */
static void (*prepare)(struct pktio *io); /* replaces the second port in a test */

static ns_t clock_now(void)
{
    return now;
}

static void on_retry(void *ctx)
{
    retries++;
}

static union gid gid_of(const char *text)
{
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    return gid;
}

static void add_port(struct pktio *io, const char *ipv4, const char *ipv6, bool detect)
{
    struct port_address address[2] = {{.gid = gid_of(ipv4), .prefix = 24, .vlan = VLAN_NONE},
                                      {.gid = gid_of(ipv6), .prefix = 64, .vlan = VLAN_NONE}};
    struct port_config pc = {
        .io = io, .address = address, .addresses = 2, .detect_duplicates = detect};

    if (exception_fd >= 0 && !rnic->devices)
        pc.exception_fd = &exception_fd;
    assert_int_equal(rnic_add_port(rnic, &pc), 0);
}

/* Delivers frames until all queues are empty. */
static void run_until_idle(void)
{
    bool moved = true;

    while (moved) {
        moved = worker_poll(rnic_worker(rnic, 0), now);
        moved |= event_loop_step(loop, 0);
    }
}

/* The hosts' timers use a clock of their own here, so the test calls them. */
static void pass(ns_t time)
{
    for (ns_t end = now + time; now < end; now += 100 * NS_PER_MS) {
        for (unsigned i = 0; i < 2; i++)
            rnic->device[i]->net.timer.ready(&rnic->device[i]->net.timer, 0);
        run_until_idle();
    }
}

static void start(const char *ipv4, const char *ipv6, bool detect)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct rnic_config rc = {.workers = 1,
                             .mem = &kit_provider,
                             .version = "kit",
                             .clock = clock_now,
                             .secret = kit_secret};
    struct ctl_msg open = {0}, none = {0};
    struct ctl_call call = {0};
    struct pktio *end[2];
    int err;

    now = UINT64_C(1000000000) * NS_PER_SEC; /* beyond the kernel's timers */
    retries = 0;
    loop = rc.loop = event_loop_create(&err);
    rnic = rnic_create(&rc, &err);
    assert_non_null(rnic);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    if (prepare)
        prepare(end[1]);
    add_port(end[0], "10.0.0.1", "fd00::1", false);
    add_port(end[1], ipv4, ipv6, detect);
    rnic_on_retry(rnic, on_retry, NULL);
    session = session_create(rnic, &(struct ucred){.pid = getpid()});
    assert_int_equal(kit_call(session, CTL_OPEN, &open, &call, true), 0);
    close(call.out_fd[0]);
    async_fd = call.out_fd[1];
    close(call.out_fd[2]);
    call = (struct ctl_call){0};
    assert_int_equal(kit_call(session, CTL_ALLOC_PD, &none, &call, false), 0);
    pd = call.reply.handle;
    run_until_idle();
}

static int setup(void **state)
{
    prepare = NULL;
    start("10.0.0.2", "fd00::2", false);
    return 0;
}

static int teardown(void **state)
{
    session_close(session);
    close(async_fd);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* An address handle from GID entry 0 or 1. Returns the status, with the reply in *call. */
static int create_ah(const char *dgid, struct ctl_call *call)
{
    union gid gid = gid_of(dgid);
    struct ctl_msg m = {.create_ah = {.pd = pd, .attr = {.is_global = 1, .port_num = 1}}};

    memcpy(m.create_ah.attr.dgid, gid.raw, 16);
    m.create_ah.attr.sgid_index = !gid_is_ipv4(&gid);
    return kit_call(session, CTL_CREATE_AH, &m, call, false);
}

static void finds_neighbour(const char *dgid)
{
    const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
    struct ctl_call call = {0};

    assert_int_equal(create_ah(dgid, &call), -EINPROGRESS);
    run_until_idle();
    assert_int_equal(retries, 1);
    assert_int_equal(create_ah(dgid, &call), 0);
    assert_memory_equal(call.reply.create_ah.dmac, mac, 6);
}

static void test_arp(void **state)
{
    finds_neighbour("10.0.0.2");
}

static void test_nd(void **state)
{
    finds_neighbour("fd00::2");
}

static void test_nobody_answers(void **state)
{
    struct ctl_call call = {0};

    assert_int_equal(create_ah("10.0.0.77", &call), -EINPROGRESS);
    run_until_idle();
    assert_int_equal(retries, 0);
    pass(5 * NS_PER_SEC);
    assert_true(retries > 0);
    /* The failure is remembered for a second; a later attempt sends requests again. */
    assert_int_equal(create_ah("10.0.0.77", &call), -EINPROGRESS);
    pass(3 * NS_PER_SEC + 200 * NS_PER_MS);
    assert_int_equal(create_ah("10.0.0.77", &call), -EHOSTUNREACH);
}

static void test_no_route(void **state)
{
    struct ctl_call call = {0};

    assert_int_equal(create_ah("192.0.2.1", &call), -ENETUNREACH);
}

static void test_nobody_waits(void **state)
{
    struct ctl_call call = {0};

    rnic_on_retry(rnic, NULL, NULL);
    assert_int_equal(create_ah("10.0.0.2", &call), -EHOSTUNREACH);
    run_until_idle();
    assert_int_equal(create_ah("10.0.0.2", &call), 0);
}

static int query_gid_entry(uint32_t index)
{
    struct ctl_msg m = {.gid = {.port = 1, .index = index}};
    struct ctl_call call = {0};

    return kit_call(session, CTL_QUERY_GID, &m, &call, false);
}

static void gid_change_told(void)
{
    struct ctl_async_event e;

    assert_int_equal(recv(async_fd, &e, sizeof(e), MSG_DONTWAIT), sizeof(e));
    assert_int_equal(e.type, PORT_EVENT_GID_CHANGE);
    assert_int_equal(e.element, 1);
}

static void test_addresses_come_and_go(void **state)
{
    struct port_address a = {.gid = gid_of("10.0.0.9"), .prefix = 24, .vlan = VLAN_NONE};

    assert_int_equal(query_gid_entry(2), -EINVAL);
    assert_int_equal(rnic_add_address(rnic, 0, &a), 0);
    gid_change_told();
    assert_int_equal(query_gid_entry(2), 0);
    assert_int_equal(rnic_add_address(rnic, 0, &a), -EEXIST);
    assert_int_equal(rnic_remove_address(rnic, 0, &a.gid, VLAN_NONE), 0);
    gid_change_told();
    assert_int_equal(query_gid_entry(2), -ENOENT);
    assert_int_equal(rnic_remove_address(rnic, 0, &a.gid, VLAN_NONE), -ENOENT);
    /* The others kept their indices. */
    assert_int_equal(query_gid_entry(0), 0);
    assert_int_equal(query_gid_entry(1), 0);
}

/* The interface that programs see of a GID entry. */
static uint32_t interface_of_entry(uint32_t index)
{
    struct ctl_msg m = {.gid = {.port = 1, .index = index}};
    struct ctl_call call = {0};

    assert_int_equal(kit_call(session, CTL_QUERY_GID, &m, &call, false), 0);
    return call.reply.gid.ifindex;
}

static void test_interface_of_an_address(void **state)
{
    struct port_address a = {
        .gid = gid_of("10.0.0.9"), .prefix = 24, .vlan = VLAN_NONE, .ifindex = 7};
    struct port_address tagged = {.gid = a.gid, .prefix = 24, .vlan = 5};
    uint32_t port = interface_of_entry(0);

    assert_int_equal(rnic_address_interface(rnic, 0, &a.gid, 8), -ENOENT);
    assert_int_equal(rnic_add_address(rnic, 0, &a), 0);
    assert_int_equal(rnic_add_address(rnic, 0, &tagged), 0);
    assert_int_equal(interface_of_entry(2), 7);
    assert_int_equal(rnic_address_interface(rnic, 0, &a.gid, 8), 0);
    assert_int_equal(interface_of_entry(2), 8);
    assert_int_equal(interface_of_entry(3), port);
    assert_int_equal(interface_of_entry(0), port);
    assert_int_equal(rnic_address_interface(rnic, 0, &a.gid, 0), 0);
    assert_int_equal(interface_of_entry(2), port);
    assert_int_equal(rnic_remove_address(rnic, 0, &a.gid, VLAN_NONE), 0);
    assert_int_equal(rnic_address_interface(rnic, 0, &a.gid, 8), -ENOENT);
}

/* Device 0's timer is set, or has expired. */
static bool timer_is_armed(void)
{
    struct pollfd timer = {.fd = rnic->device[0]->net.timer.fd, .events = POLLIN};
    struct itimerspec left;

    assert_int_equal(timerfd_gettime(timer.fd, &left), 0);
    return left.it_value.tv_sec || left.it_value.tv_nsec || poll(&timer, 1, 2000) == 1;
}

/* The solicited-node group is left, joined, and left: each time a report is due. */
static void test_reports_are_not_late(void **state)
{
    union gid gid = gid_of("fd00::1");

    for (unsigned i = 0; i < 3; i++) {
        pass(5 * NS_PER_SEC);
        assert_true(net_host_next_timer(rnic->device[0]->net.host) == NS_NEVER);
        if (i < 2)
            assert_int_equal(rnic_answered(rnic, 0, &gid, !i), 0);
        else
            assert_int_equal(rnic_remove_address(rnic, 0, &gid, VLAN_NONE), 0);
        assert_true(timer_is_armed());
    }
}

static void test_duplicate_is_given_up(void **state)
{
    union gid taken = gid_of("10.0.0.1");

    teardown(state);
    start("10.0.0.1", "fd00::2", true);
    pass(10 * NS_PER_SEC);
    assert_int_equal(gid_table_find(&rnic->device[1]->gids, &taken, GID_TYPE_ROCE_V2, VLAN_NONE),
                     -ENOENT);
    assert_int_equal(rnic->device[1]->gids.entry[1].valid, true);
    assert_int_equal(rnic->device[0]->gids.entry[0].valid, true);
}

static bool has_gid(unsigned device, const char *address)
{
    union gid gid = gid_of(address);

    return gid_table_find(&rnic->device[device]->gids, &gid, GID_TYPE_ROCE_V2, VLAN_NONE) >= 0;
}

/* "spa is at 02:00:00:00:00:33", as if received on device 1. */
static void claim(const char *spa)
{
    uint8_t f[60] = {[12] = 8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
    const uint8_t mac[6] = {2, 0, 0, 0, 0, 0x33};
    struct device_net *n = &rnic->device[1]->net;
    union gid gid = gid_of(spa);

    memset(f, 0xFF, 6);
    memcpy(f + ETH_SMAC_OFF, mac, 6);
    memcpy(f + ETH_LEN + ARP_SHA_OFF, mac, 6);
    memcpy(f + ETH_LEN + ARP_SPA_OFF, gid.raw + 12, 4);
    memcpy(f + ETH_LEN + ARP_TPA_OFF, gid.raw + 12, 4);
    assert_true(frame_ring_put(n->slow.up, f, sizeof(f)));
}

static void test_many_duplicates_at_once(void **state)
{
    struct device_net *n;
    char text[16];

    teardown(state);
    start("10.0.0.2", "fd00::2", true);
    n = &rnic->device[1]->net;
    for (unsigned i = 0; i < 40; i++) {
        struct port_address a = {.prefix = 24, .vlan = VLAN_NONE};

        snprintf(text, sizeof(text), "10.0.1.%u", i);
        a.gid = gid_of(text);
        assert_int_equal(rnic_add_address(rnic, 1, &a), 0);
        claim(text);
    }
    n->frames.ready(&n->frames, 0);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(text, sizeof(text), "10.0.1.%u", i);
        assert_false(has_gid(1, text));
    }
    assert_true(has_gid(1, "10.0.0.2"));
}

/* ---- the link ---- */

static bool link_is_up;
static const char *interface = "eth1";
static struct pktio_ops link_ops;
static void (*sim_info)(struct pktio *io, struct pktio_info *info);

static void info_with_link(struct pktio *io, struct pktio_info *info)
{
    sim_info(io, info);
    info->link_up = link_is_up;
    info->ifindex = 7;
    strcpy(info->netdev, interface);
}

static int no_link_fd(struct pktio *io)
{
    return -1;
}

static void link_set(bool up)
{
    struct device_net *n = &rnic->device[1]->net;

    link_is_up = up;
    n->link.ready(&n->link, 0);
    run_until_idle();
}

static void with_link(struct pktio *io)
{
    link_ops = *io->ops;
    sim_info = link_ops.info;
    link_ops.info = info_with_link;
    link_ops.link_fd = no_link_fd;
    io->ops = &link_ops;
}

/* As with most NICs: frames sent before that are lost. */
static void test_link_comes_up_after_the_start(void **state)
{
    const struct net_counters *count;

    teardown(state);
    link_is_up = false;
    prepare = with_link;
    start("10.0.0.2", "fd00::2", true);
    count = net_host_counters(rnic->device[1]->net.host);
    pass(10 * NS_PER_SEC);
    assert_int_equal(count->arp_tx + count->nd_tx, 0);
    link_set(true);
    pass(10 * NS_PER_SEC);
    assert_int_equal(count->arp_tx, 3 + 2); /* probes, announcements */
    assert_int_equal(count->nd_tx, 1 + 2);
    assert_true(has_gid(1, "10.0.0.2"));
}

/* Its owner disconnected while the link was down. */
static void test_duplicate_comes_back(void **state)
{
    struct device_net *n;

    teardown(state);
    link_is_up = true;
    prepare = with_link;
    start("10.0.0.2", "fd00::2", true);
    n = &rnic->device[1]->net;
    claim("10.0.0.2");
    n->frames.ready(&n->frames, 0);
    assert_false(has_gid(1, "10.0.0.2"));
    link_set(false);
    link_set(true);
    pass(10 * NS_PER_SEC);
    assert_true(has_gid(1, "10.0.0.2"));
    assert_int_equal(rnic->device[1]->gids.len, 2);
}

/* ---- a peer that moves ---- */

static uint32_t create_cq(void)
{
    struct ctl_msg m = {.create_cq.cqe = 16};
    struct ctl_call call = {0};

    assert_int_equal(kit_call(session, CTL_CREATE_CQ, &m, &call, false), 0);
    return call.reply.create_cq.handle;
}

static struct qp_object *create_qp(uint32_t type)
{
    uint32_t cq = create_cq();
    struct ctl_msg m = {.create_qp = {.pd = pd, .send_cq = cq, .recv_cq = cq, .type = type}};
    struct ctl_call call = {0};

    m.create_qp.caps = (struct qp_caps){1, 1, 1, 1, 0};
    assert_int_equal(kit_call(session, CTL_CREATE_QP, &m, &call, false), 0);
    return qp_object_get(session, call.reply.create_qp.qpn);
}

static int modify(struct qp_object *q, uint32_t mask, struct qp_attr attr)
{
    struct ctl_msg m = {.modify_qp = {.qpn = q->o.handle, .mask = mask | QPA_STATE, .attr = attr}};
    struct ctl_call call = {0};

    return kit_call(session, CTL_MODIFY_QP, &m, &call, false);
}

static int to_rtr(struct qp_object *q, const char *dgid, uint32_t mtu)
{
    struct qp_attr attr = {.state = QPS_RTR,
                           .path_mtu = mtu,
                           .dest_qpn = 0x11,
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 1,
                           .ah = {.is_global = 1, .port_num = 1}};
    union gid gid = gid_of(dgid);

    memcpy(attr.ah.dgid, gid.raw, 16);
    return modify(q,
                  QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
                      QPA_MIN_RNR_TIMER,
                  attr);
}

static void to_init(struct qp_object *q)
{
    assert_int_equal(modify(q, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                            (struct qp_attr){.state = QPS_INIT, .port_num = 1}),
                     0);
}

/* "10.0.0.2 is at mac", as if received on device 0. */
static void arp_reply(const uint8_t mac[6])
{
    uint8_t f[60] = {2, 0, 0, 0, 0, 1, [12] = 8, 6, 0, 1, 8, 0, 6, 4, 0, 2};
    struct device_net *n = &rnic->device[0]->net;

    memcpy(f + ETH_SMAC_OFF, mac, 6);
    memcpy(f + ETH_LEN + ARP_SHA_OFF, mac, 6);
    memcpy(f + ETH_LEN + ARP_SPA_OFF, (uint8_t[]){10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1}, 14);
    assert_true(frame_ring_put(n->slow.up, f, sizeof(f)));
    n->frames.ready(&n->frames, 0);
}

static void test_queue_pairs_follow(void **state)
{
    const uint8_t other[6] = {2, 0, 0, 0, 0, 0x22};
    struct qp_object *q = create_qp(QPT_RC), *unconnected = create_qp(QPT_RC);
    struct ctl_call call = {0};
    enum { MANY = 100 };
    struct ah *ah[MANY];
    uint64_t calls;

    to_init(q);
    assert_int_equal(to_rtr(q, "10.0.0.2", 1), -EINPROGRESS);
    run_until_idle();
    assert_int_equal(to_rtr(q, "10.0.0.2", 1), 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(create_ah("10.0.0.2", &call), 0);
        ah[i] =
            container_of(handle_get(&rnic->device[0]->handles[OBJ_AH], call.reply.create_ah.handle),
                         struct ah, o);
    }
    calls = counter_get(&worker_stats(rnic_worker(rnic, 0))->calls);
    assert_int_equal(qp_address_vector(q->dp.qp)->dmac[5], 2);
    arp_reply(other);
    assert_memory_equal(qp_address_vector(q->dp.qp)->dmac, other, 6);
    run_until_idle();
    for (unsigned i = 0; i < MANY; i++)
        assert_memory_equal(address_handle_vector(ah[i]->handle)->dmac, other, 6);
    /* Few interruptions of the workers. */
    calls = counter_get(&worker_stats(rnic_worker(rnic, 0))->calls) - calls;
    assert_in_range(calls, 2, 10);
    assert_int_equal(qp_address_vector(unconnected->dp.qp)->dmac[5], 0);
    assert_int_equal(create_ah("10.0.0.2", &call), 0);
    assert_memory_equal(call.reply.create_ah.dmac, other, 6);
}

/* ---- the exception path ---- */

static int with_exception(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    return fd[0];
}

static void test_deleted_tap(void **state)
{
    struct device_net *n;
    int fd[2];

    teardown(state);
    exception_fd = with_exception(fd);
    start("10.0.0.2", "fd00::2", false);
    exception_fd = -1;
    n = &rnic->device[0]->net;
    assert_int_equal(send(fd[1], "a frame of the kernel's", 24, 0), 24);
    run_until_idle();
    assert_int_equal(counter_get(&n->slow.down_frames), 1);
    assert_int_equal(n->exception_lost, 0);
    close(fd[1]);
    for (unsigned i = 0; i < 10 && event_loop_step(loop, 0); i++)
        ;
    assert_false(event_loop_step(loop, 0)); /* it does not spin */
    assert_int_equal(n->exception.fd, -1);
    arp_reply((const uint8_t[6]){2, 0, 0, 0, 0, 3});
    assert_int_equal(n->exception_lost, 1);
}

/* The tap device was set to a larger MTU than the port's. */
static void test_tap_with_another_mtu(void **state)
{
    static const uint8_t frame[9000];
    struct device *d;
    uint32_t most;
    int fd[2];

    teardown(state);
    exception_fd = with_exception(fd);
    start("10.0.0.2", "fd00::2", false);
    exception_fd = -1;
    d = rnic->device[0];
    most = d->info.mtu + 18;
    assert_true(most < sizeof(frame));
    assert_int_equal(send(fd[1], frame, most, 0), most);
    assert_int_equal(send(fd[1], frame, most + 1, 0), most + 1);
    run_until_idle();
    assert_int_equal(counter_get(&d->net.slow.down_frames), 1);
    assert_int_equal(d->net.slow.down_lost, 1);
    close(fd[1]);
}

/* Programs cannot send longer frames either. */
static void test_longest_raw_frame(void **state)
{
    struct device *d = rnic->device[0];

    assert_true(d->info.mtu);
    assert_int_equal(d->encap.max_frame, d->info.mtu + 18);
}

static void test_failure_keeps_no_descriptor(void **state)
{
    struct pktio_sim_config sc = {.seed = 1};
    struct port_address address[2] = {{.gid = gid_of("10.0.0.1"), .vlan = VLAN_NONE}};
    struct pktio *end[2];
    int fd[2], tap = with_exception(fd);
    struct port_config pc = {
        .address = address, .addresses = 2, .exception_fd = &tap, .detect_duplicates = true};

    address[1] = address[0];
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(rnic, &pc), -EINVAL);
    assert_int_equal(recv(fd[1], &address, 1, MSG_DONTWAIT), 0); /* the other end is closed */
    close(fd[1]);
    end[1]->ops->close(end[1]);
}

/* ---- groups ---- */

static void count_group(void *ctx, const union gid *group, uint16_t vlan, unsigned members)
{
    union gid wanted = gid_of("239.1.2.3");

    if (gid_eq(group, &wanted))
        *(unsigned *)ctx += members;
}

static unsigned members(void)
{
    unsigned n = 0;

    net_host_each_group(rnic->device[0]->net.host, &n, count_group);
    return n;
}

static int mcast(enum ctl_type type, struct qp_object *q)
{
    struct ctl_msg m = {.mcast.qpn = q->o.handle};
    struct ctl_call call = {0};
    union gid group = gid_of("239.1.2.3");

    memcpy(m.mcast.gid, group.raw, 16);
    return kit_call(session, type, &m, &call, false);
}

static void test_port_is_member_while_queue_pairs_are(void **state)
{
    struct qp_object *q = create_qp(QPT_UD), *r = create_qp(QPT_UD);
    struct session *other = session_create(rnic, &(struct ucred){.pid = getpid()});

    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), 0);
    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), 0);
    assert_int_equal(mcast(CTL_ATTACH_MCAST, r), 0);
    assert_int_equal(members(), 2);
    assert_int_equal(mcast(CTL_DETACH_MCAST, q), 0);
    assert_int_equal(mcast(CTL_DETACH_MCAST, q), -EINVAL);
    assert_int_equal(members(), 1);
    /* The program exits without leaving its groups. */
    session_close(session);
    assert_int_equal(members(), 0);
    session = other;
}

static void address_in_vlan(bool add, uint16_t vlan)
{
    struct port_address a = {.gid = gid_of("10.9.0.1"), .prefix = 24, .vlan = vlan};

    if (add)
        assert_int_equal(rnic_add_address(rnic, 0, &a), 0);
    else
        assert_int_equal(rnic_remove_address(rnic, 0, &a.gid, vlan), 0);
}

/* One queue pair attaches before a VLAN exists, one after: each leaves the groups that it
 * joined. */
static void test_groups_follow_vlans(void **state)
{
    struct qp_object *q = create_qp(QPT_UD), *r = create_qp(QPT_UD);

    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), 0);
    address_in_vlan(true, 7);
    assert_int_equal(members(), 2);
    assert_int_equal(mcast(CTL_ATTACH_MCAST, r), 0);
    assert_int_equal(members(), 4);
    assert_int_equal(mcast(CTL_DETACH_MCAST, q), 0);
    assert_int_equal(members(), 2);
    address_in_vlan(false, 7);
    assert_int_equal(members(), 1);
    address_in_vlan(true, 8);
    address_in_vlan(false, 8);
    assert_int_equal(mcast(CTL_DETACH_MCAST, r), 0);
    assert_int_equal(members(), 0);
}

/* There is room in one VLAN but not in the other: it becomes a member in neither. */
static void test_group_without_room(void **state)
{
    struct qp_object *q = create_qp(QPT_UD);
    struct net_host *h = rnic->device[0]->net.host;
    union gid other = gid_of("239.2.0.0");

    address_in_vlan(true, 7);
    for (unsigned i = 0; i < NET_GROUP_MAX; i++) { /* in one of the two VLANs */
        other.raw[15] = (uint8_t)i;
        assert_int_equal(net_host_join(h, &other, VLAN_NONE, now), 0);
    }
    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), -ENOMEM);
    assert_int_equal(members(), 0);
    net_host_leave(h, &other, VLAN_NONE, now);
    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), 0);
    assert_int_equal(members(), 2);
}

/* An interface of the kernel may have any bytes in its name, but JSON has UTF-8 alone. */
static void test_name_of_an_interface(void **state)
{
    json_t *root, *port;
    char *text;

    strcpy(rnic->device[0]->info.netdev, "\xff\x1b[0m");
    text = rnic_show(rnic, 0);
    assert_non_null(text);
    root = json_loads(text, 0, NULL);
    port = json_array_get(
        json_object_get(json_array_get(json_object_get(root, "devices"), 0), "ports"), 0);
    assert_string_equal(json_string_value(json_object_get(port, "netdev")), "\\xff\\x1b[0m");
    json_decref(root);
    free(text);
}

static void expect_interface(const char *name)
{
    struct session *other = session_create(rnic, &(struct ucred){.pid = getpid()});
    struct ctl_msg open = {.device.index = 1}, port = {.port.port = 1};
    struct ctl_call call = {0};

    assert_int_equal(kit_call(other, CTL_OPEN, &open, &call, true), 0);
    while (call.out_fds)
        close(call.out_fd[--call.out_fds]);
    assert_int_equal(kit_call(other, CTL_QUERY_PORT, &port, &call, false), 0);
    assert_string_equal(call.reply.port.netdev, name);
    session_close(other);
}

/* Another interface may have the old name by then. */
static void test_interface_is_renamed(void **state)
{
    teardown(state);
    link_is_up = true;
    prepare = with_link;
    start("10.0.0.2", "fd00::2", true);
    expect_interface("eth1");
    interface = "lan0";
    expect_interface("lan0");
    interface = "eth1";
}

/* By the clock that runs on, whatever the time of day is set to. */
static void test_uptime(void **state)
{
    json_t *root;
    char *text;

    now += 5 * NS_PER_SEC;
    text = rnic_show(rnic, 0);
    assert_non_null(text);
    root = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(root, "uptime_s")), 5);
    json_decref(root);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_uptime, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_route, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_addresses_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interface_of_an_address, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reports_are_not_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicate_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_duplicates_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicate_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link_comes_up_after_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queue_pairs_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_tap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tap_with_another_mtu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longest_raw_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failure_keeps_no_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_port_is_member_while_queue_pairs_are, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups_follow_vlans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_without_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_name_of_an_interface, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interface_is_renamed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
