/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that are resolved with an event. */
#include "cma.h"
#include "fake_daemon.h"
#include "unit.h"

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/* What rdma_resolve_addrinfo has found is there once. */
static void test_addrinfo(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST}, *info = NULL;
    struct rdma_event_channel *channel;
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;

    fake_daemon_start();
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_query_addrinfo(id, &info), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rdma_query_addrinfo(id, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_addrinfo(id, "192.0.2.7", "7471", &hints), 0);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(event->event, CMA_EVENT_ADDRINFO_RESOLVED);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_query_addrinfo(id, &info), 0);
    assert_non_null(info->ai_dst_addr);
    rdma_freeaddrinfo(info);
    assert_int_equal(rdma_query_addrinfo(id, &info), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    fake_daemon_stop();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addrinfo),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
