/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets over a daemon that has event channels and ids, and no device. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "fake_daemon.h"
#include "unit.h"

static int s; /* a datagram socket */
static struct sockaddr_in name;

static int setup(void **state)
{
    socklen_t length = sizeof(name);

    fake_daemon_start();
    s = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_true(s >= 0);
    name = (struct sockaddr_in){.sin_family = AF_INET};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(rbind(s, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(rgetsockname(s, (struct sockaddr *)&name, &length), 0);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(rclose(s), 0);
    fake_daemon_stop();
    return 0;
}

/* A socket that has sent nothing, and so has no queue pair, fails as others do. */
static void test_daemon_ends(void **state)
{
    struct pollfd p = {.fd = s, .events = POLLIN};
    char byte;

    fake_daemon_restart();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rrecv(s, &byte, 1, 0), -1);
        assert_int_equal(errno, EIO);
    }
    assert_int_equal(rpoll(&p, 1, -1), 1);
    assert_int_equal(p.revents, POLLERR);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_daemon_ends),
    };

    return cmocka_run_group_tests_name("rdmacm_sockets", tests, NULL, NULL);
}
