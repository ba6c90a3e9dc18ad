/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets of a process that has no descriptors left, or may make no large file, over the daemon
 * that run_rsockets.py starts. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#define WAIT_MS 5000
#define ROOM    40 /* descriptors: more than a connection needs */

struct taken {
    int fds[ROOM], n;
    struct rlimit before;
};

/* Takes all descriptors, whose limit it lowers. */
static void take_descriptors(struct taken *t)
{
    int lowest = dup(STDIN_FILENO);
    struct rlimit low;

    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &t->before), 0);
    low = (struct rlimit){(rlim_t)(lowest + ROOM), t->before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (t->n = 0; t->n < ROOM && (t->fds[t->n] = dup(STDIN_FILENO)) >= 0; t->n++)
        ;
    assert_int_equal(dup(STDIN_FILENO), -1);
    assert_int_equal(errno, EMFILE);
}

static void give_back(struct taken *t)
{
    while (t->n)
        close(t->fds[--t->n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &t->before), 0);
}

/* Connects when a byte comes through the pipe, and echoes a byte. */
static int client(int go, struct sockaddr_in to)
{
    int s = rsocket(AF_INET, SOCK_STREAM, 0);
    char byte;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return read(go, &byte, 1) != 1 || rconnect(s, (struct sockaddr *)&to, sizeof(to)) ||
           rrecv(s, &byte, 1, 0) != 1 || rsend(s, &byte, 1, 0) != 1 || rclose(s);
}

/* One descriptor after the other becomes free until there are enough to accept. */
static int accept_at_last(int listener, struct taken *t)
{
    int s;

    while ((s = raccept(listener, NULL, NULL)) < 0) {
        struct pollfd fd = {.fd = listener, .events = POLLIN};

        assert_true(errno == EMFILE || errno == ENOMEM);
        assert_int_equal(rpoll(&fd, 1, 0), 1);
        assert_int_equal(fd.revents, POLLIN);
        assert_true(t->n > 0);
        close(t->fds[--t->n]);
    }
    assert_true(t->n < ROOM - 1);
    return s;
}

/* A listener without descriptors keeps the connection, and accepts it when it has some. */
static void check_accept(struct sockaddr_in at)
{
    int listener = rsocket(AF_INET, SOCK_STREAM, 0), go[2], status, s;
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    struct taken taken;
    char byte = 7;
    pid_t child;

    assert_int_equal(rbind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(rlisten(listener, 8), 0);
    assert_int_equal(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(pipe(go), 0);
    child = fork();
    if (!child)
        _exit(client(go[0], at));
    assert_int_equal(rpoll(&fd, 1, 1), 0); /* its sleep has a descriptor of its own */
    take_descriptors(&taken);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(rpoll(&fd, 1, WAIT_MS), 1);
    s = accept_at_last(listener, &taken);
    give_back(&taken);
    assert_int_equal(raccept(listener, NULL, NULL), -1); /* it was one connection */
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(rsend(s, &byte, 1, 0), 1);
    assert_int_equal(rrecv(s, &byte, 1, 0), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(rclose(s), 0);
    assert_int_equal(rclose(listener), 0);
    close(go[0]);
    close(go[1]);
}

/* First: the process has not opened the device yet, and the listener's address names none. */
static void test_accept_at_any_address(void **state)
{
    check_accept((struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(31000)});
}

static void test_accept_at_an_address(void **state)
{
    check_accept((struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_port = htons(31001),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)});
}

/* Its memory is then no file: SIGXFSZ would end the process. */
static void test_files_are_limited(void **state)
{
    struct rlimit before, low;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = (struct rlimit){1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    check_accept((struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(31002)});
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept_at_any_address),
        cmocka_unit_test(test_accept_at_an_address),
        cmocka_unit_test(test_files_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
