/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon that is stopped, and to which as many programs connect already as can wait. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cma.h"
#include "unit.h"

#define DEADLOCK_SECONDS 10

static bool limited; /* there was a limit for the time that connect() waits */

/* What takes half a minute takes a moment here. */
EXPORT int connect(int sock, const struct sockaddr *addr, socklen_t len)
{
    static const struct timeval moment = {.tv_usec = 1000};
    struct timeval limit = {0};
    socklen_t size = sizeof(limit);

    getsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, &size);
    limited = limit.tv_sec == CONN_REPLY_SECONDS;
    if (limited)
        setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &moment, sizeof(moment));
    return (int)syscall(SYS_connect, sock, addr, len);
}

/* No thread accepts. Returns the listener; `first` waits to be accepted. */
static int make_full(const struct sockaddr_un *addr, int *first)
{
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (const struct sockaddr *)addr, sizeof(*addr)), 0);
    assert_int_equal(listen(listener, 0), 0);
    *first = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*first, (const struct sockaddr *)addr, sizeof(*addr)), 0);
    return listener;
}

static void test_full(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char folder[] = "/tmp/uroce-stopped-XXXXXX";
    int listener, first;

    assert_non_null(mkdtemp(folder));
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", folder);
    listener = make_full(&addr, &first);
    setenv(CTL_SOCKET_ENV, addr.sun_path, 1);
    alarm(DEADLOCK_SECONDS);
    assert_null(rdma_create_event_channel());
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(limited);
    alarm(0);
    close(first);
    close(listener);
    unlink(addr.sun_path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full)};

    return cmocka_run_group_tests_name("rdmacm_stopped", tests, NULL, NULL);
}
