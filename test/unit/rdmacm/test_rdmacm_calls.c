/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose event another thread gets before the daemon's reply is read. */
#include <arpa/inet.h>
#include <semaphore.h>
#include <unistd.h>

#include "cma.h"
#include "fake_daemon.h"
#include "unit.h"

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct sockaddr_in address = {.sin_family = AF_INET};
static _Atomic bool replied;

static int setup(void **state)
{
    fake_daemon_start();
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
    address.sin_port = htons(7471);
    address.sin_addr.s_addr = htonl(0xe0000105);
    replied = false;
    return 0;
}

static int teardown(void **state)
{
    if (id)
        assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    fake_daemon_stop();
    return 0;
}

static void *resolve_addr(void *arg)
{
    return (void *)(intptr_t)rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000);
}

static void *resolve_route(void *arg)
{
    return (void *)(intptr_t)rdma_resolve_route(id, 1000);
}

static void *listen_with(void *arg)
{
    return (void *)(intptr_t)rdma_listen(id, 1);
}

static void *join(void *arg)
{
    return (void *)(intptr_t)rdma_join_multicast(id, (struct sockaddr *)&address, NULL);
}

static void *reply_later(void *arg)
{
    usleep(50000);
    replied = true;
    fake_daemon_reply();
    return NULL;
}

static struct rdma_cm_event *next_event(void)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    return event;
}

static uint32_t take_event(void)
{
    struct rdma_cm_event *event = next_event();
    uint32_t type = event->event;

    assert_int_equal(rdma_ack_cm_event(event), 0);
    return type;
}

/* A call that waits for its reply, whose event is there. */
static pthread_t begin(enum ctl_type type, void *(*call)(void *), uint32_t event)
{
    struct ctl_cm_event e = {.type = event};
    pthread_t thread;
    struct ctl_msg m;

    fake_daemon_delay(type);
    assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
    fake_daemon_await();
    fake_daemon_calls(type, &m);
    if (type == CTL_CM_JOIN)
        e.cookie = m.cm_mcast.cookie;
    fake_daemon_event(to_id(id)->entry.handle, &e);
    return thread;
}

static void end(pthread_t call, pthread_t reply)
{
    void *failed;

    pthread_join(call, &failed);
    pthread_join(reply, NULL);
    assert_null(failed);
}

/* Both threads would open the device of the id. */
static void expect_resolved(enum ctl_type type, void *(*call)(void *), uint32_t type_of_event)
{
    pthread_t thread = begin(type, call, type_of_event), reply;
    bool after_the_reply;

    assert_int_equal(pthread_create(&reply, NULL, reply_later, NULL), 0);
    assert_int_equal(take_event(), type_of_event);
    after_the_reply = replied;
    end(thread, reply);
    assert_true(after_the_reply);
}

static void test_address(void **state)
{
    expect_resolved(CTL_CM_RESOLVE_ADDR, resolve_addr, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void test_route(void **state)
{
    expect_resolved(CTL_CM_RESOLVE_ROUTE, resolve_route, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* The daemon's handle of the membership comes with the reply. */
static void test_leave(void **state)
{
    pthread_t thread = begin(CTL_CM_JOIN, join, RDMA_CM_EVENT_MULTICAST_JOIN), reply;
    struct ctl_msg m;

    assert_int_equal(take_event(), RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_int_equal(pthread_create(&reply, NULL, reply_later, NULL), 0);
    assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&address), 0);
    end(thread, reply);
    fake_daemon_calls(CTL_CM_LEAVE, &m);
    assert_int_equal(m.cm_mcast.handle, 7);
}

static void *leave(void *arg)
{
    return (void *)(intptr_t)rdma_leave_multicast(id, (struct sockaddr *)&address);
}

/* One thread leaves the group, another one finds no member. */
static void test_leave_twice(void **state)
{
    pthread_t thread, reply;

    assert_null(join(NULL));
    fake_daemon_delay(CTL_CM_LEAVE);
    assert_int_equal(pthread_create(&thread, NULL, leave, NULL), 0);
    fake_daemon_await();
    assert_int_equal(pthread_create(&reply, NULL, reply_later, NULL), 0);
    assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&address), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    end(thread, reply);
    assert_int_equal(fake_daemon_calls(CTL_CM_LEAVE, NULL), 1);
}

/* A join that fails when another thread has its event already: the event names the group. */
static void test_join_fails(void **state)
{
    struct rdma_cm_event *event;
    struct cma_mcast *first;
    pthread_t thread;
    void *failed;
    int err;

    fake_daemon_fail(CTL_CM_JOIN, -EIO);
    thread = begin(CTL_CM_JOIN, join, RDMA_CM_EVENT_MULTICAST_JOIN);
    event = next_event();
    fake_daemon_reply();
    pthread_join(thread, &failed);
    first = LIST_FIRST(&to_id(id)->mcasts);
    err = rdma_leave_multicast(id, (struct sockaddr *)&address) ? errno : 0;
    rdma_ack_cm_event(event);
    assert_non_null(failed);
    assert_non_null(first);
    assert_int_equal(err, EADDRNOTAVAIL);
}

/* What is unknown is of a later version of the API; what is wrong is not. */
static void test_join_by_attributes(void **state)
{
    struct rdma_cm_join_mc_attr_ex attr = {.addr = (struct sockaddr *)&address};
    static const struct {
        uint32_t mask, flags;
        int err;
    } wrong[] = {
        {RDMA_CM_JOIN_MC_ATTR_RESERVED | RDMA_CM_JOIN_MC_ATTR_ADDRESS, 0, EOPNOTSUPP},
        {RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, 0, EINVAL},
        {RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_MC_JOIN_FLAG_RESERVED,
         EINVAL},
    };

    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        attr.comp_mask = wrong[i].mask;
        attr.join_flags = wrong[i].flags;
        assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
        assert_int_equal(errno, wrong[i].err);
    }
    attr.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
    assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), 0);
    assert_int_equal(rdma_leave_multicast(id, attr.addr), 0);
}

/* The id ends after the call, which uses it to its end. */
static void expect_end(enum ctl_type type, void *(*call)(void *), uint32_t type_of_event)
{
    pthread_t thread = begin(type, call, type_of_event), reply;
    struct rdma_cm_event *event = next_event();
    struct rdma_cm_id *fresh = event->id == id ? NULL : event->id;
    uint32_t calls = to_id(id)->calls;

    assert_int_equal(pthread_create(&reply, NULL, reply_later, NULL), 0);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    if (fresh)
        assert_int_equal(rdma_destroy_id(fresh), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    id = NULL;
    end(thread, reply);
    assert_int_equal(calls, 1);
}

static void test_error_ends(void **state)
{
    expect_end(CTL_CM_RESOLVE_ADDR, resolve_addr, RDMA_CM_EVENT_ADDR_ERROR);
}

static void test_request_ends(void **state)
{
    expect_end(CTL_CM_LISTEN, listen_with, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* ---- a queue pair that ends while an event of its connection is taken ---- */

static sem_t changing, destroyed;
static bool overlapped;

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct timespec until;

    sem_post(&changing);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    overlapped |= !sem_timedwait(&destroyed, &until);
    return EINVAL;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    sem_post(&destroyed);
    return 0;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return 0;
}

static void *get_event(void *arg)
{
    return rdma_get_cm_event(channel, arg) ? arg : NULL;
}

static void test_qp_ends(void **state)
{
    const struct ctl_cm_event accepted = {.type = RDMA_CM_EVENT_CONNECT_RESPONSE};
    struct ibv_qp qp = {.qp_type = IBV_QPT_RC};
    enum rdma_cm_event_type type;
    struct rdma_cm_event *event;
    pthread_t thread;
    void *failed;

    assert_int_equal(rdma_destroy_id(id), 0);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    sem_init(&changing, 0, 0);
    sem_init(&destroyed, 0, 0);
    id->qp = &qp;
    assert_int_equal(pthread_create(&thread, NULL, get_event, &event), 0);
    fake_daemon_event(to_id(id)->entry.handle, &accepted);
    sem_wait(&changing);
    rdma_destroy_qp(id);
    pthread_join(thread, &failed);
    assert_null(failed);
    type = event->event;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_false(overlapped);
    assert_null(id->qp);
    assert_int_equal(type, RDMA_CM_EVENT_CONNECT_ERROR);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_address),     WITH(test_route),        WITH(test_leave),
        WITH(test_leave_twice), WITH(test_join_fails),   WITH(test_join_by_attributes),
        WITH(test_error_ends),  WITH(test_request_ends), WITH(test_qp_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
