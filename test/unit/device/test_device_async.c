/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of more objects than an event socket has room for. */
#include "unit.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "control/async.h"
#include "device_app.h"
#include "objects/qp_open.h"

#define QPS  600 /* with two events each, four times what a socket holds */
#define UIDX 1000u

static struct event_loop *loop;
static struct rnic *rnic;
static struct app a, other;
static struct app_cq cq;
static uint32_t qpn[QPS];

static uint32_t make_qp(struct app *app, const struct app_cq *q, uint32_t uidx)
{
    struct ctl_msg m = {.create_qp = {.pd = app->pd,
                                      .send_cq = q->handle,
                                      .recv_cq = q->handle,
                                      .type = QPT_RC,
                                      .uidx = uidx,
                                      .caps = {1, 1, 1, 1, 0}}};

    assert_int_equal(app_call(app, CTL_CREATE_QP, &m), 0);
    return m.create_qp.qpn;
}

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    app_open(&a, rnic);
    app_open(&other, rnic);
    app_cq(&a, &cq, 64);
    for (uint32_t i = 0; i < QPS; i++)
        qpn[i] = make_qp(&a, &cq, UIDX + i);
    return 0;
}

static int teardown(void **state)
{
    if (a.session)
        app_close(&a);
    app_close(&other);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* As an engine raises it. */
static void raise_event(struct app *app, uint32_t number, enum qp_event event)
{
    struct qp_object *q = qp_object_get(app->session, number);
    struct engine_host host = worker_host(q->dp.port);

    host.async_event(host.ctx, q->dp.qp, NULL, event);
}

static void raise_all(enum qp_event event)
{
    for (uint32_t i = 0; i < QPS; i++)
        raise_event(&a, qpn[i], event);
}

static void run_loop(void)
{
    while (event_loop_step(loop, 0))
        ;
}

static void expect(struct app *app, uint32_t type, uint64_t element)
{
    struct ctl_async_event e = {0};

    assert_true(app_event(app, loop, &e));
    assert_int_equal(e.type, type);
    assert_int_equal(e.element, element);
}

static void expect_none(struct app *app)
{
    struct ctl_async_event e;

    assert_false(app_event(app, loop, &e));
}

static void test_all_arrive(void **state)
{
    raise_all(QP_EVENT_QP_FATAL);
    raise_all(QP_EVENT_LAST_WQE_REACHED);
    run_loop();
    for (uint32_t i = 0; i < QPS; i++) {
        expect(&a, QP_EVENT_QP_FATAL, UIDX + i);
        expect(&a, QP_EVENT_LAST_WQE_REACHED, UIDX + i);
    }
    expect_none(&a);
}

/* While it waits; and what happens again once it is sent is sent again. */
static void test_an_event_that_waits_is_one(void **state)
{
    for (int i = 0; i < 3; i++) {
        raise_all(QP_EVENT_COMM_EST);
        run_loop();
    }
    for (uint32_t i = QPS - 100; i < QPS; i++)
        raise_event(&a, qpn[i], QP_EVENT_SQ_DRAINED);
    for (unsigned n = 0; n < QPS; n++) {
        struct ctl_async_event e = {0};

        assert_true(app_event(&a, loop, &e));
        assert_int_equal(e.type, QP_EVENT_COMM_EST);
        if (e.element == UIDX + QPS - 100) {
            expect(&a, QP_EVENT_SQ_DRAINED, e.element);
            break;
        }
    }
    raise_event(&a, qpn[0], QP_EVENT_COMM_EST);
    run_loop();
    while (recv(a.async_fd, &(struct ctl_async_event){0}, sizeof(struct ctl_async_event),
                MSG_DONTWAIT) > 0)
        run_loop();
    raise_event(&a, qpn[0], QP_EVENT_COMM_EST);
    expect(&a, QP_EVENT_COMM_EST, UIDX);
    expect_none(&a);
}

/* Another application's, and another one's later. */
static void test_others_go_on(void **state)
{
    struct app_cq theirs;
    uint32_t number;

    app_cq(&other, &theirs, 16);
    number = make_qp(&other, &theirs, 7);
    raise_all(QP_EVENT_QP_FATAL);
    raise_event(&other, number, QP_EVENT_QP_FATAL);
    expect(&other, QP_EVENT_QP_FATAL, 7);
    expect_none(&other);
}

/* Raised and not yet taken, taken and not yet sent: both end with the queue pair. */
static void test_object_ends(void **state)
{
    for (int round = 0; round < 2; round++) {
        raise_all(QP_EVENT_QP_FATAL);
        if (round)
            run_loop();
        for (uint32_t i = 0; i < QPS; i++)
            assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qpn[i]), 0);
        while (recv(a.async_fd, &(struct ctl_async_event){0}, sizeof(struct ctl_async_event),
                    MSG_DONTWAIT) > 0)
            ;
        expect_none(&a);
        for (uint32_t i = 0; i < QPS; i++)
            qpn[i] = make_qp(&a, &cq, UIDX + i);
    }
    assert_null(rnic->raised);
    assert_true(TAILQ_EMPTY(&a.session->late_events));
}

static void test_session_ends(void **state)
{
    raise_all(QP_EVENT_QP_FATAL);
    run_loop();
    async_port_event(rnic->device[0], PORT_EVENT_ERR);
    raise_all(QP_EVENT_COMM_EST);
    app_close(&a);
    a.session = NULL;
    run_loop();
    assert_null(rnic->raised);
}

/* The port's last state is the last one that is told, whatever waited in between. */
static void test_port_events(void **state)
{
    struct device *d = rnic->device[0];
    static const uint32_t told[] = {PORT_EVENT_ERR, PORT_EVENT_GID_CHANGE, PORT_EVENT_ACTIVE};

    raise_all(QP_EVENT_QP_FATAL);
    run_loop();
    async_port_event(d, PORT_EVENT_ERR);
    async_port_event(d, PORT_EVENT_ACTIVE);
    async_port_event(d, PORT_EVENT_ERR);
    async_port_event(d, PORT_EVENT_GID_CHANGE);
    async_port_event(d, PORT_EVENT_ACTIVE);
    for (uint32_t i = 0; i < QPS; i++)
        expect(&a, QP_EVENT_QP_FATAL, UIDX + i);
    for (unsigned i = 0; i < ARRAY_SIZE(told); i++)
        expect(&a, told[i], 1);
    expect_none(&a);
    for (unsigned i = 0; i < 2; i++)
        expect(&other, i ? PORT_EVENT_ACTIVE : PORT_EVENT_ERR, 1);
}

/* A port that is down at last: it came up while the application did not read. */
static void test_port_is_down(void **state)
{
    struct device *d = rnic->device[0];

    raise_all(QP_EVENT_QP_FATAL);
    run_loop();
    async_port_event(d, PORT_EVENT_ACTIVE);
    async_port_event(d, PORT_EVENT_ERR);
    for (uint32_t i = 0; i < QPS; i++)
        expect(&a, QP_EVENT_QP_FATAL, UIDX + i);
    expect(&a, PORT_EVENT_ERR, 1);
    expect_none(&a);
}

/* What is sent to one that has closed its end is dropped, and waits for nothing. */
static void test_closed_socket(void **state)
{
    raise_all(QP_EVENT_QP_FATAL);
    run_loop();
    assert_false(TAILQ_EMPTY(&a.session->late_events));
    close(a.async_fd);
    a.async_fd = -1;
    run_loop();
    assert_true(TAILQ_EMPTY(&a.session->late_events));
    assert_false(a.session->async_room.added);
}

/* Another function may watch the socket in between. */
static void test_pause(void **state)
{
    struct event_source s = {.fd = a.session->async_fd};

    raise_all(QP_EVENT_QP_FATAL);
    run_loop();
    async_pause(a.session);
    assert_int_equal(event_loop_add(loop, &s, 0), 0);
    event_loop_remove(loop, &s);
    async_resume(a.session);
    for (uint32_t i = 0; i < QPS; i++)
        expect(&a, QP_EVENT_QP_FATAL, UIDX + i);
    expect_none(&a);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_all_arrive),   T(test_an_event_that_waits_is_one),
                                       T(test_others_go_on), T(test_object_ends),
                                       T(test_session_ends), T(test_port_events),
                                       T(test_port_is_down), T(test_closed_socket),
                                       T(test_pause)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
