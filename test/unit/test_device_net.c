/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices on a network: two of them on one cable, whose IP hosts find each other. The workers do
 * not run; their looks for work and the time are ours. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device_kit.h"
#include "object.h"
#include "sim.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct client *client;
static int async_fd;
static uint32_t pd;
static ns_t now;
static unsigned retries;

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

    assert_int_equal(rnic_add_port(rnic, &pc), 0);
}

/* Lets frames run until nothing moves any more. */
static void settle(void)
{
    bool moved = true;

    while (moved) {
        moved = worker_poll(rnic_worker(rnic, 0), now);
        moved |= event_loop_step(loop, 0);
    }
}

/* The hosts' timers go by their own clock here, so they are called by hand. */
static void pass(ns_t time)
{
    for (ns_t end = now + time; now < end; now += 100 * NS_PER_MS) {
        for (unsigned i = 0; i < 2; i++)
            rnic->device[i]->net.timer.ready(&rnic->device[i]->net.timer, 0);
        settle();
    }
}

static void start(const char *ipv4, const char *ipv6, bool detect)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct rnic_config rc = {
        .workers = 1, .mem = &kit_provider, .version = "kit", .clock = clock_now};
    struct ctl_msg open = {0}, none = {0};
    struct ctl_call call = {0};
    struct pktio *end[2];
    int err;

    now = UINT64_C(1000000000) * NS_PER_SEC; /* the kernel's timers do not get there */
    retries = 0;
    loop = rc.loop = event_loop_create(&err);
    rnic = rnic_create(&rc, &err);
    assert_non_null(rnic);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    add_port(end[0], "10.0.0.1", "fd00::1", false);
    add_port(end[1], ipv4, ipv6, detect);
    rnic_on_retry(rnic, on_retry, NULL);
    client = client_create(rnic, &(struct ucred){.pid = getpid()});
    assert_int_equal(kit_call(client, CTL_OPEN, &open, &call, true), 0);
    close(call.out_fd[0]);
    close(call.out_fd[1]);
    async_fd = call.out_fd[2];
    call = (struct ctl_call){0};
    assert_int_equal(kit_call(client, CTL_ALLOC_PD, &none, &call, false), 0);
    pd = call.reply.handle;
    settle();
}

static int setup(void **state)
{
    start("10.0.0.2", "fd00::2", false);
    return 0;
}

static int teardown(void **state)
{
    client_close(client);
    close(async_fd);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* An address handle from GID entry 0 or 1. Returns the status; the answer in *call. */
static int create_ah(const char *dgid, struct ctl_call *call)
{
    union gid gid = gid_of(dgid);
    struct ctl_msg m = {.create_ah = {.pd = pd, .attr = {.is_global = 1, .port_num = 1}}};

    memcpy(m.create_ah.attr.dgid, gid.raw, 16);
    m.create_ah.attr.sgid_index = !gid_is_ipv4(&gid);
    return kit_call(client, CTL_CREATE_AH, &m, call, false);
}

static void finds_neighbour(const char *dgid)
{
    const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
    struct ctl_call call = {0};

    assert_int_equal(create_ah(dgid, &call), -EINPROGRESS);
    settle();
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
    settle();
    assert_int_equal(retries, 0);
    pass(5 * NS_PER_SEC);
    assert_true(retries > 0);
    /* The failure is remembered for a second; a later attempt asks anew. */
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
    settle();
    assert_int_equal(create_ah("10.0.0.2", &call), 0);
}

static int query_gid_entry(uint32_t index)
{
    struct ctl_msg m = {.gid = {.port = 1, .index = index}};
    struct ctl_call call = {0};

    return kit_call(client, CTL_QUERY_GID, &m, &call, false);
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
    /* The others kept their places. */
    assert_int_equal(query_gid_entry(0), 0);
    assert_int_equal(query_gid_entry(1), 0);
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

/* ---- a peer that moves ---- */

static uint32_t create_cq(void)
{
    struct ctl_msg m = {.create_cq.cqe = 16};
    struct ctl_call call = {0};

    assert_int_equal(kit_call(client, CTL_CREATE_CQ, &m, &call, false), 0);
    return call.reply.create_cq.handle;
}

static struct qp_object *create_qp(uint32_t type)
{
    uint32_t cq = create_cq();
    struct ctl_msg m = {.create_qp = {.pd = pd, .send_cq = cq, .recv_cq = cq, .type = type}};
    struct ctl_call call = {0};

    m.create_qp.caps = (struct qp_caps){1, 1, 1, 1, 0};
    assert_int_equal(kit_call(client, CTL_CREATE_QP, &m, &call, false), 0);
    return qp_object_get(client, call.reply.create_qp.qpn);
}

static int modify(struct qp_object *q, uint32_t mask, struct qp_attr attr)
{
    struct ctl_msg m = {.modify_qp = {.qpn = q->o.handle, .mask = mask | QPA_STATE, .attr = attr}};
    struct ctl_call call = {0};

    return kit_call(client, CTL_MODIFY_QP, &m, &call, false);
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

/* "10.0.0.2 is at mac", as if it had come in on device 0. */
static void arp_reply(const uint8_t mac[6])
{
    uint8_t f[60] = {2, 0, 0, 0, 0, 1, [12] = 8, 6, 0, 1, 8, 0, 6, 4, 0, 2};
    struct device_net *n = &rnic->device[0]->net;

    memcpy(f + 6, mac, 6);
    memcpy(f + 22, mac, 6);
    memcpy(f + 28, (uint8_t[]){10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1}, 14);
    assert_true(frame_ring_put(n->slow.up, f, sizeof(f)));
    n->frames.ready(&n->frames, 0);
}

static void test_queue_pairs_follow(void **state)
{
    const uint8_t other[6] = {2, 0, 0, 0, 0, 0x22};
    struct qp_object *q = create_qp(QPT_RC), *unconnected = create_qp(QPT_RC);
    struct ctl_call call = {0};

    to_init(q);
    assert_int_equal(to_rtr(q, "10.0.0.2", 1), -EINPROGRESS);
    settle();
    assert_int_equal(to_rtr(q, "10.0.0.2", 1), 0);
    assert_int_equal(create_ah("10.0.0.2", &call), 0);
    assert_int_equal(qp_address_vector(q->dp.qp)->dmac[5], 2);
    arp_reply(other);
    assert_memory_equal(qp_address_vector(q->dp.qp)->dmac, other, 6);
    assert_int_equal(qp_address_vector(unconnected->dp.qp)->dmac[5], 0);
    assert_int_equal(create_ah("10.0.0.2", &call), 0);
    assert_memory_equal(call.reply.create_ah.dmac, other, 6);
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
    return kit_call(client, type, &m, &call, false);
}

static void test_port_is_member_while_queue_pairs_are(void **state)
{
    struct qp_object *q = create_qp(QPT_UD), *r = create_qp(QPT_UD);
    struct client *other = client_create(rnic, &(struct ucred){.pid = getpid()});

    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), 0);
    assert_int_equal(mcast(CTL_ATTACH_MCAST, q), 0);
    assert_int_equal(mcast(CTL_ATTACH_MCAST, r), 0);
    assert_int_equal(members(), 2);
    assert_int_equal(mcast(CTL_DETACH_MCAST, q), 0);
    assert_int_equal(mcast(CTL_DETACH_MCAST, q), -EINVAL);
    assert_int_equal(members(), 1);
    /* The program ends without a word. */
    client_close(client);
    assert_int_equal(members(), 0);
    client = other;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_arp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_route, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_addresses_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicate_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queue_pairs_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_port_is_member_while_queue_pairs_are, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
