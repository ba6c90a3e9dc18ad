/* SPDX-License-Identifier: BSD-3-Clause */
/* A port over packet sockets that does not open. */
#include "unit.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"

#define NETDEV "utest0"

static bool own_network;

static int read_mtu(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq ifr = {.ifr_name = NETDEV};

    assert_int_equal(ioctl(fd, SIOCGIFMTU, &ifr), 0);
    close(fd);
    return ifr.ifr_mtu;
}

/* The interface is left as it was. */
static void test_mtu_after_all(void **state)
{
    struct pktio_packet_config config = {.netdev = NETDEV, .queues = 1, .mtu = 4200};
    struct ifreq ifr = {.ifr_name = NETDEV, .ifr_flags = IFF_TAP | IFF_NO_PI};
    int tap = own_network ? open("/dev/net/tun", O_RDWR | O_CLOEXEC) : -1;
    struct rlimit limit, few;
    char error[256] = "";
    struct pktio *io;

    if (tap < 0)
        skip();
    assert_int_equal(ioctl(tap, TUNSETIFF, &ifr), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t)tap + 2; /* one descriptor, which is not the queue's */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    io = pktio_packet_open(&config, error, sizeof(error));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_null(io);
    assert_string_equal(error, NETDEV ": packet sockets: Too many open files");
    assert_int_equal(read_mtu(), 1500);
    close(tap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mtu_after_all)};

    own_network = !unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
