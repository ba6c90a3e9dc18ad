/* SPDX-License-Identifier: BSD-3-Clause */
/* See cm_group.h. */
#include "cm_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "unit.h"

#define TIMEOUT_MS 5000

static struct sockaddr *at(struct sockaddr_in *a, const char *text)
{
    *a = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, text, &a->sin_addr), 1);
    return (struct sockaddr *)a;
}

/* An id without a channel holds the event of its last call, which the next call acknowledges: to
 * leave the group waits for no one else. */
void test_synchronous_group(void **state)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD};
    struct sockaddr_in here, group, other;
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(
        rdma_resolve_addr(id, at(&here, "127.0.0.1"), at(&group, "239.1.2.3"), TIMEOUT_MS), 0);
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rdma_join_multicast(id, at(&group, "239.1.2.3"), NULL), 0);
        assert_non_null(id->event);
        assert_int_equal(id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
        assert_int_equal(rdma_leave_multicast(id, at(&group, "239.1.2.3")), 0);
        assert_null(id->event);
    }
    /* The event of another group stays. */
    assert_int_equal(rdma_join_multicast(id, at(&group, "239.1.2.3"), NULL), 0);
    assert_int_equal(rdma_join_multicast(id, at(&other, "239.1.2.4"), NULL), 0);
    assert_int_equal(rdma_leave_multicast(id, at(&group, "239.1.2.3")), 0);
    assert_non_null(id->event);
    assert_int_equal(rdma_leave_multicast(id, at(&other, "239.1.2.4")), 0);
    assert_int_equal(rdma_leave_multicast(id, at(&other, "239.1.2.4")), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    rdma_destroy_qp(id);
    assert_int_equal(rdma_destroy_id(id), 0);
}
