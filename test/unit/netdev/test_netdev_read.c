/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the kernel's addresses while they change, in a network namespace of the test's own. Needs
 * root, else it is skipped. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netdev.h"

#define LOOPBACK 1    /* its index in every namespace */
#define FIRST    2000 /* enough for a dump of several parts */
#define ALL      4000

static struct netdev_state now;
static const struct netdev_state none;

static int add(uint32_t number)
{
    uint32_t address = htonl(UINT32_C(0x0A000001) + number);
    union gid gid = gid_from_ipv4((const uint8_t *)&address);

    return netdev_add_address(LOOPBACK, &gid, 32);
}

static int add_text(const char *text)
{
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    return netdev_add_address(LOOPBACK, &gid, gid_is_ipv4(&gid) ? 32 : 128);
}

static void add_more(void)
{
    for (uint32_t i = FIRST; i < ALL; i++)
        if (add(i))
            _exit(1);
    _exit(0);
}

static void test_read_while_addresses_change(void **state)
{
    struct netdev_address *list;
    unsigned reads = 0, interrupted = 0, count;
    int status;
    pid_t child;

    if (unshare(CLONE_NEWNET))
        skip();
    for (uint32_t i = 0; i < FIRST; i++)
        assert_int_equal(add(i), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child)
        add_more();
    while (!waitpid(child, &status, WNOHANG)) {
        int err = netdev_read(LOOPBACK, &now);

        reads++;
        interrupted += err == -EINTR;
        assert_true(!err || err == -EINTR);
        assert_int_equal(err ? NET_ADDRESS_MAX : now.addresses, NET_ADDRESS_MAX);
    }
    assert_int_equal(status, 0);
    /* Most dumps are interrupted once; netdev_read repeats them, so few reads end so. Beside other
     * programs a child adds its addresses within few reads, and each of them counts for more. */
    assert_in_range(interrupted, 0, reads / 4 + 4);
    assert_int_equal(netdev_read(LOOPBACK, &now), 0);
    assert_int_equal(now.addresses, NET_ADDRESS_MAX);
    assert_int_equal(netdev_read_host(&list, &count), 0);
    assert_int_equal(count, ALL);
    assert_int_equal(list[ALL - 1].ifindex, LOOPBACK);
    assert_int_equal(list[ALL - 1].prefix, 32);
    free(list);
}

/* Those of the host alone, ::1 of the interface, which gets it when it comes up, are read, too. */
static void test_watch_and_read_host(void **state)
{
    struct netdev_address *list;
    struct netdev_watch *w;
    struct pollfd changed;
    unsigned count;
    int err;

    if (unshare(CLONE_NEWNET))
        skip();
    w = netdev_watch_open(0, &err);
    assert_non_null(w);
    changed = (struct pollfd){.fd = netdev_watch_fd(w), .events = POLLIN};
    assert_int_equal(netdev_read_host(&list, &count), 0);
    assert_int_equal(count, 0);
    assert_null(list);
    assert_int_equal(poll(&changed, 1, 0), 0);
    assert_int_equal(add_text("::1"), 0);
    assert_int_equal(poll(&changed, 1, 10000), 1);
    assert_int_equal(add_text("10.0.0.1"), 0);
    assert_true(netdev_watch_drain(w, &none));
    assert_int_equal(poll(&changed, 1, 0), 0);
    assert_int_equal(netdev_read_host(&list, &count), 0);
    assert_int_equal(count, 2);
    assert_true(gid_is_ipv4(&list[0].addr) && !gid_is_ipv4(&list[1].addr));
    free(list);
    assert_int_equal(netdev_read(LOOPBACK, &now), 0);
    assert_int_equal(now.addresses, 1);
    netdev_watch_close(w);
}

static void set_up(int fd)
{
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};

    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
}

/* 11.0.0.0/8 by the loopback interface. */
static void change_route(int fd, unsigned long request)
{
    char name[] = "lo";
    struct rtentry r = {.rt_dev = name, .rt_flags = RTF_UP};

    *(struct sockaddr_in *)&r.rt_dst =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(11u << 24)};
    *(struct sockaddr_in *)&r.rt_genmask =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(255u << 24)};
    assert_int_equal(ioctl(fd, request, &r), 0);
}

/* They are no reason to read the configuration of an interface. */
static void test_routes_of_others(void **state)
{
    struct netdev_watch *own, *other;
    struct pollfd changed;
    int fd, err;

    if (unshare(CLONE_NEWNET))
        skip();
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    set_up(fd);
    own = netdev_watch_open(LOOPBACK, &err);
    other = netdev_watch_open(LOOPBACK + 1, &err);
    assert_true(own && other);
    changed = (struct pollfd){.fd = netdev_watch_fd(other), .events = POLLIN};
    change_route(fd, SIOCADDRT);
    change_route(fd, SIOCDELRT);
    assert_true(netdev_watch_drain(own, &none));
    assert_false(netdev_watch_drain(own, &none));
    assert_int_equal(poll(&changed, 1, 0), 1);
    assert_false(netdev_watch_drain(other, &none));
    assert_int_equal(poll(&changed, 1, 0), 0);
    /* An address among them is one. */
    change_route(fd, SIOCADDRT);
    assert_int_equal(add_text("10.0.0.1"), 0);
    change_route(fd, SIOCDELRT);
    assert_true(netdev_watch_drain(other, &none));
    netdev_watch_close(own);
    netdev_watch_close(other);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_while_addresses_change),
                                       cmocka_unit_test(test_watch_and_read_host),
                                       cmocka_unit_test(test_routes_of_others)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
