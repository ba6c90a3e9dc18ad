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

/* ---- rshutdown ---- */

static int connect_error(int s)
{
    socklen_t length = sizeof(int);
    int error;

    await(s, POLLOUT);
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

static int connect_to_listener(void)
{
    struct sockaddr_in in = here(port);
    int s = make_socket(0, 0);

    set_nonblocking(s);
    if (rconnect(s, (struct sockaddr *)&in, sizeof(in)))
        assert_int_equal(errno, EINPROGRESS);
    return s;
}

/* One connection waits to be accepted, the next for room in the backlog; both end, and later ones
 * are refused until the socket listens again. */
void test_shut_listener(void **state)
{
    int listener = make_listener(SOCK_STREAM), a, b, c;
    struct sockaddr_in name;
    socklen_t length = sizeof(name);
    char byte;

    assert_int_equal(rlisten(listener, 1), 0);
    a = connect_to_listener();
    assert_int_equal(connect_error(a), 0);
    b = connect_to_listener();
    assert_int_equal(rshutdown(listener, SHUT_WR), 0);
    assert_int_equal(await(listener, POLLIN), POLLIN);
    assert_int_equal(rshutdown(listener, SHUT_RD), 0);
    assert_int_equal(connect_error(b), ECONNREFUSED);
    await(a, POLLIN);
    assert_true(rrecv(a, &byte, 1, 0) <= 0);
    fails_with(raccept(listener, NULL, NULL), EINVAL);
    assert_int_equal(await(listener, POLLIN | POLLOUT), POLLOUT | POLLHUP);
    c = connect_to_listener();
    assert_int_equal(connect_error(c), ECONNREFUSED);
    assert_int_equal(rclose(c), 0);
    fails_with(rshutdown(listener, SHUT_RD), ENOTCONN);
    assert_int_equal(rgetsockname(listener, (struct sockaddr *)&name, &length), 0);
    assert_int_equal(ntohs(name.sin_port), port);
    assert_int_equal(rlisten(listener, 8), 0);
    c = connect_to_listener();
    assert_int_equal(connect_error(c), 0);
    assert_int_equal(rclose(raccept(listener, NULL, NULL)), 0);
    assert_int_equal(rclose(a), 0);
    assert_int_equal(rclose(b), 0);
    assert_int_equal(rclose(c), 0);
    assert_int_equal(rclose(listener), 0);
}

static int accept_error;

static void accept_one(int s)
{
    accept_error = raccept(s, NULL, NULL) < 0 ? errno : 0;
}

void test_shut_wakes_accept(void **state)
{
    int listener = make_listener(SOCK_STREAM);
    struct caller c;

    begin(&c, accept_one, listener);
    await_sleep(&c, false);
    assert_int_equal(rshutdown(listener, SHUT_RDWR), 0);
    assert_null(result_of(&c));
    assert_int_equal(accept_error, EINVAL);
    assert_int_equal(rclose(listener), 0);
}
