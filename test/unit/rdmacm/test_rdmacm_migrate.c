/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener that goes to another channel, where another thread may be waiting. */
#include "cma.h"
#include "fake_daemon.h"
#include "unit.h"

static struct rdma_event_channel *channel, *other;
static struct rdma_cm_id *id;

static int setup(void **state)
{
    fake_daemon_start();
    channel = rdma_create_event_channel();
    other = rdma_create_event_channel();
    assert_non_null(channel);
    assert_non_null(other);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(other);
    rdma_destroy_event_channel(channel);
    fake_daemon_stop();
    return 0;
}

static void *migrate(void *arg)
{
    return rdma_migrate_id(id, other) ? arg : NULL;
}

/* A request that comes by the new channel, and is read before the daemon's reply, is of that one:
 * its id, too. The call that has got it asks the daemon for nothing. */
static void test_request_overtakes(void **state)
{
    const struct ctl_cm_event request = {.type = RDMA_CM_EVENT_CONNECT_REQUEST};
    struct rdma_cm_event *event;
    struct rdma_cm_id *fresh;
    pthread_t thread;
    void *failed;

    fake_daemon_delay(CTL_CM_MIGRATE);
    assert_int_equal(pthread_create(&thread, NULL, migrate, id), 0);
    fake_daemon_await();
    fake_daemon_event(to_id(id)->entry.handle, &request);
    assert_int_equal(rdma_get_cm_event(other, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    fresh = event->id;
    assert_int_equal(rdma_ack_cm_event(event), 0); /* for which the other thread waits */
    assert_ptr_equal(fresh->channel, other);
    fake_daemon_reply();
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_ptr_equal(id->channel, other);
    assert_int_equal(fake_daemon_calls(CTL_CM_MIGRATE, NULL), 1);
    assert_int_equal(rdma_destroy_id(fresh), 0);
}

/* Where the daemon refuses, the id and its events stay where they are. */
static void test_refused(void **state)
{
    const struct ctl_cm_event error = {.type = RDMA_CM_EVENT_ADDR_ERROR};
    struct rdma_cm_event *event;

    fake_daemon_event(to_id(id)->entry.handle, &error);
    fake_daemon_fail(CTL_CM_MIGRATE, -EINVAL);
    assert_int_equal(rdma_migrate_id(id, other), -1);
    assert_int_equal(errno, EINVAL);
    assert_ptr_equal(id->channel, channel);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_ERROR);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_request_overtakes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
