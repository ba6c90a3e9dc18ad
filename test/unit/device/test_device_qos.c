/* SPDX-License-Identifier: BSD-3-Clause */
/* The GID table of a port's addresses, and the effects of its VLANs, RoCE versions and priorities
 * on packets. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "control/device_state.h"
#include "device_app.h"
#include "id_tables.h"

#define GRH       40
#define BOTH      (1u << GID_TYPE_ROCE_V1 | 1u << GID_TYPE_ROCE_V2)
#define FAR_TO    8192 /* offset of received data */
#define RC_MTU    3
#define ALL_SLS   16
#define MULTICAST 0xFFFFFF

static struct event_loop *loop;
static struct rnic *rnic;
static struct app app;
static struct app_cq send_cq, recv_cq;

static struct port_address address(const char *text, uint16_t vlan)
{
    struct port_address a = {.prefix = 24, .vlan = vlan};

    assert_int_equal(gid_parse(&a.gid, text), 0);
    return a;
}

static void open_config(struct port_config pc)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic_with(loop, NULL, pc);
    kit_status = 0;
    app_open(&app, rnic);
    app_cq(&app, &send_cq, 64);
    app_cq(&app, &recv_cq, 64);
}

static void open_port(const struct port_address *a, unsigned n, unsigned gid_types,
                      const struct qos_map *qos)
{
    open_config(
        (struct port_config){.address = a, .addresses = n, .gid_types = gid_types, .qos = qos});
}

static int teardown(void **state)
{
    app_close(&app);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* ---- the GID table ---- */

struct want {
    const char *text;
    enum gid_type type;
};

static void check_table(const struct want *want, unsigned n)
{
    struct ctl_msg m = {.port.port = 1};
    union gid gid;

    assert_int_equal(app_call(&app, CTL_QUERY_PORT, &m), 0);
    assert_int_equal(m.port.gid_tbl_len, n);
    for (unsigned i = 0; i < n; i++) {
        m = (struct ctl_msg){.gid = {.port = 1, .index = i}};
        assert_int_equal(app_call(&app, CTL_QUERY_GID, &m), 0);
        assert_int_equal(gid_parse(&gid, want[i].text), 0);
        assert_memory_equal(m.gid.gid, gid.raw, sizeof(gid.raw));
        assert_int_equal(m.gid.type, want[i].type);
    }
    m = (struct ctl_msg){.gid = {.port = 1, .index = n}};
    assert_int_equal(app_call(&app, CTL_QUERY_GID, &m), -EINVAL);
}

static void test_order(void **state)
{
    const struct port_address a[] = {
        address("fe80::1", VLAN_NONE),  address("fd00::1", VLAN_NONE), address("169.254.3.4", 9),
        address("10.0.0.1", VLAN_NONE), address("fd00::2", 5),         address("10.0.0.2", 5),
    };
    static const struct want want[] = {
        {"10.0.0.1", GID_TYPE_ROCE_V2}, {"10.0.0.2", GID_TYPE_ROCE_V2},
        {"fd00::1", GID_TYPE_ROCE_V2},  {"fd00::2", GID_TYPE_ROCE_V2},
        {"fe80::1", GID_TYPE_ROCE_V2},  {"169.254.3.4", GID_TYPE_ROCE_V2},
        {"10.0.0.1", GID_TYPE_ROCE_V1}, {"10.0.0.2", GID_TYPE_ROCE_V1},
        {"fd00::1", GID_TYPE_ROCE_V1},  {"fd00::2", GID_TYPE_ROCE_V1},
        {"fe80::1", GID_TYPE_ROCE_V1},  {"169.254.3.4", GID_TYPE_ROCE_V1},
    };

    open_port(a, ARRAY_SIZE(a), BOTH, NULL);
    check_table(want, ARRAY_SIZE(want));
}

static void test_one_version(void **state)
{
    const struct port_address a[] = {address("fd00::1", VLAN_NONE), address("10.0.0.1", VLAN_NONE)};
    static const struct want v1[] = {{"10.0.0.1", GID_TYPE_ROCE_V1}, {"fd00::1", GID_TYPE_ROCE_V1}};
    static const struct want v2[] = {{"10.0.0.1", GID_TYPE_ROCE_V2}, {"fd00::1", GID_TYPE_ROCE_V2}};

    open_port(a, 2, 1u << GID_TYPE_ROCE_V1, NULL);
    check_table(v1, 2);
    teardown(NULL);
    open_port(a, 2, 0, NULL);
    check_table(v2, 2);
}

/* ---- packets ---- */

static struct ah_attr path(const char *dgid, uint8_t index, uint8_t sl, uint8_t traffic_class)
{
    struct ah_attr a = app_address(dgid);

    a.sgid_index = index;
    a.sl = sl;
    a.traffic_class = traffic_class;
    return a;
}

static struct cqe completes(struct app_cq *cq, uint64_t wr_id)
{
    struct cqe e;

    assert_true(app_poll(cq, &e));
    assert_int_equal(e.wr_id, wr_id);
    assert_int_equal(e.status, WC_SUCCESS);
    return e;
}

static void ud_pair(struct app_qp *from, struct app_qp *to)
{
    assert_int_equal(app_qp(&app, from, QPT_UD, &send_cq, 0, 0), 0);
    assert_int_equal(app_qp(&app, to, QPT_UD, &recv_cq, 0, 0), 0);
    app_ready(from, 0, 0);
    app_ready(to, 0, 0);
}

/* A datagram of 8 bytes by that path; its completion, and its GRH at FAR_TO. */
static struct cqe datagram(struct app_qp *from, struct app_qp *to, struct ah_attr by, uint32_t qpn)
{
    struct sqe wr = {.wr_id = 1, .opcode = SQE_SEND};
    uint32_t number, handle = app_ah_by(&app, app.pd, by, &number);
    struct cqe e;

    wr.ud.ah = number;
    wr.ud.remote_qpn = qpn;
    wr.ud.remote_qkey = APP_QKEY;
    app_recv(to, 2, FAR_TO, 256);
    app_send(from, wr, 0, 8);
    completes(&send_cq, 1);
    e = completes(&recv_cq, 2);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_AH, handle), 0);
    return e;
}

static json_t *shown_port(void)
{
    char *text = rnic_show(rnic, 0);
    json_t *root, *port = NULL;

    assert_non_null(text);
    root = json_loads(text, 0, NULL);
    assert_int_equal(json_unpack(root, "{s:[{s:[O]}]}", "devices", "ports", &port), 0);
    json_decref(root);
    free(text);
    return port;
}

static uint64_t by_priority(const json_t *port, unsigned priority, const char *name)
{
    json_t *list = json_object_get(json_object_get(port, "qos"), "priorities");

    return (uint64_t)json_integer_value(json_object_get(json_array_get(list, priority), name));
}

/* Every service level in every kind of frame: the tag has the map's priority, the header the map's
 * code point, the counters count it there. */
static void test_service_levels(void **state)
{
    const struct port_address a[] = {address("10.0.0.1", 5), address("fd00::1", 6)};
    const char *const dgid[] = {"10.0.0.1", "fd00::1"};
    const uint16_t vlan[] = {5, 6};
    uint64_t total = 0;
    struct app_qp from, to;
    static const uint8_t kind[] = {CQE_SL_IPV4, CQE_SL_IPV6, 0, 0};
    struct qos_map qos;
    json_t *port;

    qos_map_default(&qos);
    for (unsigned sl = 0; sl < ALL_SLS; sl++)
        qos.sl_to_pcp[sl] = (uint8_t)(7 - sl / 2);
    qos.dscp[46] = 26;
    open_port(a, ARRAY_SIZE(a), BOTH, &qos);
    ud_pair(&from, &to);
    for (uint8_t index = 0; index < 4; index++)
        for (uint8_t sl = 0; sl < ALL_SLS; sl++) {
            uint8_t more = (uint8_t)(index << 4); /* bits that no service level has */
            struct cqe e =
                datagram(&from, &to, path(dgid[index % 2], index, sl | more, 46 << 2), to.qpn);
            const uint8_t *grh = kit_memory + FAR_TO, *v4 = grh + 20;

            assert_int_equal(e.vlan, vlan[index % 2]);
            assert_int_equal(e.sl, sl / 2 == 7 ? kind[index] : 7 - sl / 2);
            if (index == 0) {
                assert_int_equal(v4[0], 0x45);
                assert_int_equal(v4[1], 26 << 2);
            } else {
                assert_int_equal(get_be32(grh) >> 20, 0x600 | 26 << 2);
                assert_int_equal(grh[6], index == 1 ? 17 : 0x1B); /* UDP, or the BTH */
            }
        }
    port = shown_port();
    for (unsigned p = 0; p < QOS_PRIORITIES; p++) {
        assert_int_equal(by_priority(port, p, "tx_packets"), 8);
        assert_int_equal(by_priority(port, p, "rx_packets"), 8);
        assert_int_equal(by_priority(port, p, "rx_bytes"), by_priority(port, p, "tx_bytes"));
        total += by_priority(port, p, "rx_bytes");
    }
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(port, "counters"), "rx_bytes")), total);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(port, "counters"), "tx_packets")), 64);
    json_decref(port);
}

/* Without a tag the class selector decides. */
static void test_untagged_priority(void **state)
{
    const struct port_address a[] = {address("10.0.0.1", VLAN_NONE)};
    struct app_qp from, to;
    json_t *port;

    open_port(a, 1, BOTH, NULL);
    ud_pair(&from, &to);
    for (unsigned i = 0; i < 8; i++) {
        struct cqe e =
            datagram(&from, &to, path("10.0.0.1", i % 2, 3, (uint8_t)(i << 5 | 8)), to.qpn);

        assert_int_equal(e.vlan, VLAN_NONE);
        assert_int_equal(e.sl, i % 2 ? 0 : CQE_SL_IPV4); /* RoCEv1, RoCEv2 */
    }
    port = shown_port();
    for (unsigned p = 0; p < QOS_PRIORITIES; p++)
        assert_int_equal(by_priority(port, p, "rx_packets"), 1);
    json_decref(port);
}

/* The rate of an address handle's path limits it where the port is faster. */
static void test_rates_of_handles(void **state)
{
    static const struct {
        uint8_t code;
        uint64_t rate;
    } wanted[] = {
        {0, 0},  {2, UINT64_C(2500000000)}, {5, UINT64_C(5000000000)}, {3, 0}, {7, 0}, {99, 0},
        {255, 0}};
    const struct port_address a[] = {address("10.0.0.1", VLAN_NONE)};

    open_config((struct port_config){
        .address = a, .addresses = 1, .congestion = {.line = UINT64_C(10000000000)}});
    for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
        struct ah_attr attr = path("10.0.0.1", 0, 0, 0);
        const struct address_handle *limited;
        uint32_t number, handle;

        attr.static_rate = wanted[i].code;
        handle = app_ah_by(&app, app.pd, attr, &number);
        limited = ah_find_limited(rnic->device[0]->ahs, number, app.pd);
        assert_int_equal(limited ? limited->pace.rate : 0, wanted[i].rate);
        assert_int_equal(!ah_find(rnic->device[0]->ahs, number, app.pd), limited != NULL);
        assert_int_equal(app_call_handle(&app, CTL_DESTROY_AH, handle), 0);
    }
}

/* Pause frames are heeded where the port does not do so by itself; what does is shown. */
static void test_flow_control_is_shown(void **state)
{
    static const struct {
        enum pktio_pause asked;
        const char *name, *by;
    } wanted[] = {{PKTIO_PAUSE_DEFAULT, NULL, NULL},
                  {PKTIO_PAUSE_OFF, "off", NULL},
                  {PKTIO_PAUSE_TX, "tx", "port"},
                  {PKTIO_PAUSE_RX, "rx", "uroced"},
                  {PKTIO_PAUSE_BOTH, "both", "uroced"}};
    const struct port_address a[] = {address("10.0.0.1", VLAN_NONE)};

    for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
        json_t *port, *pauses;

        if (i)
            teardown(state);
        open_config(
            (struct port_config){.address = a, .addresses = 1, .flow_control = wanted[i].asked});
        port = shown_port();
        pauses = json_object_get(json_object_get(port, "counters"), "rx_pause_frames");
        if (wanted[i].name)
            assert_string_equal(json_string_value(json_object_get(port, "flow_control")),
                                wanted[i].name);
        else
            assert_null(json_object_get(port, "flow_control"));
        if (wanted[i].by)
            assert_string_equal(json_string_value(json_object_get(port, "flow_control_by")),
                                wanted[i].by);
        else
            assert_null(json_object_get(port, "flow_control_by"));
        assert_int_equal(pauses != NULL, wanted[i].by && !strcmp(wanted[i].by, "uroced"));
        json_decref(port);
    }
}

/* The link-local address of another interface of the host: it contains that one's MAC. */
static void test_link_local_of_the_loopback_device(void **state)
{
    const struct port_address a[] = {address("fe80::fc:ff:fe00:9", VLAN_NONE)};

    open_port(a, 1, BOTH, NULL);
    for (uint8_t index = 0; index < 2; index++) {
        struct ctl_msg m = {.create_ah = {.pd = app.pd}};

        m.create_ah.attr = path("fe80::fc:ff:fe00:9", index, 0, 0);
        assert_int_equal(app_call(&app, CTL_CREATE_AH, &m), 0);
        assert_memory_equal(m.create_ah.dmac, rnic->device[0]->info.mac, 6);
        m = (struct ctl_msg){.create_ah = {.pd = app.pd}};
        m.create_ah.attr = path("fe80::fc:ff:fe00:8", index, 0, 0);
        assert_int_equal(app_call(&app, CTL_CREATE_AH, &m), -EHOSTUNREACH);
    }
}

/* RoCEv1 groups, also as rdma_cm names IPv4 ones. */
static void test_groups_of_version_1(void **state)
{
    const struct port_address a[] = {address("10.0.0.1", 5), address("fd00::1", 5)};
    static const char *const group[] = {"224.0.0.7", "ff0e::ffff:224.0.0.7", "ff12::7"};
    struct app_qp from, to;

    open_port(a, ARRAY_SIZE(a), BOTH, NULL);
    ud_pair(&from, &to);
    for (unsigned g = 0; g < ARRAY_SIZE(group); g++) {
        struct ctl_msg m = {.mcast = {.qpn = to.qpn}};
        union gid gid;

        assert_int_equal(gid_parse(&gid, group[g]), 0);
        memcpy(m.mcast.gid, gid.raw, sizeof(gid.raw));
        assert_int_equal(app_call(&app, CTL_ATTACH_MCAST, &m), 0);
        for (uint8_t index = 2; index < 4; index++) {
            datagram(&from, &to, path(group[g], index, 0, 0), MULTICAST);
            assert_int_equal(kit_memory[FAR_TO + 6], 0x1B);
            assert_memory_equal(kit_memory + FAR_TO + 24, gid.raw, sizeof(gid.raw));
        }
    }
}

static void rc_pair(struct app_qp *x, struct app_qp *y, struct ah_attr x_by, struct ah_attr y_by)
{
    assert_int_equal(app_qp(&app, x, QPT_RC, &send_cq, 0, 0), 0);
    assert_int_equal(app_qp(&app, y, QPT_RC, &recv_cq, 0, 0), 0);
    app_ready_by(x, y->qpn, RC_MTU, x_by);
    app_ready_by(y, x->qpn, RC_MTU, y_by);
}

static uint64_t dropped(const char *reason)
{
    json_t *port = shown_port();
    json_t *drops = json_object_get(json_object_get(port, "counters"), "drops");
    uint64_t n = (uint64_t)json_integer_value(json_object_get(drops, reason));

    json_decref(port);
    return n;
}

/* The first queue pair as `uroce show qps` reports it. */
static void check_shown(const char *type, int sl, int vlan, int pcp, int dscp)
{
    char *text = rnic_show(rnic, 0);
    json_t *root = json_loads(text, 0, NULL), *qp = json_array_get(json_object_get(root, "qps"), 0);

    free(text);
    assert_string_equal(json_string_value(json_object_get(qp, "type")), type);
    assert_int_equal(json_integer_value(json_object_get(qp, "sl")), sl);
    assert_int_equal(json_integer_value(json_object_get(qp, "vlan")), vlan);
    assert_int_equal(json_integer_value(json_object_get(qp, "pcp")), pcp);
    assert_int_equal(json_integer_value(json_object_get(qp, "dscp")), dscp);
    json_decref(root);
}

static void test_path_is_shown(void **state)
{
    const struct port_address a[] = {address("10.0.0.1", 5), address("10.0.0.1", VLAN_NONE)};
    struct app_qp x, y;
    struct qos_map qos;

    qos_map_default(&qos);
    qos.sl_to_pcp[11] = 6;
    qos.dscp[46] = 26;
    open_port(a, ARRAY_SIZE(a), 0, &qos);
    rc_pair(&x, &y, path("10.0.0.1", 0, 11, 46 << 2), path("10.0.0.1", 0, 0, 0));
    check_shown("RC", 11, 5, 6, 26);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, x.qpn), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, y.qpn), 0);
    rc_pair(&x, &y, path("10.0.0.1", 1, 11, 4), path("10.0.0.1", 1, 0, 0));
    check_shown("RC", 11, 0, 0, 1);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, x.qpn), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, y.qpn), 0);
    ud_pair(&x, &y);
    check_shown("UD", 0, 0, 0, 0);
}

/* The port's policy, and the source port of a connection; datagrams and RoCEv1 have none. */
static void test_source_port_is_shown(void **state)
{
    const struct port_address a[] = {address("10.0.0.1", VLAN_NONE)};
    static const int64_t udp_sport[] = {50505, 0, 0}; /* RoCEv2, RoCEv1, UD */
    json_t *port;

    open_config((struct port_config){.address = a,
                                     .addresses = 1,
                                     .gid_types = BOTH,
                                     .entropy = {ENTROPY_FIXED, 50505},
                                     .congestion = {true, 20000, 48, 6},
                                     .repath = 3});
    port = shown_port();
    assert_true(json_is_true(json_object_get(json_object_get(port, "congestion"), "ect")));
    assert_string_equal(json_string_value(json_object_get(port, "entropy")), "fixed:50505");
    assert_int_equal(json_integer_value(json_object_get(port, "repath")), 3);
    json_decref(port);
    for (uint8_t i = 0; i < 3; i++) {
        struct app_qp x, y;
        json_t *root, *qp;
        char *text;

        if (i < 2)
            rc_pair(&x, &y, path("10.0.0.1", i, 0, 0), path("10.0.0.1", i, 0, 0));
        else
            ud_pair(&x, &y);
        text = rnic_show(rnic, 0);
        root = json_loads(text, 0, NULL);
        qp = json_array_get(json_object_get(root, "qps"), 0);
        assert_int_equal(json_integer_value(json_object_get(qp, "udp_sport")), udp_sport[i]);
        assert_int_equal(json_is_integer(json_object_get(qp, "udp_sport")), i == 0);
        assert_true(json_is_integer(json_object_get(qp, "repaths")));
        json_decref(root);
        free(text);
        assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, x.qpn), 0);
        assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, y.qpn), 0);
    }
}

/* Connections within each VLAN and version; between them none, although the addresses are
 * the same. */
static void test_connections_stay_in_their_network(void **state)
{
    const struct port_address a[] = {address("10.0.0.1", 5), address("10.0.0.1", 6),
                                     address("10.0.0.1", VLAN_NONE)};
    struct sqe wr = {.wr_id = 1, .opcode = SQE_SEND};
    struct app_qp x, y;
    struct cqe e;

    open_port(a, ARRAY_SIZE(a), BOTH, NULL);
    for (uint8_t i = 0; i < 6; i++) {
        rc_pair(&x, &y, path("10.0.0.1", i, i, 0), path("10.0.0.1", i, i, 0));
        app_recv(&y, 2, FAR_TO, 4096);
        memset(kit_memory, i + 1, 4096);
        app_send(&x, wr, 0, 4000);
        completes(&recv_cq, 2);
        completes(&send_cq, 1);
        assert_memory_equal(kit_memory, kit_memory + FAR_TO, 4000);
    }
    assert_int_equal(dropped("source_mismatch"), 0);
    for (uint8_t i = 0; i < 6; i++)
        for (uint8_t j = 0; j < 6; j++) {
            uint64_t before = dropped("source_mismatch");

            if (i == j)
                continue;
            rc_pair(&x, &y, path("10.0.0.1", i, 0, 0), path("10.0.0.1", j, 0, 0));
            app_recv(&y, 2, FAR_TO, 64);
            app_send(&x, wr, 0, 8);
            app_run(&app);
            assert_false(app_poll(&recv_cq, &e));
            assert_int_equal(dropped("source_mismatch"), before + 1);
            assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, x.qpn), 0);
            assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, y.qpn), 0);
        }
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        T(test_order),
        T(test_one_version),
        T(test_service_levels),
        T(test_untagged_priority),
        T(test_rates_of_handles),
        T(test_flow_control_is_shown),
        T(test_link_local_of_the_loopback_device),
        T(test_groups_of_version_1),
        T(test_path_is_shown),
        T(test_source_port_is_shown),
        T(test_connections_stay_in_their_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
