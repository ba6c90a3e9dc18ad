/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams whose work requests may fail, over a daemon that lets one fail: run_rsockets.py. */
#include <stdbool.h>

#define RSOCKET_PORT 34000
#include "rsocket_pair.h"

#define DATAGRAMS  300
#define LOST_MAX   4 /* the one that fails, and those that are sent before that is found out */
#define ARRIVAL_MS 200

static bool arrives(int s)
{
    struct pollfd fd = {.fd = s, .events = POLLIN};
    char byte;

    return rpoll(&fd, 1, ARRIVAL_MS) == 1 && rrecv(s, &byte, 1, 0) == 1;
}

/* A datagram that is lost takes no others along, neither those to this peer nor to another one. */
static void test_one_fails(void **state)
{
    int to[2] = {make_listener(SOCK_DGRAM), make_listener(SOCK_DGRAM)};
    int s = rsocket(AF_INET, SOCK_DGRAM, 0), lost = 0;

    for (int i = 0; i < DATAGRAMS && lost <= LOST_MAX; i++) {
        struct sockaddr_in in = here((uint16_t)(port - 1 + i % 2));

        assert_int_equal(rsendto(s, "q", 1, 0, (struct sockaddr *)&in, sizeof(in)), 1);
        lost += !arrives(to[i % 2]);
    }
    assert_true(lost <= LOST_MAX);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(to[0]), 0);
    assert_int_equal(rclose(to[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_fails)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
