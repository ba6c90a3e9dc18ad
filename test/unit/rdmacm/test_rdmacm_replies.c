/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon should not answer, found by test/fuzz/fuzz_rdmacm.c. */
#include <arpa/inet.h>

#include "cma.h"
#include "fuzz_daemon.h"
#include "unit.h"

/* Changes of answers (fuzz_daemon.c): none; a descriptor of a file of n half KiB that nothing
 * wants, which makes the call fail with EIO. */
#define SAME    0
#define STRANGE 16, 0

struct program {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};

static void bind_id(struct program *p)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    assert_int_equal(rdma_create_id(p->channel, &p->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(p->id, (struct sockaddr *)&addr), 0);
}

static int setup(void **state)
{
    struct program *p = calloc(1, sizeof(*p));

    daemon_start();
    p->channel = rdma_create_event_channel();
    assert_non_null(p->channel);
    bind_id(p);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct program *p = *state;

    if (p->id)
        assert_int_equal(rdma_destroy_id(p->id), 0);
    rdma_destroy_event_channel(p->channel);
    daemon_stop();
    free(p);
    return 0;
}

#define ANSWER(...)                                     \
    do {                                                \
        static const uint8_t answers[] = {__VA_ARGS__}; \
        in = (struct input){answers, sizeof(answers)};  \
    } while (0)

/* libibverbs has freed it, and says EIO. */
static void test_protection_domain(void **state)
{
    struct program *p = *state;
    struct cma_device *device = to_id(p->id)->device;

    assert_non_null(device->pd);
    ANSWER(SAME, STRANGE);
    assert_int_equal(rdma_destroy_id(p->id), 0);
    assert_int_equal(in.left, 0);
    assert_null(device->pd);
    bind_id(p);
    assert_non_null(p->id->pd);
    assert_ptr_equal(p->id->pd->context, device->verbs);
}

static void test_completion_queues(void **state)
{
    struct program *p = *state;
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

    assert_int_equal(rdma_create_qp(p->id, NULL, &attr), 0);
    ANSWER(SAME, STRANGE); /* libibverbs does not trust the connection after that */
    rdma_destroy_qp(p->id);
    assert_int_equal(in.left, 0);
    assert_null(p->id->send_cq);
    assert_null(p->id->send_cq_channel);
    assert_null(p->id->recv_cq);
    assert_null(p->id->recv_cq_channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_protection_domain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_completion_queues, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
