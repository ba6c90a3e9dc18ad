/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections complete out of a listener's backlog, as with TCP. A connection that does not is
 * EINPROGRESS after a while: no test hangs.
 */
#include "rsocket_backlog.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RSOCKET_PORT 32000
#include "rsocket_pair.h"

#define BACKLOG 4
#define CLIENTS (BACKLOG * 3)

/* At a port number of 127.0.0.1, which it takes. */
static int listen_at(uint16_t number, int backlog)
{
    struct sockaddr_in in = here(number);
    int s = make_socket(0, 0);

    assert_int_equal(rbind(s, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(rlisten(s, backlog), 0);
    return s;
}

static int connect_to(uint16_t number)
{
    struct timeval time = {.tv_sec = WAIT_MS / 1000};
    struct sockaddr_in in = here(number);
    int s = make_socket(0, 0);

    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)), 0);
    assert_int_equal(rconnect(s, (struct sockaddr *)&in, sizeof(in)), 0);
    return s;
}

static void exchange(int from, int to)
{
    char byte = 0;

    assert_int_equal(rsend(from, "x", 1, 0), 1);
    assert_int_equal(rrecv(to, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
}

/* One thread, and the oldest connection first. */
void test_connect_before_accept(void **state)
{
    int listener = listen_at(++port, BACKLOG), a[BACKLOG], b;
    struct sockaddr_in name, peer;
    socklen_t length;

    for (unsigned i = 0; i < BACKLOG; i++)
        a[i] = connect_to(port);
    for (unsigned i = 0; i < BACKLOG; i++) {
        assert_int_equal(await(listener, POLLIN), POLLIN);
        length = sizeof(peer);
        b = raccept(listener, (struct sockaddr *)&peer, &length);
        assert_true(b >= 0);
        length = sizeof(name);
        assert_int_equal(rgetsockname(a[i], (struct sockaddr *)&name, &length), 0);
        assert_int_equal(name.sin_port, peer.sin_port);
        exchange(a[i], b);
        exchange(b, a[i]);
        assert_int_equal(rclose(a[i]), 0);
        assert_int_equal(rclose(b), 0);
    }
    set_nonblocking(listener);
    fails_with(raccept(listener, NULL, NULL), EAGAIN);
    assert_int_equal(rclose(listener), 0);
}

/* What a client has sent is read, though it has gone before its connection is accepted. */
void test_close_before_accept(void **state)
{
    int listener = listen_at(++port, BACKLOG), a = connect_to(port), b;
    char bytes[8];

    assert_int_equal(rsend(a, "hello", 5, 0), 5);
    assert_int_equal(rclose(a), 0);
    assert_int_equal(await(listener, POLLIN), POLLIN);
    b = raccept(listener, NULL, NULL);
    assert_true(b >= 0);
    assert_int_equal(rrecv(b, bytes, 5, MSG_WAITALL), 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(rrecv(b, bytes, 1, 0), 0);
    assert_int_equal(rclose(b), 0);
    assert_int_equal(rclose(listener), 0);
}

/* A peer of two: says through a pipe that it listens, and connects when the other one does. */
static int meet(uint16_t own, uint16_t other, int tell, int wait)
{
    struct timeval time = {.tv_sec = WAIT_MS / 1000};
    struct sockaddr_in in = here(own);
    int listener = rsocket(AF_INET, SOCK_STREAM, 0), a = rsocket(AF_INET, SOCK_STREAM, 0), b;
    char byte = 0;

    if (rbind(listener, (struct sockaddr *)&in, sizeof(in)) || rlisten(listener, BACKLOG) ||
        write(tell, "l", 1) != 1 || read(wait, &byte, 1) != 1)
        return 1;
    in = here(other);
    if (rsetsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) ||
        rconnect(a, (struct sockaddr *)&in, sizeof(in)))
        return 2;
    b = raccept(listener, NULL, NULL);
    if (b < 0 || rsend(a, "x", 1, 0) != 1 || rrecv(b, &byte, 1, 0) != 1)
        return 3;
    return rclose(a) || rclose(b) || rclose(listener) ? 4 : 0;
}

void test_connect_each_other(void **state)
{
    int pipes[2][2], status;
    pid_t pid[2];

    port += 2;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pipe(pipes[i]), 0);
    for (unsigned i = 0; i < 2; i++) {
        pid[i] = fork();
        if (!pid[i])
            _exit(meet((uint16_t)(port - i), (uint16_t)(port - !i), pipes[i][1], pipes[!i][0]));
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

/* Connects, and echoes a byte. */
static void *client_thread(void *arg)
{
    struct sockaddr_in in = here(port);
    int s = rsocket(AF_INET, SOCK_STREAM, 0);
    char byte;

    if (rconnect(s, (struct sockaddr *)&in, sizeof(in)) || rrecv(s, &byte, 1, 0) != 1 ||
        rsend(s, &byte, 1, 0) != 1 || rclose(s))
        return arg;
    return NULL;
}

/* All get through as the server accepts. */
void test_more_than_backlog(void **state)
{
    int listener = listen_at(++port, BACKLOG), s;
    pthread_t threads[CLIENTS];
    char byte = 7;
    void *failed;

    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, client_thread, &port);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(await(listener, POLLIN), POLLIN);
        s = raccept(listener, NULL, NULL);
        assert_true(s >= 0);
        assert_int_equal(rsend(s, &byte, 1, 0), 1);
        assert_int_equal(rrecv(s, &byte, 1, 0), 1);
        assert_int_equal(rclose(s), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    set_nonblocking(listener);
    fails_with(raccept(listener, NULL, NULL), EAGAIN);
    assert_int_equal(rclose(listener), 0);
}

static void ends(int s)
{
    ssize_t n;
    char byte;

    assert_true(await(s, POLLIN) & POLLIN);
    n = rrecv(s, &byte, 1, 0);
    assert_true(!n || (n < 0 && errno == ECONNRESET));
    assert_int_equal(rclose(s), 0);
}

/* The peers of connections that the server never accepts see their end with the listener's. */
void test_never_accepted(void **state)
{
    for (unsigned shut = 0; shut < 2; shut++) {
        int listener = listen_at(++port, BACKLOG), a = connect_to(port), b = connect_to(port);

        assert_int_equal(shut ? rshutdown(listener, SHUT_RDWR) : rclose(listener), 0);
        ends(a);
        ends(b);
        if (shut) {
            fails_with(raccept(listener, NULL, NULL), EINVAL);
            assert_int_equal(rclose(listener), 0);
        }
    }
}

static int serve_itself(uint16_t number)
{
    struct timeval time = {.tv_sec = WAIT_MS / 1000};
    struct sockaddr_in in = here(number);
    int listener = rsocket(AF_INET, SOCK_STREAM, 0), s = rsocket(AF_INET, SOCK_STREAM, 0), t;

    if (rbind(listener, (struct sockaddr *)&in, sizeof(in)) || rlisten(listener, BACKLOG) ||
        rsetsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) ||
        rconnect(s, (struct sockaddr *)&in, sizeof(in)))
        return 1;
    t = raccept(listener, NULL, NULL);
    return t < 0 || rclose(s) || rclose(t) || rclose(listener);
}

/* A child of a process that listens has a backlog of its own, and the parent's goes on. */
void test_listening_child(void **state)
{
    int listener = listen_at(++port, BACKLOG), status, a, b;
    uint16_t number = port++;
    pid_t pid = fork();

    if (!pid)
        _exit(rclose(listener) || serve_itself(port));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    a = connect_to(number);
    b = raccept(listener, NULL, NULL);
    assert_true(b >= 0);
    exchange(a, b);
    close_pair(&(struct pair){listener, a, b});
}

/* More clients than the backlog has room for cost the server nothing while it does not accept. */
void test_full_backlog_sleeps(void **state)
{
    int listener = listen_at(++port, 1), a = connect_to(port), more = make_socket(0, 0), b;
    struct timespec before, after;
    struct sockaddr_in in = here(port);

    set_nonblocking(more);
    fails_with(rconnect(more, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
    for (unsigned i = 0; i < 20; i++) { /* resolving the address and the route needs turns */
        assert_int_equal(rpoll(&(struct pollfd){.fd = more, .events = POLLOUT}, 1, 5), 0);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(500000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec <
                50000000);
    b = raccept(listener, NULL, NULL);
    close_pair(&(struct pair){a, b, raccept(listener, NULL, NULL)});
    assert_int_equal(rclose(more), 0);
    assert_int_equal(rclose(listener), 0);
}
