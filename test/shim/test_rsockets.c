/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets, both ends in one process, over the daemon that run_rsockets.py starts. Each test has a
 * port number of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RSOCKET_PORT 30000
#include "rsocket_pair.h"
#include "rsocket_restart.h"

#define STREAM (3u << 20)

int repoll_create(int flags);
int repoll_ctl(int set, int op, int fd, struct epoll_event *event);
int repoll_wait(int set, struct epoll_event *events, int max, int timeout);

/* ---- connections ---- */

static void test_refused(void **state)
{
    struct sockaddr_in in = here(29999);
    int s = make_socket(0, 0), error;
    socklen_t length = sizeof(error);
    char byte;

    fails_with(rrecv(s, &byte, 1, 0), ENOTCONN);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), ECONNREFUSED);
    fails_with(rrecv(s, &byte, 1, 0), ENOTCONN);
    set_nonblocking(s); /* it may try again */
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
    assert_true(await(s, POLLOUT) & POLLERR);
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    assert_int_equal(error, ECONNREFUSED);
    assert_int_equal(rclose(s), 0);
    fails_with(rclose(s), EBADF);
    fails_with(rsend(s, &byte, 1, 0), EBADF);
}

static void test_nonblocking_connect(void **state)
{
    int listener = make_listener(SOCK_STREAM), s = make_socket(0, 0), t, error = -1;
    struct sockaddr_in in = here(port), name, peer;
    socklen_t length = sizeof(error);
    char byte = 7;

    set_nonblocking(listener);
    fails_with(raccept(listener, NULL, NULL), EAGAIN);
    set_nonblocking(s);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
    if (rconnect(s, (struct sockaddr *)&in, sizeof(in))) /* the listener's backlog has room */
        assert_true(errno == EALREADY || errno == EISCONN);
    for (;;) { /* both ends need turns */
        struct pollfd fds[2] = {{.fd = s, .events = POLLOUT}, {.fd = listener, .events = POLLIN}};

        assert_true(rpoll(fds, 2, WAIT_MS) > 0);
        if (fds[1].revents)
            break;
    }
    length = sizeof(peer);
    t = raccept(listener, (struct sockaddr *)&peer, &length);
    assert_true(t >= 0);
    assert_int_equal(await(s, POLLOUT) & (POLLOUT | POLLERR), POLLOUT);
    length = sizeof(error);
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    assert_int_equal(error, 0);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EISCONN);
    length = sizeof(name);
    assert_int_equal(rgetsockname(s, (struct sockaddr *)&name, &length), 0);
    assert_memory_equal(&name, &peer, 8);
    assert_int_equal(rgetpeername(s, (struct sockaddr *)&name, &length), 0);
    assert_int_equal(name.sin_port, in.sin_port);
    fails_with(rrecv(s, &byte, 1, 0), EAGAIN);
    assert_int_equal(rsend(t, &byte, 1, 0), 1);
    assert_int_equal(await(s, POLLIN), POLLIN);
    assert_int_equal(rrecv(s, &byte, 1, 0), 1);
    close_pair(&(struct pair){listener, s, t});
}

/* ---- bytes ---- */

static uint8_t byte_at(uint32_t i, uint8_t seed)
{
    return (uint8_t)(i * 7 + (i >> 11) + seed);
}

struct flow {
    int s;
    uint8_t seed;
    bool failed;
};

static void *send_thread(void *arg)
{
    struct flow *f = arg;
    uint8_t *bytes = malloc(STREAM);
    uint32_t sent = 0;

    for (uint32_t i = 0; i < STREAM; i++)
        bytes[i] = byte_at(i, f->seed);
    for (uint32_t step = 1; sent < STREAM && !f->failed; step = step * 5 % 200003) {
        uint32_t n = step < STREAM - sent ? step : STREAM - sent;

        f->failed = rsend(f->s, bytes + sent, n, 0) != (ssize_t)n;
        sent += n;
    }
    free(bytes);
    return NULL;
}

static void *recv_thread(void *arg)
{
    struct flow *f = arg;
    uint8_t *bytes = malloc(STREAM);
    uint32_t got = 0;

    for (uint32_t step = 1; got < STREAM && !f->failed; step = step * 3 % 100003) {
        ssize_t n = rrecv(f->s, bytes + got, step < STREAM - got ? step : STREAM - got, 0);

        f->failed = n <= 0;
        got += (uint32_t)n;
    }
    for (uint32_t i = 0; i < STREAM && !f->failed; i++)
        f->failed = bytes[i] != byte_at(i, f->seed);
    free(bytes);
    return NULL;
}

/* Four threads: both directions of one connection at the same time. */
static void check_both_directions(const struct pair *p)
{
    struct flow flows[] = {{p->a, 1, false}, {p->b, 1, false}, {p->b, 2, false}, {p->a, 2, false}};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i % 2 ? recv_thread : send_thread, &flows[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_false(flows[i].failed);
    }
}

static void test_both_directions(void **state)
{
    struct pair p;

    make_pair(&p, 0, 0);
    check_both_directions(&p);
    close_pair(&p);
}

static void check_queues(int value)
{
    static const int options[] = {RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE};

    for (unsigned i = 0; i < 3; i++) {
        struct pair p;

        make_pair(&p, options[i], value);
        check_both_directions(&p);
        close_pair(&p);
    }
}

/* Credits, slots and inline bytes are few: each is what a sender waits for. */
static void test_small_queues(void **state)
{
    check_queues(1);
}

/* More than the device has becomes what it has. */
static void test_large_queues(void **state)
{
    check_queues(INT_MAX);
}

static void test_small_buffers(void **state)
{
    struct sockaddr_in in;
    struct pair p;
    int size = 1, value;
    socklen_t length = sizeof(value);
    pthread_t thread;

    p.listener = make_listener(SOCK_STREAM);
    p.a = make_socket(0, 0);
    in = here(port);
    assert_int_equal(rsetsockopt(p.listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    assert_int_equal(rsetsockopt(p.a, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    assert_int_equal(rgetsockopt(p.a, SOL_SOCKET, SO_SNDBUF, &value, &length), 0);
    assert_int_equal(value, 4096);
    pthread_create(&thread, NULL, connect_thread, &p.a);
    p.b = raccept(p.listener, NULL, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(rgetsockopt(p.b, SOL_SOCKET, SO_RCVBUF, &value, &length), 0);
    assert_int_equal(value, 4096); /* the listener's */
    (void)in;
    check_both_directions(&p);
    close_pair(&p);
}

/* A sender that does not block fills the peer's buffer, waits for room, and gets all through. */
static void test_nonblocking_bytes(void **state)
{
    uint8_t *out = malloc(STREAM), *in = malloc(STREAM);
    uint32_t sent = 0, got = 0;
    struct pair p;

    make_pair(&p, 0, 0);
    set_nonblocking(p.a);
    set_nonblocking(p.b);
    for (uint32_t i = 0; i < STREAM; i++)
        out[i] = byte_at(i, 3);
    for (;;) { /* nothing is read: it stops */
        ssize_t n = rsend(p.a, out + sent, STREAM - sent, 0);

        if (n < 0)
            break;
        sent += (uint32_t)n;
        assert_true(sent < STREAM);
    }
    assert_int_equal(errno, EAGAIN);
    while (got < STREAM) {
        struct pollfd fds[2] = {{.fd = p.a, .events = sent < STREAM ? POLLOUT : 0},
                                {.fd = p.b, .events = POLLIN}};
        ssize_t n;

        assert_true(rpoll(fds, 2, WAIT_MS) > 0);
        if (fds[0].revents) {
            assert_int_equal(fds[0].revents, POLLOUT);
            n = rsend(p.a, out + sent, STREAM - sent, 0);
            assert_true(n > 0);
            sent += (uint32_t)n;
        }
        if (fds[1].revents) {
            n = rrecv(p.b, in + got, STREAM - got, 0);
            assert_true(n > 0);
            got += (uint32_t)n;
        }
    }
    assert_memory_equal(in, out, STREAM);
    free(out);
    free(in);
    close_pair(&p);
}

static void test_flags_and_pieces(void **state)
{
    char one[] = "one", two[] = "two";
    struct iovec out[] = {{one, 3}, {one, 0}, {two, 3}}, in[2];
    struct timeval time = {.tv_usec = 50000};
    struct msghdr msg = {.msg_iov = out, .msg_iovlen = 3};
    struct timespec begin;
    char all[12], first[4], second[8];
    struct pair p;

    make_pair(&p, 0, 0);
    assert_int_equal(rwritev(p.a, out, 3), 6);
    assert_int_equal(rsendmsg(p.a, &msg, 0), 6);
    assert_int_equal(rrecv(p.b, second, 6, MSG_PEEK | MSG_WAITALL), 6);
    while (rrecv(p.b, all, sizeof(all), MSG_PEEK) <
           (ssize_t)sizeof(all)) /* until the second came */
        ;
    in[0] = (struct iovec){first, 4};
    in[1] = (struct iovec){second, 8};
    assert_int_equal(rrecv(p.b, first, 2, 0), 2);
    msg = (struct msghdr){.msg_iov = in, .msg_iovlen = 2};
    assert_int_equal(rrecvmsg(p.b, &msg, MSG_WAITALL | MSG_DONTWAIT), 10);
    assert_memory_equal(first, "etwo", 4);
    assert_memory_equal(second, "onetwo", 6);
    fails_with(rrecv(p.b, second, 1, MSG_DONTWAIT), EAGAIN);
    fails_with(rrecv(p.b, second, 1, MSG_OOB), EOPNOTSUPP);
    assert_int_equal(rsetsockopt(p.b, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    fails_with(rread(p.b, second, 1), EAGAIN);
    assert_true(elapsed_ms(&begin) >= 50);
    assert_int_equal(rwrite(p.b, "x", 1), 1);
    assert_int_equal(rreadv(p.a, in, 2), 1);
    close_pair(&p);
}

/* ---- ends ---- */

static void test_half_close(void **state)
{
    struct pair p;
    char byte;

    make_pair(&p, 0, 0);
    assert_int_equal(rsend(p.a, "a", 1, 0), 1);
    assert_int_equal(rshutdown(p.a, SHUT_WR), 0);
    fails_with(rsend(p.a, "a", 1, 0), EPIPE);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 0);
    assert_true(await(p.b, POLLIN | POLLRDHUP) & POLLRDHUP);
    assert_int_equal(rsend(p.b, "b", 1, 0), 1); /* the other direction goes on */
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    assert_int_equal(rclose(p.b), 0);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 0);
    assert_true(await(p.a, 0) & POLLHUP);
    assert_int_equal(rclose(p.a), 0);
    assert_int_equal(rclose(p.listener), 0);
}

/* All that was sent before rclose can be read after it; then it is the end, and no error. */
static void test_close_keeps_bytes(void **state)
{
    uint8_t out[50000], in[50000];
    struct pair p;

    for (uint32_t i = 0; i < sizeof(out); i++)
        out[i] = byte_at(i, 9);
    make_pair(&p, 0, 0);
    assert_int_equal(rsend(p.a, out, sizeof(out), 0), sizeof(out));
    assert_int_equal(rclose(p.a), 0);
    assert_int_equal(await(p.b, POLLIN) & (POLLIN | POLLERR | POLLHUP), POLLIN);
    assert_int_equal(rrecv(p.b, in, sizeof(in), MSG_WAITALL), sizeof(in));
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(rrecv(p.b, in, 1, 0), 0);
    fails_with(rsend(p.b, in, 1, 0), EPIPE);
    assert_int_equal(rclose(p.b), 0);
    assert_int_equal(rclose(p.listener), 0);
}

static void *blocked_recv(void *arg)
{
    char byte;

    return (void *)(intptr_t)rrecv(*(int *)arg, &byte, 1, 0);
}

/* Two threads sleep for one socket, and a third one ends it. */
static void test_shutdown_wakes(void **state)
{
    struct pair p;
    pthread_t threads[2];
    void *result;

    make_pair(&p, 0, 0);
    pthread_create(&threads[0], NULL, blocked_recv, &p.a);
    pthread_create(&threads[1], NULL, blocked_recv, &p.b);
    usleep(30000);
    assert_int_equal(rshutdown(p.a, SHUT_RDWR), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    close_pair(&p);
}

/* ---- polling ---- */

static void test_poll_mixed(void **state)
{
    struct timeval none = {0};
    struct timespec begin;
    struct pollfd fds[3];
    fd_set set, writable;
    int pipes[2];
    struct pair p;
    char byte;

    make_pair(&p, 0, 0);
    assert_int_equal(pipe(pipes), 0);
    for (int i = 0; i < 3; i++)
        fds[i] = (struct pollfd){.fd = i == 0 ? p.b : i == 1 ? pipes[0] : -1, .events = POLLIN};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(rpoll(fds, 3, 30), 0);
    assert_true(elapsed_ms(&begin) >= 30);
    assert_int_equal(write(pipes[1], "p", 1), 1);
    assert_int_equal(rpoll(fds, 3, WAIT_MS), 1);
    assert_true(!fds[0].revents && fds[1].revents == POLLIN);
    assert_int_equal(rsend(p.a, "s", 1, 0), 1);
    while (rpoll(fds, 3, WAIT_MS) != 2) /* the pipe does not hide the socket */
        assert_true(elapsed_ms(&begin) < WAIT_MS);
    FD_ZERO(&set);
    FD_ZERO(&writable);
    FD_SET(p.b, &set);
    FD_SET(pipes[0], &set);
    FD_SET(p.b, &writable);
    assert_int_equal(rselect(FD_SETSIZE, &set, &writable, NULL, NULL), 3);
    assert_true(FD_ISSET(p.b, &set) && FD_ISSET(pipes[0], &set) && FD_ISSET(p.b, &writable));
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    FD_CLR(pipes[0], &set);
    assert_int_equal(rselect(FD_SETSIZE, &set, NULL, NULL, &none), 0);
    assert_false(FD_ISSET(p.b, &set));
    close(pipes[0]);
    close(pipes[1]);
    close_pair(&p);
}

/* As with select(2), sets that are longer than an fd_set, for descriptors beyond it. */
static void test_select_beyond(void **state)
{
    enum { BEYOND = 2 * FD_SETSIZE + 5 };
    struct rlimit before, more;
    struct timeval none = {0};
    fd_set set[4] = {0};
    int pipes[2];

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    more = (struct rlimit){before.rlim_max < 4 * FD_SETSIZE ? before.rlim_max : 4 * FD_SETSIZE,
                           before.rlim_max};
    if (more.rlim_cur <= BEYOND)
        skip();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(dup2(pipes[0], BEYOND), BEYOND);
    FD_SET(BEYOND % FD_SETSIZE, &set[BEYOND / FD_SETSIZE]);
    assert_int_equal(rselect(BEYOND + 1, set, NULL, NULL, &none), 0);
    assert_false(FD_ISSET(BEYOND % FD_SETSIZE, &set[BEYOND / FD_SETSIZE]));
    FD_SET(BEYOND % FD_SETSIZE, &set[BEYOND / FD_SETSIZE]);
    assert_int_equal(write(pipes[1], "p", 1), 1);
    assert_int_equal(rselect(BEYOND + 1, set, NULL, NULL, NULL), 1);
    assert_true(FD_ISSET(BEYOND % FD_SETSIZE, &set[BEYOND / FD_SETSIZE]));
    fails_with(rselect(-1, NULL, NULL, NULL, &none), EINVAL);
    close(BEYOND);
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void *late_send(void *arg)
{
    usleep(30000);
    rsend(*(int *)arg, "l", 1, 0);
    return NULL;
}

static void test_epoll(void **state)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 77}, got[4];
    int set = repoll_create(EPOLL_CLOEXEC), other = repoll_create(0);
    pthread_t thread;
    struct pair p;
    char byte;

    make_pair(&p, 0, 0);
    assert_true(set >= 0);
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, p.b, &e), 0);
    fails_with(repoll_ctl(set, EPOLL_CTL_ADD, p.b, &e), EEXIST);
    fails_with(repoll_ctl(set, EPOLL_CTL_DEL, p.a, NULL), ENOENT);
    fails_with(repoll_ctl(p.a, EPOLL_CTL_ADD, p.b, &e), EINVAL);
    fails_with(repoll_ctl(set, EPOLL_CTL_ADD, set, &e), EINVAL);
    fails_with(repoll_ctl(set, EPOLL_CTL_ADD, other, &e), EPERM);
    assert_int_equal(rclose(other), 0);
    fails_with(repoll_wait(set, got, 0, 0), EINVAL);
    assert_int_equal(repoll_wait(set, got, 4, 20), 0);
    pthread_create(&thread, NULL, late_send, &p.a);
    assert_int_equal(repoll_wait(set, got, 4, WAIT_MS), 1);
    pthread_join(thread, NULL);
    assert_true(got[0].events == EPOLLIN && got[0].data.u64 == 77);
    e.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT;
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_MOD, p.b, &e), 0);
    assert_int_equal(repoll_wait(set, got, 4, WAIT_MS), 1);
    assert_int_equal(got[0].events, EPOLLIN | EPOLLOUT);
    assert_int_equal(repoll_wait(set, got, 4, 0), 0); /* once */
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_MOD, p.b, &e), 0);
    assert_int_equal(repoll_wait(set, got, 4, WAIT_MS), 1);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, p.b, NULL), 0);
    assert_int_equal(repoll_wait(set, got, 4, 0), 0);
    assert_int_equal(rclose(set), 0);
    fails_with(repoll_wait(set, got, 4, 0), EBADF);
    close_pair(&p);
}

static void *late_add(void *arg)
{
    struct epoll_event e = {.events = EPOLLOUT};
    int *set_and_socket = arg;

    usleep(30000);
    repoll_ctl(set_and_socket[0], EPOLL_CTL_ADD, set_and_socket[1], &e);
    return NULL;
}

/* A thread that waits learns of what another one adds. */
static void test_epoll_changes(void **state)
{
    int set_and_socket[2] = {repoll_create(0)};
    struct epoll_event got;
    pthread_t thread;
    struct pair p;

    make_pair(&p, 0, 0);
    set_and_socket[1] = p.a;
    pthread_create(&thread, NULL, late_add, set_and_socket);
    assert_int_equal(repoll_wait(set_and_socket[0], &got, 1, WAIT_MS), 1);
    pthread_join(thread, NULL);
    assert_int_equal(got.events, EPOLLOUT);
    assert_int_equal(rclose(set_and_socket[0]), 0);
    close_pair(&p);
}

static void add_to(int set, int fd, uint64_t data)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = data};

    assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, fd, &e), 0);
}

static void *late_close(void *arg)
{
    usleep(30000);
    rclose(*(int *)arg);
    return NULL;
}

/* A server that closes, and never deletes: what is closed has no events, and its number is free. */
static void test_epoll_closed(void **state)
{
    int set = repoll_create(0);
    struct epoll_event got[4];
    struct timespec begin;
    pthread_t thread;
    struct pair p;

    for (unsigned round = 0; round < 4; round++) {
        make_pair(&p, 0, 0);
        add_to(set, p.b, round);
        assert_int_equal(rsend(p.a, "x", 1, 0), 1);
        assert_int_equal(repoll_wait(set, got, 4, WAIT_MS), 1);
        assert_int_equal(got[0].data.u64, round);
        if (round % 2) { /* under a wait, or before it */
            pthread_create(&thread, NULL, late_close, &p.b);
            while (repoll_wait(set, got, 4, 60))
                assert_int_equal(got[0].events, EPOLLIN);
            pthread_join(thread, NULL);
        } else {
            assert_int_equal(rclose(p.b), 0);
            clock_gettime(CLOCK_MONOTONIC, &begin);
            assert_int_equal(repoll_wait(set, got, 4, 30), 0);
            assert_true(elapsed_ms(&begin) >= 30);
        }
        fails_with(repoll_ctl(set, EPOLL_CTL_DEL, p.b, NULL), EBADF);
        assert_int_equal(rclose(p.a), 0);
        assert_int_equal(rclose(p.listener), 0);
    }
    assert_int_equal(rclose(set), 0);
}

/* A number that is used again is a new row, and not the old one. */
static void test_epoll_reused(void **state)
{
    int set = repoll_create(0), old = make_socket(0, 0), pipes[2];
    struct epoll_event e = {.events = EPOLLOUT}, got[4];

    add_to(set, old, 1);
    assert_int_equal(rclose(old), 0);
    assert_int_equal(make_socket(0, 0), old); /* has EPOLLHUP */
    assert_int_equal(repoll_wait(set, got, 4, 0), 0);
    fails_with(repoll_ctl(set, EPOLL_CTL_MOD, old, &e), ENOENT);
    add_to(set, old, 2);
    assert_int_equal(rclose(old), 0);
    assert_int_equal(make_socket(0, 0), old);
    add_to(set, old, 3);
    assert_int_equal(repoll_wait(set, got, 4, WAIT_MS), 1);
    assert_int_equal(got[0].data.u64, 3);
    assert_int_equal(rclose(old), 0);
    for (uint64_t round = 0; round < 3; round++) { /* no rsocket, by the same number */
        assert_int_equal(pipe(pipes), 0);
        assert_int_equal(pipes[0], old);
        add_to(set, old, round);
        assert_int_equal(write(pipes[1], "p", 1), 1);
        assert_int_equal(repoll_wait(set, got, 4, WAIT_MS), 1);
        assert_int_equal(got[0].data.u64, round);
        close(pipes[0]);
        close(pipes[1]);
        if (round == 1)
            assert_int_equal(repoll_wait(set, got, 4, 0), 0);
    }
    assert_int_equal(rclose(set), 0);
}

/* ---- options ---- */

static void test_options(void **state)
{
    static const struct {
        int level, name, set, get;
    } rows[] = {
        {SOL_SOCKET, SO_SNDBUF, 100000, 100096}, {SOL_SOCKET, SO_RCVBUF, 200000, 200064},
        {SOL_SOCKET, SO_REUSEADDR, 1, 1},        {SOL_SOCKET, SO_KEEPALIVE, 1, 1},
        {SOL_SOCKET, SO_OOBINLINE, 1, 1},        {IPPROTO_TCP, TCP_NODELAY, 1, 1},
        {IPPROTO_TCP, TCP_MAXSEG, 1000, 1000},   {IPPROTO_IPV6, IPV6_V6ONLY, 1, 1},
        {SOL_RDMA, RDMA_SQSIZE, 100, 100},       {SOL_RDMA, RDMA_RQSIZE, 1, 16},
        {SOL_RDMA, RDMA_INLINE, 32, 32},         {SOL_RDMA, RDMA_IOMAPSIZE, 200, 128},
        {SOL_RDMA, RDMA_SQSIZE, 65520, 16380},   {SOL_RDMA, RDMA_INLINE, 1024, 512},
        {IPPROTO_IP, IP_TOS, -1, 255},           {IPPROTO_IP, IP_TOS, 300, 44},
    };
    struct linger linger = {1, 3}, got = {0};
    int s = rsocket(AF_INET6, SOCK_STREAM, 0), value;
    socklen_t length = sizeof(value);

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rsetsockopt(s, rows[i].level, rows[i].name, &rows[i].set, sizeof(int)), 0);
        assert_int_equal(rgetsockopt(s, rows[i].level, rows[i].name, &value, &length), 0);
        assert_int_equal(value, rows[i].get);
    }
    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    length = sizeof(got);
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_LINGER, &got, &length), 0);
    assert_memory_equal(&got, &linger, sizeof(got));
    length = sizeof(value);
    fails_with(rgetsockopt(s, SOL_SOCKET, SO_PEERCRED, &value, &length), ENOPROTOOPT);
    fails_with(rsetsockopt(s, IPPROTO_TCP, TCP_DEFER_ACCEPT, &value, sizeof(value)), ENOPROTOOPT);
    fails_with(rsetsockopt(s, SOL_SOCKET, SO_SNDBUF, &value, 1), EINVAL);
    value = -5; /* and not what it is from now on */
    fails_with(rsetsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof(value)), EINVAL);
    assert_int_equal(rgetsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &value, &length), 0);
    assert_int_equal(value, 1000);
    assert_int_equal(rclose(s), 0);
    fails_with(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    fails_with(rsocket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
    fails_with(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
}

/* Datagrams are of a UDP socket, which has all other options. */
static void test_datagram_options(void **state)
{
    int s = rsocket(AF_INET, SOCK_DGRAM, 0), value = 1, ttl = 7;
    socklen_t length = sizeof(value);
    unsigned char byte = 2;

    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_BROADCAST, &value, sizeof(value)), 0);
    value = 0;
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_BROADCAST, &value, &length), 0);
    assert_int_equal(value, 1);
    assert_int_equal(rsetsockopt(s, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl)), 0);
    assert_int_equal(rgetsockopt(s, IPPROTO_IP, IP_TTL, &value, &length), 0);
    assert_int_equal(value, ttl);
    assert_int_equal(rsetsockopt(s, IPPROTO_IP, IP_MULTICAST_TTL, &byte, 1), 0);
    fails_with(rsetsockopt(s, IPPROTO_IP, IP_TTL, &ttl, 0), EINVAL);
    fails_with(rsetsockopt(s, SOL_SOCKET, SO_SNDBUF, &ttl, 1), EINVAL);
    fails_with(rsetsockopt(s, SOL_RDMA, RDMA_SQSIZE, &ttl, 1), EINVAL);
    fails_with(rsetsockopt(s, SOL_RDMA, 1000, &value, sizeof(value)), ENOPROTOOPT);
    assert_int_equal(rclose(s), 0);
}

/* Options that change while the connection lasts are not those that it was made with. */
static void test_late_options(void **state)
{
    static const int names[] = {RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE, RDMA_IOMAPSIZE};
    struct timespec begin;
    int value = 1000;
    struct pair p;

    make_pair(&p, 0, 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(rsetsockopt(p.a, SOL_RDMA, names[i], &value, sizeof(value)), 0);
    check_both_directions(&p);
    fails_with(riowrite(p.a, &value, 4, 0, 0), EINVAL);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    close_pair(&p);
    assert_true(elapsed_ms(&begin) < WAIT_MS);
}

/* A child that closes what it inherited leaves its parent's connection alone. */
static void test_child_closes(void **state)
{
    struct pair p;
    pid_t child;
    int status;

    make_pair(&p, 0, 0);
    child = fork();
    if (!child)
        _exit(rclose(p.a) || rclose(p.listener));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_both_directions(&p);
    close_pair(&p);
}

/* What a program has sent, and that it sends no more, arrives though it ends without rclose. */
static void test_exit_keeps_bytes(void **state)
{
    uint8_t out[50000], in[50000];
    int listener = make_listener(SOCK_STREAM), status;

    for (uint32_t i = 0; i < sizeof(out); i++)
        out[i] = byte_at(i, 4);
    fflush(NULL);
    for (unsigned round = 0; round < 20; round++) {
        pid_t child = fork();
        int s;

        if (!child) {
            s = make_socket(0, 0);
            exit(!connect_thread(&s) && rsend(s, out, sizeof(out), 0) == sizeof(out) ? 0 : 1);
        }
        s = raccept(listener, NULL, NULL);
        assert_true(s >= 0);
        assert_int_equal(rrecv(s, in, sizeof(in), MSG_WAITALL), sizeof(in));
        assert_memory_equal(in, out, sizeof(in));
        if (round %
            2) { /* what the daemon says of its end has come, too: the channel is readable */
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_int_equal(poll(&(struct pollfd){.fd = s, .events = POLLIN}, 1, WAIT_MS), 1);
            assert_int_equal(await(s, POLLIN) & (POLLIN | POLLERR | POLLHUP), POLLIN);
        }
        assert_int_equal(rrecv(s, in, 1, 0), 0);
        assert_int_equal(rrecv(s, in, 1, 0), 0);
        if (!(round % 2))
            assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(rclose(s), 0);
    }
    assert_int_equal(rclose(listener), 0);
}

/* ---- direct writes ---- */

static void test_iomap(void **state)
{
    static uint8_t target[100000], source[100000];
    struct pair p;
    char byte;

    make_pair(&p, RDMA_IOMAPSIZE, 2);
    for (uint32_t i = 0; i < sizeof(source); i++)
        source[i] = byte_at(i, 4);
    fails_with(riowrite(p.a, source, 10, 5000, 0), EINVAL); /* no such mapping */
    assert_int_equal(riomap(p.b, target, sizeof(target), PROT_WRITE, 0, 5000), 5000);
    assert_int_equal(riomap(p.b, source, 10, PROT_WRITE, 0, -1), (off_t)(uintptr_t)source);
    fails_with(riomap(p.b, source, 20, PROT_WRITE, 0, -1), ENOBUFS);
    fails_with(riomap(p.b, source, 20, PROT_READ, 0, -1), EINVAL);
    assert_int_equal(rsend(p.b, "m", 1, 0), 1);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    assert_int_equal(riowrite(p.a, source, sizeof(source) - 100, 5100, 0), sizeof(source) - 100);
    assert_int_equal(rsend(p.a, "w", 1, 0), 1);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    assert_memory_equal(target + 100, source, sizeof(source) - 100);
    assert_int_equal(riounmap(p.b, target, sizeof(target)), 0);
    fails_with(riounmap(p.b, target, sizeof(target)), EINVAL);
    assert_int_equal(rsend(p.b, "u", 1, 0), 1);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    fails_with(riowrite(p.a, source, 10, 5000, 0), EINVAL); /* the peer has been told */
    close_pair(&p);
}

/* Both ends map a buffer, and one only ever writes into the other's: that, too, tells of its own.
 */
static void test_iomap_before_iowrite(void **state)
{
    static uint8_t target[2][100];
    const struct timespec pause = {.tv_nsec = 1000000};
    struct pair p;
    char byte;

    make_pair(&p, RDMA_IOMAPSIZE, 2);
    assert_int_equal(riomap(p.a, target[0], 100, PROT_WRITE, 0, 0), 0);
    assert_int_equal(riomap(p.b, target[1], 100, PROT_WRITE, 0, 0), 0);
    assert_int_equal(rsend(p.b, "m", 1, 0), 1);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    assert_int_equal(riowrite(p.a, "a", 1, 0, 0), 1);
    for (unsigned i = 0; i < WAIT_MS && !*(volatile uint8_t *)target[1]; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(target[1][0], 'a');
    assert_int_equal(riowrite(p.b, "b", 1, 0, 0), 1);
    close_pair(&p);
}

/* ---- datagrams ---- */

static void test_datagrams(void **state)
{
    int a = rsocket(AF_INET, SOCK_DGRAM, 0), b = make_listener(SOCK_DGRAM);
    struct sockaddr_in to = here(port), from, name;
    uint8_t out[2040], in[2100];
    struct iovec iov = {out, 3};
    const struct msghdr unnamed = {.msg_name = &from, .msg_iov = &iov, .msg_iovlen = 1};
    socklen_t length = sizeof(from);

    for (int i = 0; i < 200; i++) { /* the first by UDP */
        size_t size = (size_t)i * 10;

        for (uint32_t k = 0; k < size; k++)
            out[k] = byte_at(k, (uint8_t)i);
        assert_int_equal(rsendto(a, out, size, 0, (struct sockaddr *)&to, sizeof(to)), size);
        length = sizeof(from);
        assert_int_equal(rrecvfrom(b, in, sizeof(in), 0, (struct sockaddr *)&from, &length), size);
        assert_memory_equal(in, out, size);
        length = sizeof(name);
        assert_int_equal(rgetsockname(a, (struct sockaddr *)&name, &length), 0);
        assert_int_equal(from.sin_port, name.sin_port);
        assert_int_equal(from.sin_addr.s_addr, to.sin_addr.s_addr);
        assert_int_equal(rsendto(b, "r", 1, 0, (struct sockaddr *)&from, sizeof(from)), 1);
        assert_true(await(a, POLLIN) & POLLIN);
        assert_int_equal(rrecv(a, in, sizeof(in), MSG_PEEK), 1);
        assert_int_equal(rrecv(a, in, sizeof(in), MSG_DONTWAIT), 1);
    }
    fails_with(rrecv(a, in, 1, MSG_DONTWAIT), EAGAIN);
    fails_with(rsend(a, out, 1, 0), EDESTADDRREQ);
    fails_with(rsendmsg(a, &unnamed, 0), EDESTADDRREQ);
    fails_with(rsendto(a, in, 2041, 0, (struct sockaddr *)&to, sizeof(to)), EMSGSIZE);
    fails_with(rsendto(a, in, SIZE_MAX, 0, (struct sockaddr *)&to, sizeof(to)), EMSGSIZE);
    assert_int_equal(rconnect(a, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(rsend(a, out, 100, 0), 100);
    assert_int_equal(rrecv(b, in, 10, MSG_TRUNC), 100);
    assert_int_equal(rsendmsg(a, &unnamed, 0), 3);
    assert_int_equal(rrecv(b, in, 10, 0), 3);
    assert_int_equal(rgetpeername(a, (struct sockaddr *)&name, &length), 0);
    assert_int_equal(name.sin_port, to.sin_port);
    assert_int_equal(rclose(a), 0);
    assert_int_equal(rclose(b), 0);
}

/* A wildcard as destination is this host, whose answers come from another address. */
static void test_datagrams_to_any(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(++port)}, from, name;
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}, name6;
    int a = rsocket(AF_INET, SOCK_DGRAM, 0), b = rsocket(AF_INET, SOCK_DGRAM, 0);
    int six = rsocket(AF_INET6, SOCK_DGRAM, 0);
    socklen_t length = sizeof(name);
    char byte;

    assert_int_equal(rbind(b, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(rconnect(a, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(rgetpeername(a, (struct sockaddr *)&name, &length), 0);
    assert_int_equal(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(name.sin_port, any.sin_port);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(rsend(a, "q", 1, 0), 1);
        assert_true(await(b, POLLIN) & POLLIN);
        length = sizeof(from);
        assert_int_equal(rrecvfrom(b, &byte, 1, 0, (struct sockaddr *)&from, &length), 1);
        assert_int_equal(rsendto(b, "a", 1, 0, (struct sockaddr *)&from, sizeof(from)), 1);
        assert_true(await(a, POLLIN) & POLLIN);
        assert_int_equal(rrecv(a, &byte, 1, 0), 1);
    }
    assert_int_equal(rconnect(six, (struct sockaddr *)&any6, sizeof(any6)), 0);
    length = sizeof(name6);
    assert_int_equal(rgetpeername(six, (struct sockaddr *)&name6, &length), 0);
    assert_true(IN6_IS_ADDR_LOOPBACK(&name6.sin6_addr));
    assert_int_equal(rclose(six), 0);
    assert_int_equal(rclose(a), 0);
    assert_int_equal(rclose(b), 0);
}

static struct sockaddr_in6 mapped(uint16_t number)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(number)};

    assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &in.sin6_addr), 1);
    return in;
}

static void take_from(int s, bool six, struct sockaddr_storage *from)
{
    struct sockaddr_in6 in6 = mapped(0);
    socklen_t length = sizeof(*from);
    char byte;

    assert_true(await(s, POLLIN) & POLLIN);
    assert_int_equal(rrecvfrom(s, &byte, 1, 0, (struct sockaddr *)from, &length), 1);
    assert_int_equal(from->ss_family, six ? AF_INET6 : AF_INET);
    assert_int_equal(length, six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    if (six)
        assert_memory_equal(&((struct sockaddr_in6 *)from)->sin6_addr, &in6.sin6_addr, 16);
}

/* Questions and answers, first by UDP and then by queue pairs. */
static void check_families(int a, bool a_six, int b, bool b_six)
{
    struct sockaddr_storage first = {0}, from;
    socklen_t size = b_six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    for (int i = 0; i < 30; i++) {
        assert_int_equal(rsend(a, "q", 1, 0), 1);
        take_from(b, b_six, &from);
        if (!i)
            first = from;
        assert_memory_equal(&from, &first, b_six ? 24 : 8);
        assert_int_equal(rsendto(b, "a", 1, 0, (struct sockaddr *)&from, size), 1);
        take_from(a, a_six, &from);
    }
}

/* An IPv4 peer has a mapped address for an IPv6 socket, always. */
static void test_mapped(void **state)
{
    int four = make_listener(SOCK_DGRAM), six = rsocket(AF_INET6, SOCK_DGRAM, 0);
    int client = rsocket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 name, any = {.sin6_family = AF_INET6}, to = mapped(port);
    struct sockaddr_in in;
    socklen_t length = sizeof(name);

    assert_int_equal(rconnect(client, (struct sockaddr *)&to, sizeof(to)), 0);
    check_families(client, true, four, false);
    assert_int_equal(rgetpeername(client, (struct sockaddr *)&name, &length), 0);
    assert_memory_equal(&name, &to, sizeof(to));
    fails_with(rsendto(four, "n", 1, 0, (struct sockaddr *)&to, sizeof(to)), EAFNOSUPPORT);
    assert_int_equal(rclose(client), 0);
    client = rsocket(AF_INET, SOCK_DGRAM, 0);
    any.sin6_port = htons(++port);
    in = here(port);
    assert_int_equal(rbind(six, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(rconnect(client, (struct sockaddr *)&in, sizeof(in)), 0);
    check_families(client, false, six, true);
    assert_int_equal(rclose(client), 0);
    assert_int_equal(rclose(six), 0);
    assert_int_equal(rclose(four), 0);
}

/* What did not fit is told in msg_flags, of datagrams by UDP (the first) and by queue pairs. */
static void test_truncated(void **state)
{
    int a = rsocket(AF_INET, SOCK_DGRAM, 0), b = make_listener(SOCK_DGRAM);
    struct sockaddr_in to = here(port);
    char in[10];

    for (int i = 0; i < 60; i++) {
        struct iovec pieces[2] = {{in, 2}, {in + 2, i % 3 ? 2 : 8}};
        struct msghdr m = {.msg_iov = pieces, .msg_iovlen = 2, .msg_flags = -1};
        int flags = i % 3 == 1 ? MSG_TRUNC : 0;

        assert_int_equal(rsendto(a, "0123456789", 10, 0, (struct sockaddr *)&to, sizeof(to)), 10);
        assert_true(await(b, POLLIN) & POLLIN);
        assert_int_equal(rrecvmsg(b, &m, flags | MSG_PEEK), i % 3 == 2 ? 4 : 10);
        assert_int_equal(m.msg_flags, i % 3 ? MSG_TRUNC : 0);
        m.msg_flags = -1;
        assert_int_equal(rrecvmsg(b, &m, flags), i % 3 == 2 ? 4 : 10);
        assert_int_equal(m.msg_flags, i % 3 ? MSG_TRUNC : 0);
        assert_memory_equal(in, "0123456789", i % 3 ? 4 : 10);
    }
    assert_int_equal(rclose(a), 0);
    assert_int_equal(rclose(b), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nonblocking_connect),
        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_small_queues),
        cmocka_unit_test(test_large_queues),
        cmocka_unit_test(test_small_buffers),
        cmocka_unit_test(test_nonblocking_bytes),
        cmocka_unit_test(test_flags_and_pieces),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_close_keeps_bytes),
        cmocka_unit_test(test_shutdown_wakes),
        cmocka_unit_test(test_poll_mixed),
        cmocka_unit_test(test_select_beyond),
        cmocka_unit_test(test_epoll),
        cmocka_unit_test(test_epoll_changes),
        cmocka_unit_test(test_epoll_closed),
        cmocka_unit_test(test_epoll_reused),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_datagram_options),
        cmocka_unit_test(test_late_options),
        cmocka_unit_test(test_child_closes),
        cmocka_unit_test(test_exit_keeps_bytes),
        cmocka_unit_test(test_iomap),
        cmocka_unit_test(test_iomap_before_iowrite),
        cmocka_unit_test(test_datagrams),
        cmocka_unit_test(test_datagrams_to_any),
        cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_one_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
