/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of XRC target queue pairs: who may open one, how long the queue pair lasts, its events,
 * and what is charged for it. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "device_app.h"
#include "objects/qp_open.h"
#include "objects/xrcd.h"

#define UID  4242u
#define UIDX 99u /* of handles; those of queue pairs are 4711 */

static struct event_loop *loop;
static struct rnic *rnic;
static int file;
static struct app maker, opener, third, stranger, peer;
static struct app_cq third_cq, peer_cq;
static struct app_srq srq; /* of third */
static uint32_t domain[3]; /* of maker, opener and third */
static struct app_qp target, sender;

static uint32_t open_domain(struct app *a)
{
    struct ctl_msg m = {.open_xrcd = {.oflags = O_CREAT}};

    assert_int_equal(app_call_fd(a, CTL_OPEN_XRCD, &m, file), 0);
    return m.open_xrcd.handle;
}

/* A target of the maker, an SRQ of a third application, and a sender to both. */
static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    file = memfd_create("domain", MFD_CLOEXEC);
    app_open_as(&maker, rnic, UID);
    app_open_as(&opener, rnic, UID);
    app_open_as(&third, rnic, UID);
    app_open_as(&stranger, rnic, UID + 1);
    app_open_as(&peer, rnic, UID + 2);
    app_cq(&third, &third_cq, 64);
    app_cq(&peer, &peer_cq, 64);
    domain[0] = open_domain(&maker);
    domain[1] = open_domain(&opener);
    domain[2] = open_domain(&third);
    assert_int_equal(app_srq(&third, &srq, 16, domain[2], &third_cq), 0);
    assert_int_equal(app_qp(&maker, &target, QPT_XRC_RECV, NULL, 0, domain[0]), 0);
    assert_int_equal(app_qp(&peer, &sender, QPT_XRC_SEND, &peer_cq, 0, 0), 0);
    return 0;
}

static int teardown(void **state)
{
    struct app *all[] = {&maker, &opener, &third, &stranger, &peer};

    for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i]->session)
            app_close(all[i]);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    close(file);
    return 0;
}

static int try_open(struct app *a, uint32_t xrcd, uint32_t qpn, uint32_t *handle)
{
    struct ctl_msg m = {.open_qp = {.xrcd = xrcd, .qpn = qpn, .uidx = UIDX}};
    int status = app_call(a, CTL_OPEN_QP, &m);

    if (handle)
        *handle = status ? 0 : m.open_qp.handle;
    return status;
}

static uint32_t open_target(struct app *a, uint32_t xrcd)
{
    uint32_t handle;

    assert_int_equal(try_open(a, xrcd, target.qpn, &handle), 0);
    assert_true(handle & CTL_QP_OPENED);
    return handle;
}

static int query(struct app *a, uint32_t number, struct ctl_query_qp *reply)
{
    struct ctl_msg m = {.query_qp = {.qpn = number}};
    int status = app_call(a, CTL_QUERY_QP, &m);

    *reply = m.query_qp;
    return status;
}

static void check_state(struct app *a, uint32_t number, uint32_t qp_state)
{
    struct ctl_query_qp reply;

    assert_int_equal(query(a, number, &reply), 0);
    assert_int_equal(reply.qpn, target.qpn);
    assert_int_equal(reply.attr.state, qp_state);
}

static int modify_to(struct app *a, uint32_t number, uint32_t qp_state)
{
    struct ctl_msg m = {
        .modify_qp = {.qpn = number, .mask = QPA_STATE, .attr = {.state = qp_state}}};

    return app_call(a, CTL_MODIFY_QP, &m);
}

static void connect_pair(void)
{
    app_ready(&target, sender.qpn, 3);
    app_ready(&sender, target.qpn, 3);
}

static void message(uint64_t id)
{
    struct cqe e;

    app_srq_recv(&srq, id, 4096, 256);
    app_send(&sender,
             (struct sqe){.wr_id = id, .opcode = SQE_SEND, .remote_srqn = srq.layout.handle}, 0,
             64);
    assert_true(app_poll(&third_cq, &e));
    assert_int_equal(e.wr_id, id);
    assert_int_equal(e.status, WC_SUCCESS);
    assert_int_equal(e.qpn, target.qpn);
    assert_true(app_poll(&peer_cq, &e));
    assert_int_equal(e.wr_id, id);
    assert_int_equal(e.status, WC_SUCCESS);
}

static bool has_event(struct app *a, uint32_t type, uint64_t element)
{
    struct ctl_async_event e;

    return app_event(a, loop, &e) && e.type == type && e.element == element;
}

static void no_event(struct app *a)
{
    struct ctl_async_event e;

    assert_false(app_event(a, loop, &e));
}

/* ---- who may open one ---- */

static void test_refused(void **state)
{
    struct ctl_msg m = {.open_xrcd = {.oflags = O_CREAT}};
    struct ctl_query_qp reply;
    struct app_cq cq;
    struct app_qp rc;
    uint32_t unnamed, theirs, handle;

    assert_int_equal(app_call(&opener, CTL_OPEN_XRCD, &m), 0);
    unnamed = m.open_xrcd.handle;
    theirs = open_domain(&stranger);
    app_cq(&opener, &cq, 16);
    assert_int_equal(app_qp(&opener, &rc, QPT_RC, &cq, 0, 0), 0);

    assert_int_equal(try_open(&opener, domain[1], target.qpn + 1000, NULL), -EINVAL);
    assert_int_equal(try_open(&opener, domain[1], UINT32_MAX, NULL), -EINVAL);
    assert_int_equal(try_open(&opener, domain[1], 0, NULL), -EINVAL);
    assert_int_equal(try_open(&opener, domain[1], rc.qpn, NULL), -EINVAL); /* another type */
    assert_int_equal(try_open(&opener, domain[1], sender.qpn, NULL), -EINVAL);
    assert_int_equal(try_open(&opener, unnamed, target.qpn, NULL), -EINVAL);   /* another domain */
    assert_int_equal(try_open(&opener, domain[0], target.qpn, NULL), -EINVAL); /* not its own */
    assert_int_equal(try_open(&opener, 0, target.qpn, NULL), -EINVAL);
    assert_int_equal(try_open(&stranger, theirs, target.qpn, NULL), -EINVAL); /* another user */

    handle = open_target(&opener, domain[1]);
    assert_int_equal(query(&stranger, handle, &reply), -EINVAL);
    assert_int_equal(query(&maker, handle, &reply), -EINVAL);
    assert_int_equal(query(&opener, target.qpn, &reply), -EINVAL);
    assert_int_equal(query(&opener, handle ^ CTL_QP_OPENED, &reply), -EINVAL);
    assert_int_equal(query(&opener, CTL_QP_OPENED, &reply), -EINVAL);
    assert_int_equal(query(&opener, UINT32_MAX, &reply), -EINVAL);
    assert_int_equal(try_open(&opener, domain[1], handle, NULL), -EINVAL);
    assert_int_equal(modify_to(&maker, handle, QPS_ERR), -EINVAL);
    assert_int_equal(app_call_handle(&maker, CTL_DESTROY_QP, handle), -ENOENT);
    assert_int_equal(app_call_handle(&opener, CTL_CLOSE_XRCD, domain[1]), -EBUSY);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, handle), 0);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, handle), -ENOENT);
    assert_int_equal(app_call_handle(&opener, CTL_CLOSE_XRCD, domain[1]), 0);
    check_state(&maker, target.qpn, QPS_RESET);
}

/* A target outlives its maker, and so the maker's domain and queues: it may have none. */
static void test_target_has_its_domain_alone(void **state)
{
    struct ctl_create_qp rq = {.type = QPT_XRC_RECV, .xrcd = domain[0], .caps = {1, 1, 1, 1, 0}};
    struct app_cq cq;
    struct ctl_msg m;

    app_cq(&maker, &cq, 16);
    for (unsigned part = 0; part < 4; part++) {
        m = (struct ctl_msg){.create_qp = rq};
        m.create_qp.pd = part == 0 ? maker.pd : 0;
        m.create_qp.send_cq = part == 1 ? cq.handle : 0;
        m.create_qp.recv_cq = part == 2 ? cq.handle : 0;
        assert_int_equal(app_call(&maker, CTL_CREATE_QP, &m), part < 3 ? -EINVAL : 0);
    }
}

static void test_each_handle_does_all(void **state)
{
    uint32_t one = open_target(&opener, domain[1]), two = open_target(&maker, domain[0]);
    struct ctl_query_qp reply;

    target.qpn = one; /* INIT to RTS by the opener's handle */
    target.app = &opener;
    app_ready(&target, sender.qpn, 3);
    assert_int_equal(query(&opener, one, &reply), 0);
    assert_int_equal(reply.attr.state, QPS_RTS);
    assert_int_equal(reply.attr.dest_qpn, sender.qpn);
    target.qpn = reply.qpn;
    target.app = &maker;
    check_state(&maker, target.qpn, QPS_RTS);
    check_state(&maker, two, QPS_RTS);
    app_ready(&sender, target.qpn, 3);
    message(1);
    assert_int_equal(modify_to(&maker, two, QPS_ERR), 0);
    check_state(&opener, one, QPS_ERR);
    assert_int_equal(modify_to(&maker, target.qpn, QPS_RESET), 0);
    check_state(&opener, one, QPS_RESET);
}

/* ---- how long it lasts ---- */

static void test_last_handle_ends_it(void **state)
{
    struct ctl_query_qp reply;
    uint32_t one = open_target(&opener, domain[1]), two = open_target(&opener, domain[1]);
    uint32_t three = open_target(&third, domain[2]);

    connect_pair();
    message(1);
    assert_int_equal(app_call_handle(&maker, CTL_DESTROY_QP, target.qpn), 0);
    assert_int_equal(query(&maker, target.qpn, &reply), -EINVAL);
    assert_int_equal(app_call_handle(&maker, CTL_DESTROY_QP, target.qpn), -ENOENT);
    assert_int_equal(app_call_handle(&maker, CTL_CLOSE_XRCD, domain[0]), 0);
    assert_int_equal(maker.session->count[OBJ_QP], 0);
    message(2);
    check_state(&opener, one, QPS_RTS);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, one), 0);
    check_state(&opener, two, QPS_RTS);
    assert_int_equal(app_call_handle(&third, CTL_DESTROY_QP, three), 0);
    message(3);
    three = open_target(&third, domain[2]);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, two), 0);
    message(4);
    assert_int_equal(app_call_handle(&third, CTL_DESTROY_QP, three), 0);
    assert_null(qp_object_of(rnic->device[0], target.qpn));
    assert_int_equal(try_open(&opener, domain[1], target.qpn, NULL), -EINVAL);
    for (unsigned i = 1; i < 3; i++)
        assert_int_equal(app_call_handle(i == 1 ? &opener : &third, CTL_CLOSE_XRCD, domain[i]),
                         i == 1 ? 0 : -EBUSY); /* the SRQ */
}

/* The session that has the queue pair ends, again and again; packets wait while it does. */
static void test_sessions_end(void **state)
{
    struct cqe e;

    open_target(&opener, domain[1]);
    connect_pair();
    message(1);
    app_srq_recv(&srq, 2, 4096, 256);
    app_send(&sender,
             (struct sqe){.wr_id = 2, .opcode = SQE_SEND, .remote_srqn = srq.layout.handle}, 0, 64);
    app_close(&maker);
    assert_true(app_poll(&third_cq, &e));
    assert_int_equal(e.wr_id, 2);
    assert_true(app_poll(&peer_cq, &e));
    open_target(&third, domain[2]);
    app_close(&opener);
    message(3);
    assert_int_equal(third.session->count[OBJ_QP], 1);
    app_close(&third);
    assert_null(qp_object_of(rnic->device[0], target.qpn));
}

/* A handle of a session that is ending is no heir while there is another. */
static void test_heir_does_not_end(void **state)
{
    open_target(&third, domain[2]);
    open_target(&opener, domain[1]);
    connect_pair();
    opener.session->ending = true;
    app_close(&maker);
    assert_ptr_equal(qp_object_of(rnic->device[0], target.qpn)->o.session, third.session);
    app_close(&opener);
    message(1);
}

/* Both halves of a session's handles, in the order in which a killed program's are freed. */
static void test_creator_with_own_handle(void **state)
{
    uint32_t own = open_target(&maker, domain[0]), other = open_target(&opener, domain[1]);

    connect_pair();
    assert_int_equal(app_call_handle(&maker, CTL_DESTROY_QP, target.qpn), 0);
    assert_ptr_equal(qp_object_of(rnic->device[0], target.qpn)->o.session, maker.session);
    check_state(&maker, own, QPS_RTS);
    message(1);
    app_close(&maker);
    message(2);
    check_state(&opener, other, QPS_RTS);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, other), 0);
    assert_null(qp_object_of(rnic->device[0], target.qpn));
}

static uint64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* How long it takes to close many handles. own_last: the session that has the queue pair opened one
 * after them, too. */
static uint64_t time_of_closing(bool own_last)
{
    enum { MANY = 12000 };
    static uint32_t handle[MANY];
    uint64_t start;

    for (unsigned i = 0; i < MANY; i++)
        handle[i] = open_target(&opener, domain[1]);
    if (own_last)
        open_target(&maker, domain[0]);
    start = cpu_time();
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, handle[i]), 0);
    return cpu_time() - start;
}

/* A handle that is closed does not look at all others. */
static void test_many_handles_end(void **state)
{
    uint64_t first, last;

    open_target(&maker, domain[0]);
    assert_int_equal(app_call_handle(&maker, CTL_DESTROY_QP, target.qpn), 0);
    first = time_of_closing(false);
    last = time_of_closing(true);
    assert_in_range(first, 1, 4 * last);
}

static uint64_t time_of_modifying(void)
{
    uint64_t start = cpu_time();

    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(modify_to(&maker, target.qpn, QPS_RESET), 0);
    return cpu_time() - start;
}

/* A change that costs no memory is no handle's business. */
static void test_many_handles_of_a_modified_one(void **state)
{
    uint64_t none;

    time_of_modifying();
    none = time_of_modifying();
    for (unsigned i = 0; i < 12000; i++)
        open_target(&opener, domain[1]);
    assert_in_range(time_of_modifying(), 1, 30 * none);
}

/* ---- events ---- */

/* The peer names a region that it may not write to. */
static void fail_target(void)
{
    struct cqe e;

    app_send(&sender,
             (struct sqe){.wr_id = 5, .opcode = SQE_WRITE, .remote_srqn = srq.layout.handle}, 0,
             64);
    assert_true(app_poll(&peer_cq, &e));
    assert_int_equal(e.status, WC_REM_ACCESS_ERR);
}

static void test_events_reach_all(void **state)
{
    uint32_t one = open_target(&opener, domain[1]);

    open_target(&third, domain[2]);
    connect_pair();
    fail_target();
    assert_true(has_event(&maker, QP_EVENT_QP_ACCESS_ERR, 4711));
    assert_true(has_event(&opener, QP_EVENT_QP_ACCESS_ERR, UIDX));
    assert_true(has_event(&third, QP_EVENT_QP_ACCESS_ERR, UIDX));
    no_event(&maker);
    no_event(&opener);
    no_event(&third);
    no_event(&stranger);
    assert_int_equal(app_call_handle(&maker, CTL_DESTROY_QP, target.qpn), 0);
    assert_int_equal(modify_to(&opener, one, QPS_RESET), 0);
    target.qpn = one;
    target.app = &opener;
    app_ready(&target, sender.qpn, 3);
    target.qpn = qp_object_reach(opener.session, one)->o.handle;
    assert_int_equal(modify_to(&peer, sender.qpn, QPS_RESET), 0);
    app_ready(&sender, target.qpn, 3);
    fail_target();
    assert_true(has_event(&opener, QP_EVENT_QP_ACCESS_ERR, UIDX));
    assert_true(has_event(&third, QP_EVENT_QP_ACCESS_ERR, UIDX));
    no_event(&maker);
}

#define HANDLES 100u
#define AT_ONCE 16u /* events that a turn of the event loop sends */

static unsigned events_of(struct app *a)
{
    struct ctl_async_event e;
    unsigned n = 0;

    while (recv(a->async_fd, &e, sizeof(e), MSG_DONTWAIT) == sizeof(e))
        n++;
    return n;
}

/* An event of a target with many handles does not keep the control thread from other programs. */
static void test_events_of_many_handles(void **state)
{
    unsigned opened = 0, thirds = 0;

    for (unsigned i = 0; i < HANDLES; i++) {
        open_target(&opener, domain[1]);
        open_target(&third, domain[2]);
    }
    connect_pair();
    fail_target();
    while (event_loop_step(loop, 0)) {
        unsigned a = events_of(&opener), b = events_of(&third);

        assert_in_range(a + b, 0, AT_ONCE);
        opened += a;
        thirds += b;
    }
    assert_int_equal(opened, HANDLES);
    assert_int_equal(thirds, HANDLES);
}

/* ---- what is charged ---- */

static uint64_t user_has(enum quota_kind kind)
{
    const struct quota_account *a = &opener.session->account;

    return a->user->used[quota_count(a->device, kind)];
}

static void test_charges(void **state)
{
    struct ctl_msg more = {.modify_qp = {.mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN |
                                                 QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
                                                 QPA_MIN_RNR_TIMER,
                                         .attr = {.state = QPS_RTR,
                                                  .path_mtu = 3,
                                                  .dest_qpn = sender.qpn,
                                                  .max_dest_rd_atomic = LIMIT_RD_ATOM,
                                                  .ah = app_address("127.0.0.1")}}};
    uint64_t qps = user_has(QUOTA_QP), memory = user_has(QUOTA_MEMORY), before;
    uint64_t its = opener.session->account.used[QUOTA_MEMORY];
    uint64_t one_qp = qp_object_of(rnic->device[0], target.qpn)->memory;
    uint32_t handle = open_target(&opener, domain[1]);

    assert_int_equal(user_has(QUOTA_QP), qps + 1);
    assert_true(user_has(QUOTA_MEMORY) >= memory + one_qp);
    assert_int_equal(app_modify(&target, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                                (struct qp_attr){.state = QPS_INIT, .port_num = 1}),
                     0);
    before = user_has(QUOTA_MEMORY);
    more.modify_qp.qpn = handle;
    assert_int_equal(app_call(&opener, CTL_MODIFY_QP, &more), 0);
    assert_true(user_has(QUOTA_MEMORY) > before);
    assert_int_equal((user_has(QUOTA_MEMORY) - before) % 2, 0); /* by each of the two handles */
    before = opener.session->account.used[QUOTA_MEMORY];
    app_close(&maker); /* the opener has the queue pair, and pays no more than before */
    assert_int_equal(opener.session->account.used[QUOTA_MEMORY], before);
    assert_int_equal(opener.session->account.used[QUOTA_QP], 1);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, handle), 0);
    assert_int_equal(opener.session->account.used[QUOTA_MEMORY], its);
    assert_int_equal(opener.session->account.used[QUOTA_QP], 0);
}

/* A refused handle changes nothing; nor does a change for which one of the handles has no room. */
static void test_quota(void **state)
{
    uint64_t memory;
    uint32_t handle;

    rnic->quota.limit[QUOTA_QP].user = 2;
    handle = open_target(&opener, domain[1]);
    memory = user_has(QUOTA_MEMORY);
    assert_int_equal(try_open(&opener, domain[1], target.qpn, NULL), -ENOMEM);
    assert_int_equal(user_has(QUOTA_MEMORY), memory);
    assert_int_equal(opener.session->count[OBJ_QP_HANDLE], 1);
    rnic->quota.limit[QUOTA_MEMORY].client = opener.session->account.used[QUOTA_MEMORY] + 64;
    assert_int_equal(qp_handles_charge(qp_object_of(rnic->device[0], target.qpn), 65), -ENOMEM);
    assert_int_equal(user_has(QUOTA_MEMORY), memory);
    assert_int_equal(app_call_handle(&opener, CTL_DESTROY_QP, handle), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_target_has_its_domain_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_handle_does_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_handle_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sessions_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heir_does_not_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_creator_with_own_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_handles_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_handles_of_a_modified_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_reach_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_of_many_handles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_charges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
