/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that are faster than the listener which they are for. */
#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define PORT 7471

/* An id of node 1 that is bound, and does not listen yet. */
static struct cm_id *bind_only(struct cm_kit *k, enum ip_cm_port_space ps,
                               const struct cm_addr *dst)
{
    struct cm_addr addr = cm_kit_addr(k, 1, PORT);
    struct cm_id *id;
    int err;

    id = cm_id_create(k->node[1].cm, ps, NULL, &err);
    assert_non_null(id);
    assert_int_equal(cm_bind(id, &addr, dst, 0), 0);
    return id;
}

static void expect_rej(const struct cm_kit *k, unsigned sends)
{
    struct cm_msg msg;

    assert_int_equal(k->node[1].sends, sends);
    msg = cm_kit_last_sent(k, 1);
    assert_int_equal(msg.message, CM_REJ);
    assert_int_equal(cm_msg_get(&msg, CM_REJ_reason), CM_REJ_INVALID_SERVICE_ID);
}

/* A request that is faster than rdma_listen is taken when the id listens, whatever its copies do.
 */
static void before_the_listener(unsigned flags)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id = bind_only(k, IP_CM_PS_TCP, NULL);
    uint8_t mad[MAD_LEN];

    assert_int_equal(cm_set_bind_flags(id, flags), 0);
    cm_kit_req(k, PORT, mad);
    cm_kit_rx(k, 0, 1, mad);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(cm_counters(k->node[1].cm)->ignored, 1);
    cm_kit_run(k, 99 * MS);
    assert_int_equal(k->node[1].sends + k->node[1].events, 0);
    assert_int_equal(cm_listen(id, 0), 0);
    assert_int_equal(k->node[1].events, 0); /* not within the call */
    assert_true(cm_next_timer(k->node[1].cm) <= k->now);
    cm_kit_run(k, 0);
    cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST);
    cm_kit_run(k, SEC);
    assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), 1);
    assert_int_equal(cm_counters(k->node[1].cm)->refused, 0);
    cm_kit_free(k);
}

static void test_before_the_listener(void **state)
{
    before_the_listener(0);
    before_the_listener(CM_BIND_REUSE);
}

/* Without a listener it is refused, 100 ms later; where none can come, at once. */
static void test_no_listener_comes(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_addr there = cm_kit_addr(k, 0, PORT);
    uint8_t mad[MAD_LEN];
    struct cm_id *id;

    cm_kit_req(k, PORT, mad);
    id = bind_only(k, IP_CM_PS_TCP, NULL);
    cm_kit_rx(k, 0, 1, mad);
    cm_kit_run(k, 99 * MS);
    assert_int_equal(k->node[1].sends, 0);
    cm_kit_run(k, MS);
    expect_rej(k, 1);
    cm_kit_rx(k, 0, 1, mad);
    cm_id_destroy(id, k->now);
    cm_kit_run(k, 100 * MS);
    expect_rej(k, 2);
    id = bind_only(k, IP_CM_PS_TCP, &there); /* it connects */
    cm_kit_rx(k, 0, 1, mad);
    expect_rej(k, 3);
    cm_kit_free(k);
}

/* Others are refused at once while as many wait as there is room for. */
static void test_many_before_the_listener(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id = bind_only(k, IP_CM_PS_TCP, NULL);
    uint8_t mad[MAD_LEN];

    cm_kit_req(k, PORT, mad);
    for (unsigned i = 0; i < CM_EARLY_MAX + 2; i++) {
        cm_msg_set(mad, CM_REQ_local_comm_id, 0x1000 + i);
        cm_msg_set(mad, CM_REQ_local_qpn, 0x1000 + i);
        cm_kit_rx(k, 0, 1, mad);
    }
    expect_rej(k, 2);
    assert_int_equal(cm_listen(id, 2 * CM_EARLY_MAX), 0);
    cm_kit_run(k, 0);
    assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), CM_EARLY_MAX);
    cm_kit_free(k);
}

/* A copy is one of the same peer: another VLAN has peers of its own. */
static void test_another_vlan(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id = bind_only(k, IP_CM_PS_TCP, NULL);
    struct cm_path way = cm_kit_path(k, 1, 0);
    uint8_t mad[MAD_LEN];

    cm_kit_req(k, PORT, mad);
    for (unsigned i = 0; i < 4; i++) {
        way.vlan = i % 2 ? 7 : VLAN_NONE;
        cm_rx(k->node[1].cm, &way, mad, sizeof(mad), k->now);
    }
    assert_int_equal(cm_counters(k->node[1].cm)->ignored, 2);
    assert_int_equal(cm_listen(id, 0), 0);
    cm_kit_run(k, 0);
    assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), 2);
    cm_kit_free(k);
}

/* The same of datagrams. */
static void test_datagram_before_the_listener(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id = bind_only(k, IP_CM_PS_UDP, NULL), *active = cm_kit_bound(k, 0, IP_CM_PS_UDP);
    struct cm_path path = cm_kit_path(k, 0, 1);
    struct cm_connect_param param = cm_kit_param(k, 1, PORT);

    assert_int_equal(cm_sidr_request(active, &path, &param, k->now), 0);
    cm_kit_deliver(k);
    assert_int_equal(k->node[1].sends + k->node[1].events, 0);
    assert_int_equal(cm_listen(id, 0), 0);
    cm_kit_run(k, 0);
    cm_kit_last(k, 1, CM_EVENT_SIDR_REQUEST);
    cm_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_listener),
        cmocka_unit_test(test_no_listener_comes),
        cmocka_unit_test(test_many_before_the_listener),
        cmocka_unit_test(test_another_vlan),
        cmocka_unit_test(test_datagram_before_the_listener),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
