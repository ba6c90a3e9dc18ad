/* SPDX-License-Identifier: BSD-3-Clause */
/* What the memberships of one program cost others. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "device_app.h"

#define MANY  4096u
#define USER  4242u
#define TRIES 20u

static struct event_loop *loop;
static struct rnic *rnic;
static struct app many, other;
static struct app_cq many_cq, other_cq;
static struct app_qp member[MANY], sender;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    app_open(&many, rnic);
    app_open(&other, rnic);
    app_cq(&many, &many_cq, 64);
    app_cq(&other, &other_cq, 64);
    return 0;
}

static int teardown(void **state)
{
    if (many.session)
        app_close(&many);
    app_close(&other);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static int attach(struct app_qp *qp, uint8_t group)
{
    struct ctl_msg m = {.mcast = {.qpn = qp->qpn, .gid = {[10] = 0xFF, 0xFF, 224, 0, 1, group}}};

    return app_call(qp->app, CTL_ATTACH_MCAST, &m);
}

static ns_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

/* The shortest time in which a datagram is sent to a group, received, and done. */
static ns_t time_of_datagram(uint32_t ah)
{
    ns_t best = NS_NEVER;

    for (unsigned i = 0; i < TRIES; i++) {
        struct sqe wr = {.opcode = SQE_SEND,
                         .flags = SQE_SIGNALED,
                         .ud = {.ah = ah, .remote_qpn = 0xFFFFFF, .remote_qkey = APP_QKEY}};
        ns_t began = now_ns();
        struct cqe e;

        app_send(&sender, wr, 0, 8);
        app_run(&other);
        best = min_of(best, now_ns() - began);
        assert_true(app_poll(&other_cq, &e));
        assert_int_equal(e.status, WC_SUCCESS);
    }
    return best;
}

/* Neither packets to other groups, with members or without, nor the end of other queue pairs. */
static void test_groups_of_others(void **state)
{
    uint32_t joined, unknown;
    ns_t joined_time, unknown_time;

    assert_int_equal(app_qp(&other, &sender, QPT_UD, &other_cq, 0, 0), 0);
    app_ready(&sender, 0, 3);
    assert_int_equal(attach(&sender, 1), 0);
    app_ah(&other, other.pd, "224.0.1.1", &joined);
    app_ah(&other, other.pd, "224.0.1.2", &unknown);
    joined_time = time_of_datagram(joined);
    unknown_time = time_of_datagram(unknown);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(app_qp(&many, &member[i], QPT_UD, &many_cq, 0, 0), 0);
        assert_int_equal(attach(&member[i], 3), 0);
    }
    assert_true(time_of_datagram(joined) < 5 * joined_time);
    assert_true(time_of_datagram(unknown) < 5 * unknown_time);
}

static uint32_t most_in_group(struct app *a)
{
    struct ctl_msg m = {0};

    assert_int_equal(app_call(a, CTL_QUERY_DEVICE, &m), 0);
    return m.device.max_mcast_qp;
}

static void add_member(struct app *a, const struct app_cq *cq, unsigned i, uint8_t group,
                       int status)
{
    assert_int_equal(app_qp(a, &member[i], QPT_UD, cq, 0, 0), 0);
    assert_int_equal(attach(&member[i], group), status);
}

/* A user's queue pairs in a group, over all connections, are limited: not another user's, nor those
 * in another group, nor root's. */
static void test_members_of_a_user(void **state)
{
    unsigned limit = LIMIT_USER_GROUP_QPS, n = limit + 2;
    struct app a, b, stranger;
    struct app_cq cq_a, cq_b, cq_stranger;

    app_open_as(&a, rnic, USER);
    app_open_as(&b, rnic, USER);
    app_open_as(&stranger, rnic, USER + 1);
    app_cq(&a, &cq_a, 64);
    app_cq(&b, &cq_b, 64);
    app_cq(&stranger, &cq_stranger, 64);
    assert_int_equal(most_in_group(&a), limit);
    assert_true(most_in_group(&many) > limit);
    for (unsigned i = 0; i < limit; i++)
        add_member(i % 2 ? &a : &b, i % 2 ? &cq_a : &cq_b, i, 1, 0);
    assert_int_equal(attach(&member[0], 1), 0); /* it is one already */
    add_member(&a, &cq_a, limit, 1, -ENOMEM);
    assert_int_equal(attach(&member[limit], 2), 0);
    add_member(&stranger, &cq_stranger, limit + 1, 1, 0);
    app_close(&b);
    assert_int_equal(attach(&member[limit], 1), 0);
    for (unsigned i = 0; i <= limit; i++)
        add_member(&many, &many_cq, n + i, 1, 0);
    app_close(&a);
    app_close(&stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_groups_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_members_of_a_user, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
