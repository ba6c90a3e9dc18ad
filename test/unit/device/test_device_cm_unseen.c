/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the daemon refuses, since a listener's program could only fail to accept them. */
#include <string.h>

#include "cm/cm_address.h"
#include "cm_msg.h"
#include "sides.h"
#include "unit.h"

/* ---- another type of queue pair ---- */

/* As rdma_create_id and rdma_create_ep make a listener. */
static void listen_for(const struct side *s, uint32_t ps, uint32_t qp_type)
{
    struct ctl_msg m = {.cm_id = {.channel = s->channel, .ps = ps, .qp_type = qp_type}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint32_t id;

    assert_int_equal(kit_call(s->sn, CTL_CM_CREATE_ID, &m, &k, false), 0);
    id = k.reply.cm_id.id;
    assert_int_equal(side_bind(s, id, side_address("0.0.0.0", SIDES_PORT), &info), 0);
    m = (struct ctl_msg){.cm_id = {.id = id, .backlog = 5}};
    assert_int_equal(kit_call(s->sn, CTL_CM_LISTEN, &m, &k, false), 0);
}

static void request_of(struct sides *t, uint8_t qp_type)
{
    uint32_t id = side_resolved(t, &t->a, IP_CM_PS_IB, "127.0.0.1");
    struct ctl_msg m = {
        .cm_call = {.id = id, .conn = {.qpn = 0x111u + qp_type, .qp_type = qp_type}}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(t->a.sn, CTL_CM_CONNECT, &m, &k, false), 0);
    sides_run(t);
}

static void test_type(void **state)
{
    struct sides *t = *state;

    listen_for(&t->b, IP_CM_PS_IB, CM_QP_RC);
    request_of(t, CM_QP_RC);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    request_of(t, CM_QP_UC);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).status, CM_REJ_INVALID_TRANSPORT);
    request_of(t, CM_QP_XRC_SEND);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).status, CM_REJ_INVALID_TRANSPORT);
    side_no_event(&t->b);
}

static void test_type_of_another(void **state)
{
    struct sides *t = *state;

    listen_for(&t->b, IP_CM_PS_IB, CM_QP_XRC_RECV);
    request_of(t, CM_QP_XRC_SEND);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    request_of(t, CM_QP_RC);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).status, CM_REJ_INVALID_TRANSPORT);
    side_no_event(&t->b);
}

/* ---- messages of other hosts, as queue pair 1 gives them to the manager ---- */

static struct cm_path way_from(const struct sides *t, const char *source)
{
    struct ctl_cm_addr own = side_address("127.0.0.1", 0), other = side_address(source, 0);
    struct device *d;
    struct cm_path way;
    union gid gid;
    unsigned index;

    assert_int_equal(cm_address_find(t->r, &own, &d, &index), 0);
    memcpy(gid.raw, other.gid, sizeof(gid.raw));
    cm_address_port_path(d, index, &gid, &way);
    return way;
}

static void put_addresses(uint8_t *mad, enum cm_message message, const struct cm_path *way)
{
    struct ip_cm_header ip = {.ip_version = 4, .src_port = 4000};

    memcpy(ip.src_addr, way->dgid.raw, sizeof(ip.src_addr));
    memcpy(ip.dst_addr, way->sgid.raw, sizeof(ip.dst_addr));
    ip_cm_build(cm_msg_private_room(mad, message), &ip);
}

static void req_from(struct sides *t, const char *source, uint32_t number)
{
    struct cm_path way = way_from(t, source);
    uint8_t mad[MAD_LEN];

    cm_msg_init(mad, CM_REQ, number);
    cm_msg_set(mad, CM_REQ_local_comm_id, number);
    cm_msg_set(mad, CM_REQ_local_qpn, number);
    cm_msg_set(mad, CM_REQ_service_id, ip_cm_service_id(IP_CM_PS_IB, SIDES_PORT));
    cm_msg_set(mad, CM_REQ_path_mtu, 1);
    cm_msg_set_bytes(mad, CM_REQ_primary_local_gid, way.dgid.raw, sizeof(way.dgid.raw));
    cm_msg_set_bytes(mad, CM_REQ_primary_remote_gid, way.sgid.raw, sizeof(way.sgid.raw));
    put_addresses(mad, CM_REQ, &way);
    cm_host_rx(t->r, &way, mad, MAD_LEN);
    sides_run(t);
}

static void sidr_req_from(struct sides *t, const char *source, uint32_t number)
{
    struct cm_path way = way_from(t, source);
    uint8_t mad[MAD_LEN];

    cm_msg_init(mad, CM_SIDR_REQ, number);
    cm_msg_set(mad, CM_SIDR_REQ_request_id, number);
    cm_msg_set(mad, CM_SIDR_REQ_service_id, ip_cm_service_id(IP_CM_PS_IB, SIDES_PORT));
    put_addresses(mad, CM_SIDR_REQ, &way);
    cm_host_rx(t->r, &way, mad, MAD_LEN);
    sides_run(t);
}

/* A SIDR_REQ asks for a queue pair of datagrams. */
static void test_datagram(void **state)
{
    struct sides *t = *state;

    listen_for(&t->b, IP_CM_PS_IB, CM_QP_RC);
    sidr_req_from(t, "127.0.0.1", 1);
    side_no_event(&t->b);
    assert_int_equal(cm_counters(t->r->cm.manager)->tx[CM_SIDR_REP], 1);
}

/* Nothing leads to the source that a forged packet names. */
static void test_no_way_back(void **state)
{
    static const char *const sources[] = {"192.0.2.1", "255.255.255.255", "0.0.0.0"};
    struct sides *t = *state;

    listen_for(&t->b, IP_CM_PS_IB, CM_QP_RC);
    for (uint32_t i = 0; i < ARRAY_SIZE(sources); i++) {
        req_from(t, sources[i], 1 + i);
        side_no_event(&t->b);
    }
    req_from(t, "127.0.0.1", 100);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_type, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_type_of_another, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_datagram, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_no_way_back, sides_setup, sides_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
