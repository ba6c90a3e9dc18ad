/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected rsockets, both ends in one process, for the tests of rsockets. */
#ifndef UROCE_TEST_RSOCKET_PAIR_H
#define UROCE_TEST_RSOCKET_PAIR_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <time.h>

#include "unit.h"

#define WAIT_MS 5000

/* Of the last listener: each test has numbers of its own. The program defines the first one. */
static uint16_t port = RSOCKET_PORT;

struct pair {
    int listener, a, b; /* connected, accepted */
};

/* ---- pairs ---- */

static inline struct sockaddr_in here(uint16_t number)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(number)};

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

static inline int make_listener(int type)
{
    struct sockaddr_in in = here(++port);
    int s = rsocket(AF_INET, type, 0);

    assert_true(s >= 0);
    assert_int_equal(rbind(s, (struct sockaddr *)&in, sizeof(in)), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(rlisten(s, 8), 0);
    return s;
}

static inline int make_socket(int option, int value)
{
    int s = rsocket(AF_INET, SOCK_STREAM, 0);

    assert_true(s >= 0);
    if (value)
        assert_int_equal(rsetsockopt(s, SOL_RDMA, option, &value, sizeof(value)), 0);
    return s;
}

static inline void *connect_thread(void *arg)
{
    struct sockaddr_in in = here(port);

    return rconnect(*(int *)arg, (struct sockaddr *)&in, sizeof(in)) ? arg : NULL;
}

static inline void make_pair(struct pair *p, int option, int value)
{
    pthread_t thread;
    void *failed;

    p->listener = make_listener(SOCK_STREAM);
    if (value)
        assert_int_equal(rsetsockopt(p->listener, SOL_RDMA, option, &value, sizeof(value)), 0);
    p->a = make_socket(option, value);
    pthread_create(&thread, NULL, connect_thread, &p->a);
    p->b = raccept(p->listener, NULL, NULL);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_true(p->b >= 0);
}

static inline void close_pair(const struct pair *p)
{
    assert_int_equal(rclose(p->a), 0);
    assert_int_equal(rclose(p->b), 0);
    assert_int_equal(rclose(p->listener), 0);
}

static inline void set_nonblocking(int s)
{
    assert_int_equal(rfcntl(s, F_SETFL, O_NONBLOCK), 0);
    assert_true(rfcntl(s, F_GETFL) & O_NONBLOCK);
}

static inline short await(int s, short events)
{
    struct pollfd fd = {.fd = s, .events = events};

    assert_int_equal(rpoll(&fd, 1, WAIT_MS), 1);
    return fd.revents;
}

#define fails_with(call, number)           \
    do {                                   \
        errno = 0;                         \
        assert_int_equal((int)(call), -1); \
        assert_int_equal(errno, (number)); \
    } while (0)

static inline long elapsed_ms(const struct timespec *since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

#endif
