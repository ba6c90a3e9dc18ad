/* SPDX-License-Identifier: BSD-3-Clause */
/* What listeners of rsockets do that the kernel's listeners do. */
#include "rsocket_listen.h"

#include <string.h>

#define RSOCKET_PORT 32700
#include "rsocket_caller.h"

/* ---- addresses ---- */

static struct sockaddr_in6 mapped(uint16_t number)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(number)};

    assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &in.sin6_addr), 1);
    return in;
}

static uint16_t check_name(int s, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_in6 is = {0}, wanted = mapped(0);
    socklen_t length = sizeof(is);

    assert_int_equal(name(s, (struct sockaddr *)&is, &length), 0);
    assert_int_equal(length, sizeof(is));
    assert_int_equal(is.sin6_family, AF_INET6);
    assert_memory_equal(&is.sin6_addr, &wanted.sin6_addr, sizeof(is.sin6_addr));
    return ntohs(is.sin6_port);
}

/* IPv6 sockets have mapped addresses for IPv4: listening, connected to a mapped one, and bound. */
void test_mapped_stream(void **state)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(++port)}, from, to;
    struct sockaddr_in in = here(port);
    int listener = rsocket(AF_INET6, SOCK_STREAM, 0), a = make_socket(0, 0), b;
    socklen_t length = sizeof(from);

    assert_int_equal(rbind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(rlisten(listener, 8), 0);
    assert_int_equal(rconnect(a, (struct sockaddr *)&in, sizeof(in)), 0);
    b = raccept(listener, (struct sockaddr *)&from, &length);
    assert_true(b >= 0);
    assert_int_equal(length, sizeof(from));
    assert_int_equal(from.sin6_family, AF_INET6);
    assert_int_equal(check_name(b, rgetpeername), ntohs(from.sin6_port));
    assert_int_equal(check_name(b, rgetsockname), port);
    assert_int_equal(rclose(b), 0);
    assert_int_equal(rclose(a), 0);
    a = rsocket(AF_INET6, SOCK_STREAM, 0);
    to = mapped(0);
    assert_int_equal(rbind(a, (struct sockaddr *)&to, sizeof(to)), 0);
    check_name(a, rgetsockname);
    to = mapped(port);
    assert_int_equal(rconnect(a, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(check_name(a, rgetpeername), port);
    check_name(a, rgetsockname);
    b = raccept(listener, NULL, NULL);
    assert_int_equal(rsend(a, "x", 1, 0), 1);
    assert_int_equal(await(b, POLLIN), POLLIN);
    assert_int_equal(rclose(b), 0);
    assert_int_equal(rclose(a), 0);
    assert_int_equal(rclose(listener), 0);
}
