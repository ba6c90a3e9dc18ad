/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that are cancelled: calls that hold a lock of the library finish, so that other threads
 * can go on. The thread asks for it itself, before its call.
 */
#include <semaphore.h>
#include <unistd.h>

#include "cma.h"
#include "fake_daemon.h"
#include "unit.h"

#define DEADLOCK_SECONDS 10

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void *cancel(void *call)
{
    pthread_cancel(pthread_self());
    ((void (*)(void))call)();
    pthread_testcancel();
    return NULL;
}

static void in_cancelled(void (*call)(void))
{
    pthread_t thread;
    void *result;

    assert_int_equal(pthread_create(&thread, NULL, cancel, (void *)call), 0);
    pthread_join(thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    alarm(DEADLOCK_SECONDS);
}

static void make_channel(void)
{
    channel = rdma_create_event_channel();
}

/* The first channel of a process connects to the daemon, as all that come at the same time wait
 * for. */
static void test_connects(void **state)
{
    fake_daemon_start();
    in_cancelled(make_channel);
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    alarm(0);
}

static void write_event(void)
{
    rdma_write_cm_event(id, CMA_EVENT_USER, 0, 7);
}

static void test_posts(void **state)
{
    struct rdma_cm_event *event;

    in_cancelled(write_event);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(event->event, CMA_EVENT_USER);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    alarm(0);
}

static void destroy_id(void)
{
    rdma_destroy_id(id);
    id = NULL;
}

/* An id's end waits for the acknowledgment, which needs the id's lock. */
static void test_waits(void **state)
{
    struct rdma_cm_event *event;
    struct timespec until;
    pthread_t thread;

    write_event();
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel, (void *)destroy_id), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), ETIMEDOUT);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    pthread_join(thread, NULL);
    assert_null(id);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
}

static void destroy_all(void)
{
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    channel = NULL;
}

static void test_ends(void **state)
{
    in_cancelled(destroy_all);
    assert_null(channel);
    assert_int_equal(fake_daemon_ids(), 0);
    alarm(0);
    fake_daemon_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connects),
        cmocka_unit_test(test_posts),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_ends),
    };

    return cmocka_run_group_tests_name("rdmacm_cancel", tests, NULL, NULL);
}
