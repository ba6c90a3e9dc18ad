/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets over a daemon that has event channels and ids, and no device. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "fake_daemon.h"
#include "rs_socket.h"
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

/* A datagram without bytes, by UDP. */
static void send_nothing(int udp)
{
    static const uint8_t packet[] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0, 1, 127, 0, 0, 1};

    assert_int_equal(sendto(udp, packet, sizeof(packet), 0, (struct sockaddr *)&name, sizeof(name)),
                     sizeof(packet));
}

/* Datagrams that a program does not receive take no more memory than it has said, however short
 * they are. */
static void test_flood(void **state)
{
    struct pollfd p = {.fd = s, .events = POLLIN};
    int udp = socket(AF_INET, SOCK_DGRAM, 0), bytes = 4096;
    unsigned got = 0;
    char byte;

    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
    for (unsigned i = 0; i < 500; i++) {
        send_nothing(udp);
        assert_int_equal(rpoll(&p, 1, -1), 1); /* takes what has arrived */
    }
    while (!rrecv(s, &byte, 1, MSG_DONTWAIT))
        got++;
    assert_int_equal(errno, EAGAIN);
    assert_in_range(got, 16, bytes / 128);
    send_nothing(udp); /* there is room again */
    assert_int_equal(rrecv(s, &byte, 1, 0), 0);
    close(udp);
}

static int get(int t, int level, int option)
{
    socklen_t length = sizeof(int);
    int value = -1;

    assert_int_equal(rgetsockopt(t, level, option, &value, &length), 0);
    return value;
}

static int set(int t, int level, int option, int value)
{
    return rsetsockopt(t, level, option, &value, sizeof(value)) ? errno : 0;
}

/* An option that is refused stays as it was. Whether an address may be shared can be said at any
 * time, as with TCP. */
static void test_refused_options(void **state)
{
    int t = rsocket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};

    fake_daemon_fail(CTL_CM_SET_OPTION, -EINVAL);
    assert_int_equal(set(t, IPPROTO_IPV6, IPV6_V6ONLY, 1), EINVAL);
    assert_int_equal(get(t, IPPROTO_IPV6, IPV6_V6ONLY), 0);
    fake_daemon_fail(CTL_CM_SET_OPTION, -EINVAL);
    assert_int_equal(set(t, SOL_SOCKET, SO_REUSEADDR, 1), EINVAL);
    assert_int_equal(get(t, SOL_SOCKET, SO_REUSEADDR), 0);
    assert_int_equal(rbind(t, (struct sockaddr *)&any, sizeof(any)), 0);
    fake_daemon_fail(CTL_CM_SET_OPTION, -EINVAL);
    assert_int_equal(set(t, SOL_SOCKET, SO_REUSEADDR, 1), 0);
    assert_int_equal(get(t, SOL_SOCKET, SO_REUSEADDR), 1);
    fake_daemon_fail(CTL_CM_SET_OPTION, -EIO);
    assert_int_equal(set(t, SOL_SOCKET, SO_REUSEADDR, 0), EIO);
    assert_int_equal(get(t, SOL_SOCKET, SO_REUSEADDR), 1);
    assert_int_equal(rclose(t), 0);
    /* of the kernel's UDP socket, which is bound */
    assert_int_equal(set(s, IPPROTO_IPV6, IPV6_V6ONLY, 1), ENOPROTOOPT);
    assert_int_equal(get(s, IPPROTO_IPV6, IPV6_V6ONLY), 0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* ---- signals ---- */

static volatile sig_atomic_t handled;
static struct rs_ops raising;
static void (*real_arm)(struct rsocket *rs);

static void count(int signal)
{
    handled++;
}

/* Between two sleeps of a call. */
static void arm_and_raise(struct rsocket *rs)
{
    real_arm(rs);
    raise(SIGUSR1);
}

/* It ends the call as one that arrives in a sleep does. */
static void test_signal_between_sleeps(void **state)
{
    const struct sigaction action = {.sa_handler = count}, none = {.sa_handler = SIG_DFL};
    struct rsocket *rs = rs_get(s);
    const struct rs_ops *ops = rs->ops;
    struct pollfd p = {.fd = s, .events = POLLIN};
    sigset_t now;
    char byte;

    raising = *ops;
    real_arm = ops->arm;
    raising.arm = arm_and_raise;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    rs->ops = &raising;
    assert_int_equal(rpoll(&p, 1, 5000), -1);
    assert_int_equal(errno, EINTR);
    assert_int_equal(rrecv(s, &byte, 1, 0), -1);
    assert_int_equal(errno, EINTR);
    rs->ops = ops;
    assert_true(handled >= 2);
    assert_int_equal(sigaction(SIGUSR1, &none, NULL), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    assert_false(sigismember(&now, SIGUSR1));
    rs_put(rs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_daemon_ends),
        WITH(test_flood),
        WITH(test_refused_options),
        WITH(test_signal_between_sleeps),
    };

    return cmocka_run_group_tests_name("rdmacm_sockets", tests, NULL, NULL);
}
