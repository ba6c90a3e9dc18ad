/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rsockets' calls do that sockets' calls do, over the daemon that run_rsockets.py starts:
 * several threads with one socket, timeouts, calls that are repeated, and few descriptors.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define RSOCKET_PORT 31000
#include "rsocket_backlog.h"
#include "rsocket_caller.h"
#include "rsocket_cancel.h"
#include "rsocket_listen.h"
#include "rsocket_pair.h"
#include "rsocket_signal.h"

#define SHORT_MS 200

static void set_timeout(int s, int option, long ms)
{
    struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

    assert_int_equal(rsetsockopt(s, SOL_SOCKET, option, &t, sizeof(t)), 0);
}

/* The call took as long as the timeout, and not much longer. */
static void took(const struct timespec *since, long ms)
{
    long has = elapsed_ms(since);

    assert_true(has >= ms - 1);
    assert_true(has < ms + WAIT_MS / 2);
}

static struct timespec start(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now;
}

/* ---- sockets that do not listen ---- */

/* raccept of one says so, and leaves why the connection failed to others. */
static void test_accept_without_listening(void **state)
{
    struct sockaddr_in in = here(++port);
    int s = rsocket(AF_INET, SOCK_STREAM, 0), error;
    socklen_t length = sizeof(error);

    fails_with(raccept(s, NULL, NULL), EINVAL);
    set_nonblocking(s);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
    await(s, POLLIN);
    fails_with(raccept(s, NULL, NULL), EINVAL);
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    assert_int_equal(error, ECONNREFUSED);
    assert_int_equal(rclose(s), 0);
}

/* Addresses of other families are none of the socket's; an AF_INET6 socket takes those of IPv4. */
static void test_families(void **state)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in in = here(0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int s = rsocket(AF_INET, SOCK_STREAM, 0), d = rsocket(AF_INET, SOCK_DGRAM, 0);

    six.sin6_port = htons(++port);
    fails_with(rconnect(s, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT);
    fails_with(rbind(s, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT);
    fails_with(rconnect(s, (struct sockaddr *)&un, sizeof(in)), EAFNOSUPPORT);
    fails_with(rconnect(s, (struct sockaddr *)&un, 1), EINVAL);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in) - 1), EINVAL);
    fails_with(rsendto(d, "n", 1, 0, (struct sockaddr *)&un, sizeof(in)), EAFNOSUPPORT);
    assert_int_equal(rbind(s, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(d), 0);
    s = rsocket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(rbind(s, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(rclose(s), 0);
}

/* ---- direct writes ---- */

/* A write goes on into memory that the peer maps no more, which ends the connection: the call says
 * how much it has sent, and the next one why there is no connection. */
static void test_iowrite_ends(void **state)
{
    static uint8_t target[2][400000], source[800000]; /* more than the send buffer */
    struct pair p;
    ssize_t done;
    char byte;

    make_pair(&p, RDMA_IOMAPSIZE, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(riomap(p.b, target[i], 400000, PROT_WRITE, 0, i * 400000), i * 400000);
    assert_int_equal(rsend(p.b, "m", 1, 0), 1);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    assert_int_equal(riounmap(p.b, target[1], 400000), 0); /* the peer has not been told */
    done = (ssize_t)riowrite(p.a, source, sizeof(source), 0, 0);
    assert_true(done > 0 && done < (ssize_t)sizeof(source));
    fails_with(riowrite(p.a, source, 10, 0, 0), ECONNRESET);
    fails_with(riowrite(p.a, source, 10, 0, 0), EPIPE);
    close_pair(&p);
}

/* ---- several threads ---- */

struct pings {
    int s;
    volatile unsigned got;
};

static void *receive_pings(void *arg)
{
    struct pings *p = arg;
    char bytes[8];

    while (rrecv(p->s, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes))
        p->got++;
    return NULL;
}

static void *discard(void *arg)
{
    static char bytes[20000];

    while (rrecv(*(int *)arg, bytes, sizeof(bytes), 0) > 0)
        ;
    return NULL;
}

/* A thread sleeps in rrecv while another one sends, and takes the socket's events with that: the
 * sleeping thread is told of each. */
static void test_event_of_another_thread(void **state)
{
    static const char bytes[3000];
    struct timespec begin, ping;
    unsigned seed = 7, late = 0, n = 0;
    struct pings pings = {0};
    pthread_t a, b;
    struct pair p;

    make_pair(&p, 0, 0);
    pings.s = p.a;
    pthread_create(&a, NULL, receive_pings, &pings);
    pthread_create(&b, NULL, discard, &p.b);
    for (begin = start(); elapsed_ms(&begin) < 6000; n++) {
        for (unsigned i = 0, full = 0; i < 400 && full <= seed % 4; i++)
            full += rsend(p.a, bytes, 1 + (size_t)rand_r(&seed) % sizeof(bytes), MSG_DONTWAIT) < 0;
        usleep(2000 +
               (useconds_t)rand_r(&seed) % 3000); /* as long as the receiver takes to sleep */
        ping = start();
        assert_int_equal(rsend(p.b, bytes, 8, 0), 8);
        while (pings.got <= n && elapsed_ms(&ping) < WAIT_MS)
            usleep(100);
        assert_true(pings.got > n);
        late += elapsed_ms(&ping) >= 400; /* it wakes by itself after 500 ms */
    }
    assert_int_equal(late, 0);
    assert_int_equal(rshutdown(p.a, SHUT_RDWR), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    close_pair(&p);
}

static void *receive_one(void *arg)
{
    char byte;

    return rrecv(*(int *)arg, &byte, 1, 0) == 1 ? NULL : arg;
}

/* Two threads that go on waiting when a third has its datagram do not wake each other. */
static void test_two_wait_for_datagrams(void **state)
{
    struct timespec before, after;
    int s = make_listener(SOCK_DGRAM), t = rsocket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in in = here(port);
    pthread_t thread[3];
    void *failed;

    for (unsigned i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, receive_one, &s);
    usleep(50000);
    assert_int_equal(rsendto(t, "x", 1, 0, (struct sockaddr *)&in, sizeof(in)), 1);
    usleep(100000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(500000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(rsendto(t, "x", 1, 0, (struct sockaddr *)&in, sizeof(in)), 1);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec <
                50000000);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(t), 0);
}

/* Of two threads that receive, the second waits no longer than the socket's timeout. */
static void test_timeout_behind_another(void **state)
{
    struct timespec begin;
    pthread_t thread;
    struct pair p;
    char byte;

    make_pair(&p, 0, 0);
    pthread_create(&thread, NULL, receive_one, &p.a);
    usleep(50000);
    set_timeout(p.a, SO_RCVTIMEO, SHORT_MS);
    begin = start();
    fails_with(rrecv(p.a, &byte, 1, 0), EAGAIN);
    took(&begin, SHORT_MS);
    assert_int_equal(rsend(p.b, "x", 1, 0), 1);
    pthread_join(thread, NULL);
    close_pair(&p);
}

static volatile bool stop;

static void *ask_type(void *arg)
{
    int value;

    while (!stop) {
        socklen_t length = sizeof(value);

        (void)!rgetsockopt(*(int *)arg, SOL_SOCKET, SO_TYPE, &value, &length);
    }
    return NULL;
}

/* A child closes what it has inherited, whatever the parent's other threads did at the fork. */
static void test_child_of_threads(void **state)
{
    pthread_t thread;
    struct pair p;

    make_pair(&p, 0, 0);
    stop = false;
    pthread_create(&thread, NULL, ask_type, &p.a);
    for (unsigned i = 0; i < 200; i++) {
        int status = -1;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (!pid) {
            alarm(10);
            _exit(rclose(p.a) != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    stop = true;
    pthread_join(thread, NULL);
    close_pair(&p);
}

/* As the kernel's sockets take them. */
static void test_wrong_timeouts(void **state)
{
    const struct timeval too_many = {.tv_usec = 1000000}, no_time = {.tv_usec = -1};
    const struct timeval negative = {.tv_sec = -1}, very_long = {.tv_sec = 1L << 60};
    int s = make_listener(SOCK_STREAM);
    struct timespec begin = start();
    struct timeval got;
    socklen_t length = sizeof(got);

    fails_with(rsetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &too_many, sizeof(too_many)), EDOM);
    fails_with(rsetsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &no_time, sizeof(no_time)), EDOM);
    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &negative, sizeof(negative)), 0);
    fails_with(raccept(s, NULL, NULL), EAGAIN);
    took(&begin, 0);
    assert_int_equal(rsetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &very_long, sizeof(very_long)), 0);
    assert_int_equal(rgetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &got, &length), 0);
    assert_int_equal(got.tv_sec, 0); /* none */
    assert_int_equal(rclose(s), 0);
}

/* ---- connecting and accepting ---- */

static void test_accept_timeout(void **state)
{
    int listener = make_listener(SOCK_STREAM);
    struct timespec begin = start();

    set_timeout(listener, SO_RCVTIMEO, SHORT_MS);
    fails_with(raccept(listener, NULL, NULL), EAGAIN);
    took(&begin, SHORT_MS);
    assert_int_equal(rclose(listener), 0);
}

/* A listener whose backlog is full: the next rconnect waits. Returns the socket that fills it. */
static int make_full_listener(int *listener)
{
    struct sockaddr_in in = here(++port);
    int s = make_socket(0, 0);

    *listener = make_socket(0, 0);
    assert_int_equal(rbind(*listener, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(rlisten(*listener, 1), 0);
    assert_int_equal(rconnect(s, (struct sockaddr *)&in, sizeof(in)), 0);
    return s;
}

/* rconnect gives up waiting, and the connection comes all the same: later calls find it. */
static void test_connect_timeout(void **state)
{
    int listener, first = make_full_listener(&listener), s = make_socket(0, 0), tries = 0;
    struct sockaddr_in in = here(port);
    struct timespec begin = start();

    set_timeout(s, SO_SNDTIMEO, SHORT_MS);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
    took(&begin, SHORT_MS);
    set_nonblocking(s);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EALREADY);
    close_pair(&(struct pair){raccept(listener, NULL, NULL), first, raccept(listener, NULL, NULL)});
    while (rconnect(s, (struct sockaddr *)&in, sizeof(in)) && ++tries < 1000) {
        assert_int_equal(errno, EALREADY);
        usleep(5000);
    }
    assert_true(tries < 1000);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EISCONN);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(listener), 0);
}

/* A thread that does not wait for its connection may wait for it at the other end. */
static void test_connect_and_accept(void **state)
{
    int listener = make_listener(SOCK_STREAM), s = make_socket(0, 0), t;
    struct sockaddr_in in = here(port);

    set_timeout(listener, SO_RCVTIMEO, WAIT_MS);
    set_nonblocking(s);
    fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
    t = raccept(listener, NULL, NULL);
    assert_true(t >= 0);
    assert_int_equal(await(s, POLLOUT), POLLOUT);
    assert_int_equal(rsend(s, "x", 1, 0), 1);
    assert_null(receive_one(&t));
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(t), 0);
    assert_int_equal(rclose(listener), 0);
}

/* A failure that the program was not told of is told by the next rconnect; the one after it tries
 * again. */
static void test_refused_later(void **state)
{
    struct sockaddr_in in = here(29999);
    int s = make_socket(0, 0), tries = 0;

    set_nonblocking(s);
    for (unsigned i = 0; i < 2; i++) {
        fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), EINPROGRESS);
        while (assert_int_equal(rconnect(s, (struct sockaddr *)&in, sizeof(in)), -1),
               errno == EALREADY && ++tries < 1000)
            usleep(5000);
        assert_int_equal(errno, ECONNREFUSED);
    }
    assert_int_equal(rclose(s), 0);
}

/* The next attempt leaves from where the program has bound the socket. */
static void test_bound_and_refused(void **state)
{
    struct sockaddr_in in = here(29999), before, after;
    socklen_t length = sizeof(before);
    int s = make_socket(0, 0);

    before = here(0);
    assert_int_equal(rbind(s, (struct sockaddr *)&before, sizeof(before)), 0);
    assert_int_equal(rgetsockname(s, (struct sockaddr *)&before, &length), 0);
    assert_true(before.sin_port != 0);
    for (unsigned i = 0; i < 2; i++) {
        fails_with(rconnect(s, (struct sockaddr *)&in, sizeof(in)), ECONNREFUSED);
        assert_int_equal(rgetsockname(s, (struct sockaddr *)&after, &length), 0);
        assert_int_equal(after.sin_port, before.sin_port);
    }
    assert_int_equal(rclose(s), 0);
}

static void *connect_here(void *arg)
{
    struct sockaddr_in in = here(port);

    return (void *)(intptr_t)(rconnect(*(int *)arg, (struct sockaddr *)&in, sizeof(in)) ? errno
                                                                                        : 0);
}

/* The failure is reported once, and is one for both threads that wait for the connection. */
static void test_two_are_refused(void **state)
{
    port++; /* where nothing listens */
    for (unsigned i = 0; i < 50; i++) {
        int s = make_socket(0, 0);
        pthread_t thread[2];
        void *error[2];

        for (unsigned k = 0; k < 2; k++)
            pthread_create(&thread[k], NULL, connect_here, &s);
        for (unsigned k = 0; k < 2; k++) {
            pthread_join(thread[k], &error[k]);
            assert_true((intptr_t)error[k] == ECONNREFUSED || (intptr_t)error[k] == ECONNABORTED);
        }
        assert_int_equal(rclose(s), 0);
    }
}

static void test_close_while_connecting(void **state)
{
    int listener, first = make_full_listener(&listener), s = make_socket(0, 0);
    pthread_t thread;
    void *error;

    pthread_create(&thread, NULL, connect_here, &s);
    usleep(100000);
    assert_int_equal(rclose(s), 0);
    pthread_join(thread, &error);
    assert_int_equal((int)(intptr_t)error, EBADF);
    assert_int_equal(rclose(first), 0);
    assert_int_equal(rclose(listener), 0);
}

/* ---- bytes ---- */

/* What came before SHUT_RD is read, and then the end of the stream. */
static void test_shut_reading(void **state)
{
    struct pair p;
    char bytes[16];

    make_pair(&p, 0, 0);
    assert_int_equal(rsend(p.b, "hello", 5, 0), 5);
    assert_int_equal(await(p.a, POLLIN), POLLIN);
    assert_int_equal(rshutdown(p.a, SHUT_RD), 0);
    assert_int_equal(rsend(p.b, "later", 5, 0), 5);
    usleep(50000); /* it has arrived, too */
    assert_int_equal(await(p.a, POLLIN), POLLIN);
    assert_int_equal(rrecv(p.a, bytes, 2, 0), 2);
    assert_int_equal(rrecv(p.a, bytes + 2, 3, MSG_WAITALL), 3);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(rrecv(p.a, bytes, 2, 0), 0);
    for (unsigned i = 0; i < 30000; i++) { /* more than the ring has room for */
        ssize_t n = rsend(p.b, bytes, sizeof(bytes), MSG_DONTWAIT);

        assert_true(n > 0 || errno == EAGAIN); /* some of them, at the end of a half */
        i -= n < 0; /* until the receiver, which is this thread, has seen enough */
        assert_int_equal(rrecv(p.a, bytes, sizeof(bytes), MSG_DONTWAIT), 0);
    }
    close_pair(&p);
}

/* They find out whether a stream can be sent to, and are messages of a datagram socket: by UDP at
 * first, and then by queue pair. */
static void test_no_bytes(void **state)
{
    int s = make_listener(SOCK_DGRAM), t = rsocket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in in = here(port), from;
    socklen_t length = sizeof(from);
    struct pair p;
    char byte;

    set_timeout(s, SO_RCVTIMEO, WAIT_MS);
    set_timeout(t, SO_RCVTIMEO, WAIT_MS);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(rsendto(t, &byte, 0, 0, (struct sockaddr *)&in, sizeof(in)), 0);
        assert_int_equal(rrecvfrom(s, &byte, 1, 0, (struct sockaddr *)&from, &length), 0);
        assert_int_equal(length, sizeof(from));
        assert_int_equal(rsendto(s, &byte, 0, 0, (struct sockaddr *)&from, length), 0);
        assert_int_equal(rrecv(t, &byte, 1, 0), 0);
        usleep(1000); /* both find the way to the queue pairs */
    }
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(t), 0);
    make_pair(&p, 0, 0);
    assert_int_equal(rsend(p.a, &byte, 0, 0), 0);
    assert_int_equal(rsend(p.a, "x", 1, 0), 1);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    assert_int_equal(rshutdown(p.a, SHUT_WR), 0);
    fails_with(rsend(p.a, &byte, 0, 0), EPIPE);
    fails_with(rsend(p.listener, &byte, 0, 0), ENOTCONN);
    close_pair(&p);
}

static void test_pieces_count(void **state)
{
    struct iovec iov = {0};
    struct pair p;

    make_pair(&p, 0, 0);
    fails_with(rreadv(p.a, &iov, -1), EINVAL);
    fails_with(rwritev(p.a, &iov, -1), EINVAL);
    close_pair(&p);
}

/* ---- polling ---- */

/* A connection that has ended is no exceptional condition. */
static void test_select_exceptions(void **state)
{
    struct timeval t = {.tv_usec = SHORT_MS * 1000};
    struct timespec begin;
    struct pair p;
    fd_set set;

    make_pair(&p, 0, 0);
    assert_int_equal(rshutdown(p.a, SHUT_RDWR), 0);
    assert_int_equal(rshutdown(p.b, SHUT_RDWR), 0);
    await(p.a, POLLIN);
    FD_ZERO(&set);
    FD_SET(p.a, &set);
    begin = start();
    assert_int_equal(rselect(p.a + 1, NULL, NULL, &set, &t), 0);
    took(&begin, SHORT_MS);
    close_pair(&p);
}

static int selected = -1;

static void select_long(int fd)
{
    struct timeval t = {.tv_sec = (time_t)1 << 61};
    fd_set set;

    FD_ZERO(&set);
    FD_SET(fd, &set);
    selected = rselect(fd + 1, &set, NULL, NULL, &t);
}

/* A time that has no end for a program is not over at once, in whatever unit it is counted. */
static void test_select_long(void **state)
{
    struct caller c;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    begin(&c, select_long, fds[0]);
    await_sleep(&c, false);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_null(result_of(&c));
    assert_int_equal(selected, 1);
    close(fds[0]);
    close(fds[1]);
}

/* Rows without a descriptor do not count to what a process may poll, nor does a process need one
 * more descriptor to sleep. */
static void test_few_descriptors(void **state)
{
    struct rlimit before, few;
    struct pollfd fds[64];
    struct timespec begin;
    int used[256], n = 0;
    struct pair p;
    char byte;

    make_pair(&p, 0, 0);
    for (unsigned i = 0; i < 64; i++)
        fds[i] = (struct pollfd){.fd = i ? -1 : p.a, .events = POLLIN, .revents = 1};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(rpoll(fds, 64, 0), 0);
    while (n < 256 && (used[n] = dup(0)) >= 0)
        n++;
    assert_true(n < 256);
    begin = start();
    assert_int_equal(rpoll(fds, 64, SHORT_MS), 0);
    took(&begin, SHORT_MS);
    assert_int_equal(fds[63].revents, 0);
    set_timeout(p.a, SO_RCVTIMEO, SHORT_MS);
    fails_with(rrecv(p.a, &byte, 1, 0), EAGAIN);
    assert_int_equal(rsend(p.b, "x", 1, 0), 1);
    assert_int_equal(rpoll(fds, 64, WAIT_MS), 1);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    while (n > 0)
        close(used[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_descriptors), /* before the thread has slept */
        cmocka_unit_test(test_accept_without_listening),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_iowrite_ends),
        cmocka_unit_test(test_event_of_another_thread),
        cmocka_unit_test(test_two_wait_for_datagrams),
        cmocka_unit_test(test_timeout_behind_another),
        cmocka_unit_test(test_child_of_threads),
        cmocka_unit_test(test_wrong_timeouts),
        cmocka_unit_test(test_accept_timeout),
        cmocka_unit_test(test_connect_timeout),
        cmocka_unit_test(test_connect_and_accept),
        cmocka_unit_test(test_refused_later),
        cmocka_unit_test(test_bound_and_refused),
        cmocka_unit_test(test_two_are_refused),
        cmocka_unit_test(test_close_while_connecting),
        cmocka_unit_test(test_shut_reading),
        cmocka_unit_test(test_no_bytes),
        cmocka_unit_test(test_pieces_count),
        cmocka_unit_test(test_select_exceptions),
        cmocka_unit_test(test_select_long),
        cmocka_unit_test(test_connect_before_accept),
        cmocka_unit_test(test_close_before_accept),
        cmocka_unit_test(test_connect_each_other),
        cmocka_unit_test(test_more_than_backlog),
        cmocka_unit_test(test_never_accepted),
        cmocka_unit_test(test_listening_child),
        cmocka_unit_test(test_full_backlog_sleeps),
        cmocka_unit_test(test_cancel_receive),
        cmocka_unit_test(test_cancel_behind_another),
        cmocka_unit_test(test_cancel_datagram),
        cmocka_unit_test(test_cancel_send),
        cmocka_unit_test(test_cancel_accept),
        cmocka_unit_test(test_cancel_connect),
        cmocka_unit_test(test_cancel_polls),
        cmocka_unit_test(test_cancel_before),
        cmocka_unit_test(test_cancel_never),
        cmocka_unit_test(test_mapped_stream),
        cmocka_unit_test(test_shut_listener),
        cmocka_unit_test(test_shut_wakes_accept),
        cmocka_unit_test(test_signal_goes_on),
        cmocka_unit_test(test_signal_interrupts),
        cmocka_unit_test(test_signal_with_timeout),
        cmocka_unit_test(test_signal_ends_polls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
