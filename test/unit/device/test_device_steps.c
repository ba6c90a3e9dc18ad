/* SPDX-License-Identifier: BSD-3-Clause */
/* Several changes of a queue pair in one request. */
#include <errno.h>

#include "device_app.h"
#include "unit.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct app app;
static struct app_cq app_queue;
static struct app_qp qp;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    app_open(&app, rnic);
    app_cq(&app, &app_queue, 64);
    return app_qp(&app, &qp, QPT_RC, &app_queue, 0, 0);
}

static int teardown(void **state)
{
    app_close(&app);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* From RESET to RTS, connected to itself. The third step has another mask if `wrong`. */
static struct ctl_msg three_steps(uint32_t qpn, bool wrong)
{
    struct ctl_msg m = {
        .modify_qp = {.qpn = qpn,
                      .mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                      .attr = {.state = QPS_INIT,
                               .port_num = 1,
                               .path_mtu = 5,
                               .dest_qpn = qpn,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 1,
                               .ah = app_address("127.0.0.1"),
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7,
                               .max_rd_atomic = 1},
                      .next = {{.state = QPS_RTR,
                                .mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN |
                                        QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER},
                               {.state = QPS_RTS,
                                .mask = QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT |
                                        QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC}},
                      .done = 7}};

    if (wrong)
        m.modify_qp.next[1].mask = QPA_STATE;
    return m;
}

static struct ctl_query_qp query(void)
{
    struct ctl_msg m = {.handle = qp.qpn};

    assert_int_equal(app_call(&app, CTL_QUERY_QP, &m), 0);
    return m.query_qp;
}

static void test_all(void **state)
{
    struct ctl_msg m = three_steps(qp.qpn, false);
    struct ctl_query_qp is;

    assert_int_equal(app_call(&app, CTL_MODIFY_QP, &m), 0);
    assert_int_equal(m.modify_qp.done, 3);
    is = query();
    assert_int_equal(is.attr.state, QPS_RTS);
    assert_int_equal(is.attr.dest_qpn, qp.qpn);
    assert_int_equal(is.attr.path_mtu, 5);
    assert_int_equal(is.attr.retry_cnt, 7);
}

/* They end where one fails. */
static void test_one_fails(void **state)
{
    struct ctl_msg m = three_steps(qp.qpn, true);

    assert_int_equal(app_call(&app, CTL_MODIFY_QP, &m), -EINVAL);
    assert_int_equal(m.modify_qp.done, 2);
    assert_int_equal(query().attr.state, QPS_RTR);
}

/* What is wrong with any of them is said before the first. */
static void test_none(void **state)
{
    struct ctl_msg m = three_steps(qp.qpn, false);

    m.modify_qp.attr.port_num = 2;
    assert_int_equal(app_call(&app, CTL_MODIFY_QP, &m), -EINVAL);
    assert_int_equal(m.modify_qp.done, 0);
    m = three_steps(qp.qpn, false);
    m.modify_qp.attr.ah.sgid_index = 99;
    assert_true(app_call(&app, CTL_MODIFY_QP, &m) < 0);
    assert_int_equal(m.modify_qp.done, 0);
    m = three_steps(qp.qpn, false);
    m.modify_qp.next[1].mask |= QPA_PKEY_INDEX;
    m.modify_qp.attr.pkey_index = 1;
    assert_int_equal(app_call(&app, CTL_MODIFY_QP, &m), -EINVAL);
    assert_int_equal(m.modify_qp.done, 0);
    assert_int_equal(query().attr.state, QPS_RESET);
}

/* No queue pair. */
static void test_no_queue_pair(void **state)
{
    struct ctl_msg m = three_steps(qp.qpn + 1, false);

    assert_int_equal(app_call(&app, CTL_MODIFY_QP, &m), -EINVAL);
    assert_int_equal(m.modify_qp.done, 0);
}

/* ---- with the creation ---- */

static struct ctl_msg new_qp(uint32_t type, const struct ctl_modify_qp *modify)
{
    uint32_t cq = app_queue.handle;

    return (struct ctl_msg){.create_qp_in = {.create = {.pd = app.pd,
                                                        .send_cq = cq,
                                                        .recv_cq = cq,
                                                        .type = type,
                                                        .caps = {16, 16, 2, 2, 0}},
                                             .modify = *modify,
                                             .modify_status = 5}};
}

static uint32_t state_of(uint32_t qpn)
{
    struct ctl_msg m = {.handle = qpn};

    assert_int_equal(app_call(&app, CTL_QUERY_QP, &m), 0);
    return m.query_qp.attr.state;
}

static void test_new_to_init(void **state)
{
    struct ctl_modify_qp modify = {.qpn = qp.qpn, /* does not count */
                                   .mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                                   .attr = {.state = QPS_INIT, .port_num = 1}};
    struct ctl_msg m = new_qp(QPT_RC, &modify);

    assert_int_equal(app_call(&app, CTL_CREATE_QP_IN, &m), 0);
    assert_int_equal(m.create_qp_in.modify_status, 0);
    assert_int_equal(m.create_qp_in.modify.done, 1);
    assert_int_not_equal(m.create_qp_in.create.qpn, qp.qpn);
    assert_int_equal(state_of(m.create_qp_in.create.qpn), QPS_INIT);
    assert_int_equal(state_of(qp.qpn), QPS_RESET);
}

static struct ctl_modify_qp datagram_steps(void)
{
    return (struct ctl_modify_qp){.mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY,
                                  .attr = {.state = QPS_INIT, .port_num = 1, .qkey = 3},
                                  .next = {{.state = QPS_RTR, .mask = QPA_STATE},
                                           {.state = QPS_RTS, .mask = QPA_STATE | QPA_SQ_PSN}}};
}

static void test_new_to_rts(void **state)
{
    struct ctl_modify_qp modify = datagram_steps();
    struct ctl_msg m = new_qp(QPT_UD, &modify);

    assert_int_equal(app_call(&app, CTL_CREATE_QP_IN, &m), 0);
    assert_int_equal(m.create_qp_in.modify_status, 0);
    assert_int_equal(m.create_qp_in.modify.done, 3);
    assert_int_equal(state_of(m.create_qp_in.create.qpn), QPS_RTS);
}

/* The queue pair is there, and the application destroys it. */
static void test_new_fails(void **state)
{
    struct ctl_modify_qp modify = datagram_steps();
    struct ctl_msg m;

    modify.next[0].mask = QPA_STATE | QPA_SQ_PSN;
    m = new_qp(QPT_UD, &modify);
    assert_int_equal(app_call(&app, CTL_CREATE_QP_IN, &m), 0);
    assert_int_equal(m.create_qp_in.modify_status, -EINVAL);
    assert_int_equal(m.create_qp_in.modify.done, 1);
    assert_int_equal(state_of(m.create_qp_in.create.qpn), QPS_INIT);
    m = (struct ctl_msg){.destroy = {.handle = m.create_qp_in.create.qpn}};
    assert_int_equal(app_call(&app, CTL_DESTROY_QP, &m), 0);
}

/* The next hop would have to be waited for; and none is created. */
static void test_new_with_address(void **state)
{
    uint32_t before = app.session->count[OBJ_QP];
    struct ctl_modify_qp modify = datagram_steps();
    struct ctl_msg m;

    modify.mask |= QPA_AV;
    m = new_qp(QPT_UD, &modify);
    assert_int_equal(app_call(&app, CTL_CREATE_QP_IN, &m), -EINVAL);
    for (unsigned i = 0; i < QP_STEPS - 1; i++) {
        modify = datagram_steps();
        modify.next[i].mask |= QPA_AV;
        m = new_qp(QPT_UD, &modify);
        assert_int_equal(app_call(&app, CTL_CREATE_QP_IN, &m), -EINVAL);
    }
    m = new_qp(99, &modify);
    assert_int_equal(app_call(&app, CTL_CREATE_QP_IN, &m), -EINVAL);
    assert_int_equal(app.session->count[OBJ_QP], before);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_all),         T(test_one_fails),  T(test_none),      T(test_no_queue_pair),
        T(test_new_to_init), T(test_new_to_rts), T(test_new_fails), T(test_new_with_address)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
