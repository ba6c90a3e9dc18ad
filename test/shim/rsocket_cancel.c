/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pthread_cancel of threads that are in calls of rsockets: they end, other threads go on with the
 * same sockets, and no descriptor is left. Timeouts let a test fail that would hang.
 */
#include "rsocket_cancel.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "descriptors.h"

#define RSOCKET_PORT 32500
#include "rsocket_caller.h"

/* Declared in rdma/rsocket.h since version 65 of rdma-core. */
int repoll_create(int flags);
int repoll_ctl(int set, int op, int fd, struct epoll_event *event);
int repoll_wait(int set, struct epoll_event *events, int max, int timeout);

static void cancel(struct caller *c, bool behind_another)
{
    await_sleep(c, behind_another);
    assert_int_equal(pthread_cancel(c->thread), 0);
    assert_ptr_equal(result_of(c), PTHREAD_CANCELED);
}

static void limit(int s)
{
    struct timeval t = {.tv_sec = WAIT_MS / 1000};

    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)), 0);
}

/* A pair whose calls end in time, and how many descriptors there were without it. */
static unsigned limited_pair(struct pair *p)
{
    unsigned before;

    make_pair(p, 0, 0); /* what the library keeps is there from now on */
    close_pair(p);
    before = open_descriptors();
    make_pair(p, 0, 0);
    limit(p->listener);
    limit(p->a);
    limit(p->b);
    return before;
}

static void nothing_is_left(const struct pair *p, unsigned before)
{
    close_pair(p);
    assert_int_equal(open_descriptors(), before);
}

/* ---- data ---- */

static void receive(int s)
{
    char byte;

    rrecv(s, &byte, 1, 0);
}

/* A thread that receives, and says so by the byte that it sends. */
static void receive_and_say(int s)
{
    char byte;

    if (rrecv(s, &byte, 1, 0) == 1)
        rsend(s, &byte, 1, 0);
}

static void exchange(int from, int to)
{
    char byte = 0;

    assert_int_equal(rsend(from, "x", 1, 0), 1);
    assert_int_equal(rrecv(to, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
}

/* Two threads receive, one behind the other. The one that is cancelled leaves the bytes to the
 * other. */
static void cancel_one_of_two(bool first)
{
    struct caller receiver, behind, *stays = first ? &behind : &receiver;
    struct pair p;
    unsigned before = limited_pair(&p);
    char byte;

    begin(&receiver, first ? receive : receive_and_say, p.a);
    await_sleep(&receiver, false);
    begin(&behind, first ? receive_and_say : receive, p.a);
    if (first)
        await_sleep(&behind, true);
    cancel(first ? &receiver : &behind, !first);
    assert_int_equal(rsend(p.b, "x", 1, 0), 1);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    assert_null(result_of(stays));
    exchange(p.b, p.a);
    exchange(p.a, p.b);
    nothing_is_left(&p, before);
}

void test_cancel_receive(void **state)
{
    cancel_one_of_two(true);
}

void test_cancel_behind_another(void **state)
{
    cancel_one_of_two(false);
}

void test_cancel_datagram(void **state)
{
    struct sockaddr_in in;
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);
    int s = make_listener(SOCK_DGRAM), t = rsocket(AF_INET, SOCK_DGRAM, 0);

    in = here(port);
    limit(s);
    assert_int_equal(rconnect(t, (struct sockaddr *)&in, sizeof(in)), 0);
    exchange(t, s);
    begin(&c, receive, s);
    cancel(&c, false);
    exchange(t, s);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(t), 0);
    nothing_is_left(&p, before);
}

static void send_much(int s)
{
    static char bytes[1 << 20];

    rsend(s, bytes, sizeof(bytes), 0);
}

void test_cancel_send(void **state)
{
    static char bytes[1 << 16];
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);
    ssize_t n;

    begin(&c, send_much, p.a);
    cancel(&c, false);
    while (rrecv(p.b, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(rsend(p.a, "x", 1, 0), 1);
    do { /* the last bytes of the cancelled thread may come first */
        n = rrecv(p.b, bytes, sizeof(bytes), 0);
        assert_true(n > 0);
    } while (bytes[n - 1] != 'x');
    nothing_is_left(&p, before);
}

/* ---- connections ---- */

static void accept_one(int s)
{
    raccept(s, NULL, NULL);
}

void test_cancel_accept(void **state)
{
    struct sockaddr_in in;
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);
    int a, b;

    in = here(port);
    begin(&c, accept_one, p.listener);
    cancel(&c, false);
    a = make_socket(0, 0);
    assert_int_equal(rconnect(a, (struct sockaddr *)&in, sizeof(in)), 0);
    b = raccept(p.listener, NULL, NULL);
    assert_true(b >= 0);
    exchange(a, b);
    assert_int_equal(rclose(a), 0);
    assert_int_equal(rclose(b), 0);
    nothing_is_left(&p, before);
}

static void connect_one(int s)
{
    struct sockaddr_in in = here(port);

    rconnect(s, (struct sockaddr *)&in, sizeof(in));
}

/* The connection comes all the same, when the backlog has room for it. */
void test_cancel_connect(void **state)
{
    struct sockaddr_in in;
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);
    int first, s, b;

    in = here(port);
    assert_int_equal(rlisten(p.listener, 1), 0);
    first = make_socket(0, 0);
    assert_int_equal(rconnect(first, (struct sockaddr *)&in, sizeof(in)), 0);
    s = make_socket(0, 0);
    limit(s);
    begin(&c, connect_one, s);
    cancel(&c, false);
    assert_int_equal(rclose(raccept(p.listener, NULL, NULL)), 0);
    assert_int_equal(rclose(first), 0);
    assert_int_equal(rconnect(s, (struct sockaddr *)&in, sizeof(in)), 0);
    b = raccept(p.listener, NULL, NULL);
    exchange(s, b);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(b), 0);
    nothing_is_left(&p, before);
}

/* ---- polling ---- */

static void poll_one(int s)
{
    struct pollfd fd = {.fd = s, .events = POLLIN};

    rpoll(&fd, 1, -1);
}

/* More than rpoll has room for on the stack. */
static void poll_many(int s)
{
    struct pollfd fds[64];

    for (unsigned i = 0; i < 64; i++)
        fds[i] = (struct pollfd){.fd = s, .events = POLLIN};
    rpoll(fds, 64, -1);
}

static void select_one(int s)
{
    fd_set set;

    FD_ZERO(&set);
    FD_SET(s, &set);
    rselect(s + 1, &set, NULL, NULL, NULL);
}

static int epoll_set;

static void wait_for_set(int s)
{
    struct epoll_event event;

    repoll_wait(epoll_set, &event, 1, -1);
}

void test_cancel_polls(void **state)
{
    static void (*const calls[])(int s) = {poll_one, poll_many, select_one, wait_for_set};
    struct epoll_event event = {.events = EPOLLIN};
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);

    epoll_set = repoll_create(0);
    assert_int_equal(repoll_ctl(epoll_set, EPOLL_CTL_ADD, p.a, &event), 0);
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        begin(&c, calls[i], p.a);
        cancel(&c, false);
        exchange(p.b, p.a); /* wakes those that are listed with the socket */
    }
    assert_int_equal(rsend(p.b, "x", 1, 0), 1);
    assert_int_equal(repoll_wait(epoll_set, &event, 1, WAIT_MS), 1);
    assert_int_equal(rclose(epoll_set), 0);
    nothing_is_left(&p, before);
}

/* ---- where the call does not sleep ---- */

static void cancelled_receive(int s)
{
    pthread_cancel(pthread_self());
    receive(s);
}

/* Before a call takes what is there. */
void test_cancel_before(void **state)
{
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);
    char byte;

    assert_int_equal(rsend(p.b, "x", 1, 0), 1);
    assert_int_equal(await(p.a, POLLIN), POLLIN);
    begin(&c, cancelled_receive, p.a);
    assert_ptr_equal(result_of(&c), PTHREAD_CANCELED);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    nothing_is_left(&p, before);
}

static atomic_bool closed;

/* All that a thread does that ends its connection. */
static void cancelled_close(int s)
{
    struct sockaddr_in in;
    socklen_t length = sizeof(in);
    int value;

    pthread_cancel(pthread_self());
    rgetsockname(s, (struct sockaddr *)&in, &length);
    length = sizeof(value);
    rgetsockopt(s, SOL_SOCKET, SO_ERROR, &value, &length);
    rshutdown(s, SHUT_RDWR);
    rclose(s);
    atomic_store(&closed, true);
    pthread_testcancel();
}

void test_cancel_never(void **state)
{
    struct caller c;
    struct pair p;
    unsigned before = limited_pair(&p);
    char byte;

    begin(&c, cancelled_close, p.a);
    assert_ptr_equal(result_of(&c), PTHREAD_CANCELED);
    assert_true(atomic_load(&closed));
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 0);
    assert_int_equal(rclose(p.b), 0);
    assert_int_equal(rclose(p.listener), 0);
    assert_int_equal(open_descriptors(), before);
}
