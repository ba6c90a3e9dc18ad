/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the kernel's addresses while they change, in a network namespace of the test's own. Needs
 * root, else it is skipped. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netdev.h"

#define LOOPBACK 1    /* its index in every namespace */
#define FIRST    2000 /* enough for a dump of several parts */
#define ALL      4000

static struct netdev_state now;

static int add(uint32_t number)
{
    uint32_t address = htonl(UINT32_C(0x0A000001) + number);
    union gid gid = gid_from_ipv4((const uint8_t *)&address);

    return netdev_add_address(LOOPBACK, &gid, 32);
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
    unsigned reads = 0, interrupted = 0;
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_while_addresses_change)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
