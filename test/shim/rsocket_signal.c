/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls go on after the handler of a signal: signal(7), "Interruption of system calls". */
#include "rsocket_signal.h"

#include <signal.h>
#include <sys/select.h>

#define RSOCKET_PORT 32600
#include "rsocket_caller.h"

static atomic_uint handled;
static atomic_int error; /* of the thread's call, or 0 */

static void count(int sig)
{
    atomic_fetch_add(&handled, 1);
}

static void says(long result)
{
    atomic_store(&error, result < 0 ? errno : 0);
}

static void receive(int s)
{
    char byte;

    says(rrecv(s, &byte, 1, 0));
}

static void accept_one(int s)
{
    says(raccept(s, NULL, NULL));
}

static void poll_one(int s)
{
    struct pollfd fd = {.fd = s, .events = POLLIN};

    says(rpoll(&fd, 1, WAIT_MS));
}

static void select_one(int s)
{
    struct timeval t = {.tv_sec = WAIT_MS / 1000};
    fd_set set;

    FD_ZERO(&set);
    FD_SET(s, &set);
    says(rselect(s + 1, &set, NULL, NULL, &t));
}

/* Installs the handler, and lets it interrupt a call. */
static void interrupt(struct caller *c, int flags, void (*call)(int s), int s)
{
    const struct sigaction action = {.sa_handler = count, .sa_flags = flags};
    unsigned before = atomic_load(&handled);
    struct timespec since;

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    begin(c, call, s);
    await_sleep(c, false);
    assert_int_equal(pthread_kill(c->thread, SIGUSR1), 0);
    clock_gettime(CLOCK_MONOTONIC, &since);
    while (atomic_load(&handled) == before)
        assert_true(elapsed_ms(&since) < WAIT_MS);
}

static void ends_with(struct caller *c, int number)
{
    const struct sigaction none = {.sa_handler = SIG_DFL};

    assert_null(result_of(c));
    assert_int_equal(atomic_load(&error), number);
    assert_int_equal(sigaction(SIGUSR1, &none, NULL), 0);
}

void test_signal_goes_on(void **state)
{
    struct sockaddr_in in;
    struct caller c;
    struct pair p;
    int s;

    make_pair(&p, 0, 0);
    in = here(port);
    interrupt(&c, SA_RESTART, receive, p.a);
    assert_int_equal(rsend(p.b, "x", 1, 0), 1);
    ends_with(&c, 0);
    interrupt(&c, SA_RESTART, accept_one, p.listener);
    s = make_socket(0, 0);
    assert_int_equal(rconnect(s, (struct sockaddr *)&in, sizeof(in)), 0);
    ends_with(&c, 0);
    assert_int_equal(rclose(s), 0);
    close_pair(&p);
}

void test_signal_interrupts(void **state)
{
    struct caller c;
    struct pair p;

    make_pair(&p, 0, 0);
    interrupt(&c, 0, receive, p.a);
    ends_with(&c, EINTR);
    interrupt(&c, 0, accept_one, p.listener);
    ends_with(&c, EINTR);
    close_pair(&p);
}

/* The rest of the timeout would not be known. */
void test_signal_with_timeout(void **state)
{
    struct timeval t = {.tv_sec = WAIT_MS / 1000};
    struct caller c;
    struct pair p;

    make_pair(&p, 0, 0);
    assert_int_equal(rsetsockopt(p.a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
    interrupt(&c, SA_RESTART, receive, p.a);
    ends_with(&c, EINTR);
    close_pair(&p);
}

void test_signal_ends_polls(void **state)
{
    struct caller c;
    struct pair p;

    make_pair(&p, 0, 0);
    interrupt(&c, SA_RESTART, poll_one, p.a);
    ends_with(&c, EINTR);
    interrupt(&c, SA_RESTART, select_one, p.a);
    ends_with(&c, EINTR);
    close_pair(&p);
}
