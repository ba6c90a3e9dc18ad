/* SPDX-License-Identifier: BSD-3-Clause */
#include "rsocket_restart.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

#define WAIT_MS    5000
#define WARM       60 /* datagrams, after which they go by queue pairs */
#define ONE_WAY_MS 2500
#define BURST      16
#define STALL_MS   300 /* the machine had no time for us */

static int bound(uint16_t *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t length = sizeof(in);
    int s = rsocket(AF_INET, SOCK_DGRAM, 0);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(s >= 0);
    assert_int_equal(rbind(s, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(rgetsockname(s, (struct sockaddr *)&in, &length), 0);
    *port = ntohs(in.sin_port);
    return s;
}

static void connect_to(int s, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(rconnect(s, (struct sockaddr *)&in, sizeof(in)), 0);
}

static bool arrives(int s, int ms)
{
    struct pollfd fd = {.fd = s, .events = POLLIN};

    return rpoll(&fd, 1, ms) == 1;
}

static void put(int s, uint32_t number)
{
    assert_int_equal(rsend(s, &number, sizeof(number), 0), sizeof(number));
}

static uint32_t get(int s)
{
    uint32_t number;

    assert_true(arrives(s, WAIT_MS));
    assert_int_equal(rrecv(s, &number, sizeof(number), 0), sizeof(number));
    return number;
}

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void exchange(int client, int server, uint32_t from)
{
    for (uint32_t i = from; i < from + WARM; i++) {
        put(client, i);
        assert_int_equal(get(server), i);
    }
}

/* A server that closes and comes back at its port gets its client's datagrams again. */
void test_restart(void **state)
{
    uint16_t none = 0, port = 0;
    int client = bound(&none), server = bound(&port);
    uint32_t sent = 1000;
    long begin;

    connect_to(client, port);
    for (int round = 0; round < 2; round++) {
        exchange(client, server, 0);
        assert_int_equal(rclose(server), 0);
        server = bound(&port);
        begin = now_ms();
        do {
            put(client, ++sent);
            assert_true(now_ms() - begin < WAIT_MS);
        } while (!arrives(server, 10));
        while (arrives(server, 50)) /* a slow machine may have sent several */
            assert_in_range(get(server), 1000, sent);
    }
    exchange(client, server, 0);
    assert_int_equal(rclose(client), 0);
    assert_int_equal(rclose(server), 0);
}

/* A peer that only receives gets all datagrams, in order. */
void test_one_way(void **state)
{
    uint16_t none = 0, port = 0;
    int client = bound(&none), server = bound(&port);
    uint32_t next = WARM;
    long begin = now_ms(), before = begin, last = begin;

    connect_to(client, port);
    exchange(client, server, 0);
    while (last - begin < ONE_WAY_MS) {
        uint32_t seen = 0, disorder = 0;

        for (uint32_t i = 0; i < BURST; i++) {
            put(client, next + i);
            usleep(50); /* what goes another way has time to be overtaken */
        }
        for (uint32_t i = 0; i < BURST; i++) {
            uint32_t number = get(server) - next;

            assert_true(number < BURST);
            seen |= 1u << number;
            disorder += number != i;
        }
        assert_int_equal(seen, (1u << BURST) - 1);
        if (now_ms() - before < STALL_MS)
            assert_int_equal(disorder, 0);
        before = last;
        last = now_ms();
        next += BURST;
    }
    assert_int_equal(rclose(client), 0);
    assert_int_equal(rclose(server), 0);
}
