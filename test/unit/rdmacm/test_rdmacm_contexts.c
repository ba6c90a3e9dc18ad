/* SPDX-License-Identifier: BSD-3-Clause */
/* The contexts of a daemon that has ended, in a program that goes on with the next one. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>

#include "cma.h"
#include "fuzz_daemon.h"
#include "unit.h"

#define RESTARTS 10

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static unsigned descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static struct ibv_context *connect_program(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
    return id->verbs;
}

static void restart_daemon(void)
{
    daemon_end();
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

static int setup(void **state)
{
    daemon_start();
    return 0;
}

static int teardown(void **state)
{
    daemon_stop();
    return 0;
}

static void test_closed(void **state)
{
    unsigned first = 0;

    for (unsigned i = 0; i < RESTARTS; i++) {
        connect_program();
        if (i == 1)
            first = descriptors();
        if (i > 1)
            assert_int_equal(descriptors(), first);
        restart_daemon();
    }
}

/* Also what the program has made of an id's domain, after the id has ended. */
static void test_objects(void **state)
{
    struct ibv_context *verbs = connect_program();
    struct ibv_comp_channel *events = ibv_create_comp_channel(verbs);
    struct ibv_mr *mr;
    static char buffer[8];
    int fd = verbs->async_fd;
    unsigned before;

    mr = ibv_reg_mr(id->pd, buffer, sizeof(buffer), 0);
    assert_non_null(events);
    assert_non_null(mr);
    restart_daemon();
    connect_program();
    assert_true(fcntl(fd, F_GETFD) >= 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    restart_daemon();
    connect_program();
    assert_int_equal(ibv_destroy_comp_channel(events), 0);
    before = descriptors();
    restart_daemon();
    connect_program();
    assert_true(descriptors() < before);
    restart_daemon();
}

static void test_listed(void **state)
{
    struct ibv_context **list = rdma_get_devices(NULL), *verbs = list[0];

    assert_non_null(verbs);
    rdma_free_devices(list);
    for (unsigned i = 0; i < RESTARTS; i++) {
        connect_program();
        restart_daemon();
    }
    assert_true(fcntl(verbs->async_fd, F_GETFD) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_listed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
