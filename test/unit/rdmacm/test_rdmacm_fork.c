/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program forks while another thread holds a lock of the libraries: the child can use what the
 * lock guards. The thread is held in a function that it calls under the lock.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cma.h"
#include "fake_daemon.h"
#include "rs_device.h"
#include "unit.h"

#define DEADLOCK_SECONDS 10

static _Thread_local bool to_hold, was_held;
static sem_t held, released;
static bool in_child;

/* Calls of the child fail, and those of the thread when it has been held. */
static bool fails(void)
{
    if (to_hold) {
        to_hold = false;
        was_held = true;
        sem_post(&held);
        sem_wait(&released);
    }
    return was_held || in_child;
}

/* ---- the functions that a thread is held in, also for libibverbs.so.1 ---- */

static enum { HOLD_CONNECT, HOLD_REPLY, HOLD_PD } hold;

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    if (hold == HOLD_CONNECT && fails()) {
        errno = ECONNREFUSED;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, addr, len);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    if (hold == HOLD_REPLY && fails()) {
        errno = ECONNRESET;
        return -1;
    }
    return syscall(SYS_recvmsg, fd, msg, flags);
}

static _Atomic unsigned asked_for_pid;

EXPORT pid_t getpid(void)
{
    asked_for_pid++;
    return (pid_t)syscall(SYS_getpid);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
    fails();
    errno = ENOMEM;
    return NULL;
}

/* ---- */

static void (*call)(void);

static void *run(void *arg)
{
    to_hold = true;
    call();
    return NULL;
}

/* `tried` in a thread that is held; and again in a child. */
static void fork_beside(void (*tried)(void))
{
    pthread_t thread;
    int status = -1;
    pid_t pid;

    call = tried;
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    sem_wait(&held);
    alarm(DEADLOCK_SECONDS);
    pid = fork();
    if (!pid) {
        in_child = true;
        alarm(DEADLOCK_SECONDS);
        call();
        _exit(0);
    }
    alarm(0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    sem_post(&released);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

static void make_channel(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();

    if (channel)
        rdma_destroy_event_channel(channel);
}

static void list_devices(void)
{
    rdma_free_devices(rdma_get_devices(NULL));
}

static void list_verbs_devices(void)
{
    ibv_free_device_list(ibv_get_device_list(NULL));
}

static void get_rs_device(void)
{
    static struct ibv_context verbs;

    assert_null(rs_device_get(&verbs));
}

/* The thread connects, and closes its socket when it is refused. */
static void test_connects(void **state)
{
    hold = HOLD_CONNECT;
    fork_beside(make_channel);
}

/* The thread has librdmacm's list of devices, and waits for that of libibverbs. */
static void test_opens_devices(void **state)
{
    hold = HOLD_REPLY;
    fork_beside(list_devices);
}

static void test_lists_devices(void **state)
{
    hold = HOLD_REPLY;
    fork_beside(list_verbs_devices);
}

static void test_makes_a_pd(void **state)
{
    hold = HOLD_PD;
    fork_beside(get_rs_device);
}

/* The child fails at once, and the daemon hears nothing of it. */
static void test_inherits(void **state)
{
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    int status = -1;
    pid_t pid;

    was_held = false;
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    pid = fork();
    if (!pid) {
        alarm(DEADLOCK_SECONDS);
        _exit(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

/* Whose a connection is follows without a system call for each message. */
static void test_asks_for_no_pid(void **state)
{
    was_held = false;
    asked_for_pid = 0;
    make_channel();
    assert_int_equal(asked_for_pid, 0);
}

static int setup(void **state)
{
    sem_init(&held, 0, 0);
    sem_init(&released, 0, 0);
    fake_daemon_start();
    return 0;
}

static int teardown(void **state)
{
    fake_daemon_stop();
    return 0;
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_connects),   WITH(test_opens_devices), WITH(test_lists_devices),
        WITH(test_makes_a_pd), WITH(test_inherits),      WITH(test_asks_for_no_pid),
    };

    return cmocka_run_group_tests_name("rdmacm_fork", tests, NULL, NULL);
}
