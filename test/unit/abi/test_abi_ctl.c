/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "ctl_msg.h"
#include "descriptors.h"
#include "unit.h"

static int sock[2];
static int some_fds[CTL_MAX_FDS + 8];
static const struct ctl_msg good = {.magic = CTL_MAGIC, .version = CTL_VERSION, .seq = 7};

static int setup(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(some_fds); i++)
        some_fds[i] = open("/dev/null", O_RDWR);
    return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock);
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(some_fds); i++)
        close(some_fds[i]);
    close(sock[0]);
    close(sock[1]);
    return 0;
}

/* A peer can send any bytes with any number of descriptors. */
static void send_raw(const void *bytes, size_t len, unsigned nfds)
{
    union {
        char bytes[CMSG_SPACE(sizeof(some_fds))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (nfds) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), some_fds, nfds * sizeof(int));
    }
    assert_int_equal(sendmsg(sock[0], &msg, 0), len);
}

static int recv_one(struct ctl_msg *m, unsigned *nfds)
{
    int fds[CTL_MAX_FDS];
    int err = ctl_recv(sock[1], m, fds, nfds, MSG_DONTWAIT);

    for (unsigned i = 0; i < *nfds; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    return err;
}

static void test_round_trip(void **state)
{
    struct ctl_msg in = good, out;
    unsigned nfds, before = open_descriptors();

    in.type = CTL_REG_MR;
    in.reg_mr.addr = 0x1122334455667788;
    for (unsigned i = 0; i <= CTL_MAX_FDS; i++) {
        assert_int_equal(ctl_send(sock[0], &in, some_fds, i, 0), 0);
        assert_int_equal(recv_one(&out, &nfds), 0);
        assert_int_equal(nfds, i);
        assert_memory_equal(&in, &out, sizeof(in));
    }
    assert_int_equal(ctl_send(sock[0], &in, some_fds, CTL_MAX_FDS + 1, 0), -EINVAL);
    assert_int_equal(open_descriptors(), before);
}

static void expect_refused(const void *bytes, size_t len, unsigned nfds, int error)
{
    unsigned before = open_descriptors(), got = 99;
    struct ctl_msg m;

    send_raw(bytes, len, nfds);
    assert_int_equal(recv_one(&m, &got), error);
    assert_int_equal(got, 0);
    assert_int_equal(open_descriptors(), before);
}

static void test_refused(void **state)
{
    struct {
        struct ctl_msg m;
        uint8_t more[64];
    } large = {.m = good};
    struct ctl_msg bad = good;

    for (unsigned nfds = 0; nfds <= 4; nfds += 2) {
        expect_refused(&large, sizeof(large), nfds, -EPROTO);
        expect_refused(&large, sizeof(struct ctl_msg) + 1, nfds, -EPROTO);
        expect_refused(&good, sizeof(good) - 1, nfds, -EPROTO);
        expect_refused(&good, 1, nfds, -EPROTO);
        bad.magic = CTL_MAGIC + 1;
        expect_refused(&bad, sizeof(bad), nfds, -EPROTO);
        bad.magic = CTL_MAGIC;
        bad.version = CTL_VERSION + 1;
        expect_refused(&bad, sizeof(bad), nfds, -EPROTONOSUPPORT);
        bad.version = 0;
        expect_refused(&bad, sizeof(bad), nfds, -EPROTONOSUPPORT);
    }
    for (unsigned nfds = CTL_MAX_FDS + 1; nfds <= ARRAY_SIZE(some_fds); nfds++)
        expect_refused(&good, sizeof(good), nfds, -EPROTO);
    /* An empty record looks like end of file, and may carry descriptors all the same. */
    expect_refused(&good, 0, 3, -ECONNRESET);
}

/* The process has room for `room` descriptors; returns ctl_recv's result. */
static int recv_in(unsigned room, struct ctl_msg *m, unsigned *nfds)
{
    struct rlimit usual, low;
    int lowest = dup(STDIN_FILENO), err;

    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    low = (struct rlimit){(rlim_t)lowest + room, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    err = recv_one(m, nfds);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    return err;
}

/* The message has arrived, and what arrived of its descriptors is closed. */
static void test_no_room(void **state)
{
    unsigned nfds, before = open_descriptors();
    struct ctl_msg bad = good, m;

    for (unsigned room = 0; room <= 3; room++) {
        send_raw(&good, sizeof(good), 3);
        assert_int_equal(recv_in(room, &m, &nfds), room < 3 ? -EMFILE : 0);
        assert_int_equal(nfds, room < 3 ? 0 : 3);
        assert_memory_equal(&m, &good, sizeof(m));
    }
    send_raw(&good, sizeof(good), 0);
    assert_int_equal(recv_in(0, &m, &nfds), 0);
    bad.magic++;
    send_raw(&bad, sizeof(bad), 1);
    assert_int_equal(recv_in(0, &m, &nfds), -EPROTO);
    bad = good;
    bad.version++;
    send_raw(&bad, sizeof(bad), 1);
    assert_int_equal(recv_in(0, &m, &nfds), -EPROTONOSUPPORT);
    assert_int_equal(open_descriptors(), before);
}

static void test_version_is_readable(void **state)
{
    struct ctl_msg m = good, out;
    unsigned nfds;

    m.version = CTL_VERSION + 1;
    send_raw(&m, sizeof(m), 0);
    assert_int_equal(recv_one(&out, &nfds), -EPROTONOSUPPORT);
    assert_int_equal(out.version, CTL_VERSION + 1);
    assert_int_equal(out.seq, 7);
}

static void test_credentials_leave_room(void **state)
{
    struct ctl_msg out;
    unsigned nfds, before = open_descriptors();
    int on = 1;

    assert_int_equal(setsockopt(sock[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
    assert_int_equal(ctl_send(sock[0], &good, some_fds, CTL_MAX_FDS, 0), 0);
    assert_int_equal(recv_one(&out, &nfds), 0);
    assert_int_equal(nfds, CTL_MAX_FDS);
    expect_refused(&good, sizeof(good), CTL_MAX_FDS + 1, -EPROTO);
    assert_int_equal(open_descriptors(), before);
}

static void test_nothing_there(void **state)
{
    struct ctl_msg m;
    unsigned nfds;
    int err = 0;

    assert_int_equal(recv_one(&m, &nfds), -EAGAIN);
    for (int i = 0; i < 100000 && !err; i++)
        err = ctl_send(sock[0], &good, NULL, 0, MSG_DONTWAIT);
    assert_int_equal(err, -EAGAIN); /* the peer does not read */
}

static void test_peer_gone(void **state)
{
    struct ctl_msg m;
    unsigned nfds;

    close(sock[0]);
    assert_int_equal(recv_one(&m, &nfds), -ECONNRESET);
    assert_int_equal(nfds, 0);
    assert_int_equal(ctl_send(sock[1], &good, NULL, 0, 0), -EPIPE); /* and no signal */
    assert_int_equal(ctl_send(-1, &good, NULL, 0, 0), -EBADF);
    assert_int_equal(ctl_recv(-1, &m, NULL, &nfds, 0), -EBADF);
}

/* Sends a request and returns ctl_request's result; the reply is in *m. */
static int ask(struct ctl_msg *m)
{
    int fds[CTL_MAX_FDS], err;
    unsigned nfds = 99;

    *m = good;
    m->type = CTL_ALLOC_PD;
    err = ctl_request(sock[1], m, NULL, 0, fds, &nfds);
    assert_int_equal(nfds, 0);
    return err;
}

/* A reply has the request's type and seq; all else ends the connection. */
static void test_request(void **state)
{
    struct ctl_msg reply = good, m;
    unsigned before = open_descriptors();

    reply.type = CTL_ALLOC_PD;
    reply.status = -EINVAL;
    assert_int_equal(ctl_send(sock[0], &reply, NULL, 0, 0), 0);
    assert_int_equal(ask(&m), 0);
    assert_int_equal(m.status, -EINVAL);
    reply.seq++;
    assert_int_equal(ctl_send(sock[0], &reply, some_fds, 2, 0), 0);
    assert_int_equal(ask(&m), -EPROTO);
    reply = good;
    assert_int_equal(ctl_send(sock[0], &reply, NULL, 0, 0), 0);
    assert_int_equal(ask(&m), -EPROTO);
    reply.seq = 0;
    reply.status = -EINVAL;
    assert_int_equal(ctl_send(sock[0], &reply, NULL, 0, 0), 0);
    assert_int_equal(ask(&m), -EPROTO);
    assert_int_equal(open_descriptors(), before);
}

/* A status that is the negative of no errno would be undefined where it is negated. */
static void test_request_status(void **state)
{
    static const int32_t wrong[] = {1, -CTL_ERRNO_MAX - 1, INT32_MIN, INT32_MAX};
    struct ctl_msg reply = good, m;

    reply.type = CTL_ALLOC_PD;
    reply.status = -CTL_ERRNO_MAX;
    assert_int_equal(ctl_send(sock[0], &reply, NULL, 0, 0), 0);
    assert_int_equal(ask(&m), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
        reply.status = wrong[i];
        assert_int_equal(ctl_send(sock[0], &reply, some_fds, 2, 0), 0);
        assert_int_equal(ask(&m), -EPROTO);
    }
}

static const struct ctl_msg refusal = {
    .magic = CTL_MAGIC, .version = CTL_VERSION, .status = -ENOMEM};

/* The daemon refuses a connection: it closes it when a request is there, and leaves that unread. */
static void *refuse(void *arg)
{
    char byte;

    recv(sock[0], &byte, 1, MSG_PEEK);
    ctl_send(sock[0], &refusal, NULL, 0, 0);
    close(sock[0]);
    return NULL;
}

/* The kernel reports the reset before the message, unless the client reads in between. */
static void test_request_refused(void **state)
{
    struct ctl_msg m;

    for (unsigned i = 0; i < 100; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, refuse, NULL), 0);
        assert_int_equal(ask(&m), -ENOMEM);
        pthread_join(thread, NULL);
        close(sock[1]);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock), 0);
    }
    /* It is closed before the request. */
    assert_int_equal(ctl_send(sock[0], &refusal, NULL, 0, 0), 0);
    close(sock[0]);
    assert_int_equal(ask(&m), -ENOMEM);
    assert_int_equal(ask(&m), -ECONNRESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_is_readable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_credentials_leave_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_peer_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_request_status, setup, teardown),
        cmocka_unit_test_setup_teardown(test_request_refused, setup, teardown),
    };

    return cmocka_run_group_tests_name("abi_ctl", tests, NULL, NULL);
}
