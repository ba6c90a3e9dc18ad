/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that the library has read, and the program has not. */
#include <fcntl.h>
#include <poll.h>

#include "cma.h"
#include "fake_daemon.h"
#include "unit.h"

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static int setup(void **state)
{
    fake_daemon_start();
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    fake_daemon_stop();
    return 0;
}

static uint32_t handle_of(struct rdma_cm_id *of)
{
    return to_id(of)->entry.handle;
}

static uint32_t give(struct rdma_cm_id *to, uint32_t type)
{
    return fake_daemon_event(handle_of(to), &(struct ctl_cm_event){.type = type});
}

static bool counts(const void *seen, const struct ctl_cm_told *told)
{
    ++*(unsigned *)(uintptr_t)seen;
    return false;
}

/* An id that ends does not look through what all the others have. */
static void test_end_looks_at_its_own(void **state)
{
    struct cma_arrivals none = TAILQ_HEAD_INITIALIZER(none);
    const struct cma_entry *own = &to_id(id)->entry;
    const struct cma_entry another = {.serial = own->serial + 1};
    unsigned seen = 0;

    for (unsigned i = 0; i < 10; i++)
        give(id, RDMA_CM_EVENT_UNREACHABLE);
    channel_extract(to_channel(channel), to_id(id)->link, &another, counts, &seen, &none);
    assert_int_equal(seen, 0);
    channel_extract(to_channel(channel), to_id(id)->link, own, counts, &seen, &none);
    assert_true(seen >= 10);
    assert_true(TAILQ_EMPTY(&none));
}

static void expect(struct rdma_event_channel *ch, uint32_t type, int status)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(ch, &event), 0);
    assert_int_equal(event->event, type);
    assert_int_equal(event->status, status);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

/* What an id takes along to another channel is in its order, local events before the daemon's. */
static void test_order(void **state)
{
    struct rdma_event_channel *other = rdma_create_event_channel();

    assert_non_null(other);
    for (int i = 0; i < 5; i++) {
        fake_daemon_event(handle_of(id),
                          &(struct ctl_cm_event){.type = RDMA_CM_EVENT_UNREACHABLE, .status = i});
        assert_int_equal(rdma_write_cm_event(id, CMA_EVENT_USER, i, 0), 0);
    }
    assert_int_equal(rdma_migrate_id(id, other), 0);
    for (int i = 0; i < 5; i++)
        expect(other, CMA_EVENT_USER, i);
    for (int i = 0; i < 5; i++)
        expect(other, RDMA_CM_EVENT_UNREACHABLE, i);
    assert_int_equal(rdma_migrate_id(id, channel), 0);
    rdma_destroy_event_channel(other);
}

/* What the daemon that is gone had said is not answered to the next one, whose handles are the same
 * numbers. */
static void test_next_daemon(void **state)
{
    struct rdma_cm_id *other, *fresh[3];
    struct rdma_cm_event *event;
    uint32_t request;

    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
    request = give(id, RDMA_CM_EVENT_CONNECT_REQUEST);
    give(other, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(rdma_destroy_id(other), 0); /* reads all events, for its own */
    fake_daemon_restart();
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(rdma_create_id(channel, &fresh[i], NULL, RDMA_PS_TCP), 0);
    assert_int_equal(handle_of(fresh[2]), request);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, 0), 0);
    assert_int_equal(fake_daemon_ids(), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(rdma_destroy_id(fresh[i]), 0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_end_looks_at_its_own),
        WITH(test_order),
        WITH(test_next_daemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
