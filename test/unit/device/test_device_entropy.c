/* SPDX-License-Identifier: BSD-3-Clause */
/* Source port policies of single queue pairs, as applications set them. */
#include "unit.h"

#include <errno.h>

#include "device_app.h"
#include "engine_private.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct app a, b;
static struct app_cq cq;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    app_open(&a, rnic);
    app_open(&b, rnic);
    app_cq(&a, &cq, 64);
    return 0;
}

static int teardown(void **state)
{
    app_close(&a);
    app_close(&b);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

#define RULE(rule) ((uint16_t)(ENTROPY_##rule + 1))

static const struct {
    struct ctl_entropy entropy;
    int status;
} values[] = {
    {{0, 0}, 0},
    {{RULE(KERNEL), 0}, 0},
    {{RULE(RFC), 0}, 0},
    {{RULE(SPRAY), 0}, 0},
    {{RULE(FIXED), 0xC000}, 0},
    {{RULE(FIXED), 0xFFFF}, 0},
    {{0, 0xC000}, -EINVAL},
    {{RULE(KERNEL), 0xC000}, -EINVAL},
    {{RULE(RFC), 1}, -EINVAL},
    {{RULE(SPRAY), 0xFFFF}, -EINVAL},
    {{RULE(FIXED), 0}, -EINVAL},
    {{RULE(FIXED), 0xBFFF}, -EINVAL},
    {{RULE(SPRAY) + 1, 0}, -EINVAL},
    {{UINT16_MAX, 0xC000}, -EINVAL},
};

static int set(struct app *app, uint32_t qpn, struct ctl_entropy entropy)
{
    struct ctl_msg m = {.set_entropy = {.qpn = qpn, .entropy = entropy}};

    return app_call(app, CTL_SET_ENTROPY, &m);
}

/* The queue pair has the requested policy. */
static void check(uint32_t qpn, struct ctl_entropy wanted)
{
    const struct entropy_policy *own = qp_entropy(qp_object_get(a.session, qpn)->dp.qp);

    assert_int_equal(own ? own->rule + 1u : 0u, wanted.rule);
    assert_int_equal(own ? own->port : 0, wanted.port);
}

static void test_values(void **state)
{
    struct app_qp qp;

    assert_int_equal(app_qp(&a, &qp, QPT_RC, &cq, 0, 0), 0);
    app_ready(&qp, qp.qpn, 3);
    for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
        struct ctl_entropy before = {RULE(FIXED), 0xC001};

        assert_int_equal(set(&a, qp.qpn, before), 0);
        assert_int_equal(set(&a, qp.qpn, values[i].entropy), values[i].status);
        check(qp.qpn, values[i].status ? before : values[i].entropy);
    }
}

static void test_values_at_creation(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
        struct ctl_msg m = {.create_qp = {.pd = a.pd,
                                          .send_cq = cq.handle,
                                          .recv_cq = cq.handle,
                                          .type = QPT_UD,
                                          .entropy = values[i].entropy,
                                          .caps = {16, 16, 1, 1, 0}}};

        unsigned before = a.session->count[OBJ_QP];

        assert_int_equal(app_call(&a, CTL_CREATE_QP, &m), values[i].status);
        assert_int_equal(a.session->count[OBJ_QP], before + !values[i].status);
        if (!values[i].status)
            check(m.create_qp.qpn, values[i].entropy);
    }
}

static void test_types(void **state)
{
    static const uint32_t type[] = {QPT_RC, QPT_UC, QPT_UD, QPT_XRC_SEND};
    struct ctl_msg m = {0};
    struct app_qp qp;

    for (unsigned i = 0; i < ARRAY_SIZE(type); i++) {
        assert_int_equal(app_qp(&a, &qp, type[i], &cq, 0, 0), 0);
        assert_int_equal(set(&a, qp.qpn, (struct ctl_entropy){RULE(RFC), 0}), 0);
    }
    assert_int_equal(app_call(&a, CTL_OPEN_XRCD, &m), 0);
    assert_int_equal(app_qp(&a, &qp, QPT_XRC_RECV, NULL, 0, m.open_xrcd.handle), 0);
    assert_int_equal(set(&a, qp.qpn, (struct ctl_entropy){RULE(RFC), 0}), 0);
}

/* The source port is known as soon as the queue pair is connected; a datagram queue pair
 * has none. */
static void test_port(void **state)
{
    struct app_qp rc, ud;
    struct qp *qp;

    assert_int_equal(app_qp(&a, &rc, QPT_RC, &cq, 0, 0), 0);
    assert_int_equal(app_qp(&a, &ud, QPT_UD, &cq, 0, 0), 0);
    qp = qp_object_get(a.session, rc.qpn)->dp.qp;
    assert_int_equal(set(&a, rc.qpn, (struct ctl_entropy){RULE(RFC), 0}), 0);
    assert_int_equal(qp_udp_sport(qp), 0);
    app_ready(&rc, ud.qpn, 3);
    assert_int_equal(qp_udp_sport(qp), entropy_port_rfc_rc(rc.qpn, ud.qpn));
    assert_int_equal(set(&a, rc.qpn, (struct ctl_entropy){RULE(FIXED), 0xCAFE}), 0);
    assert_int_equal(qp_udp_sport(qp), 0xCAFE);
    assert_int_equal(set(&a, rc.qpn, (struct ctl_entropy){0, 0}), 0);
    assert_int_equal(qp_udp_sport(qp), entropy_port_kernel(0, rc.qpn, ud.qpn));
    app_ready(&ud, 0, 3);
    assert_int_equal(set(&a, ud.qpn, (struct ctl_entropy){RULE(FIXED), 0xCAFE}), 0);
    assert_int_equal(qp_udp_sport(qp_object_get(a.session, ud.qpn)->dp.qp), 0);
}

static void test_whose(void **state)
{
    struct ctl_entropy fixed = {RULE(FIXED), 0xCAFE};
    struct app_qp qp;

    assert_int_equal(app_qp(&a, &qp, QPT_RC, &cq, 0, 0), 0);
    assert_int_equal(set(&b, qp.qpn, fixed), -EINVAL);
    assert_int_equal(set(&a, qp.qpn + 1, fixed), -EINVAL);
    assert_int_equal(set(&a, UINT32_MAX, fixed), -EINVAL);
    check(qp.qpn, (struct ctl_entropy){0, 0});
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_values), T(test_values_at_creation), T(test_types), T(test_port), T(test_whose),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
