/* SPDX-License-Identifier: BSD-3-Clause */
/* Errands: one that waits keeps waiting those of its own user, and few of these. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/errand.h"
#include "event_loop.h"
#include "worker.h"

static const struct ucred alice = {.pid = 10, .uid = 1000}, bob = {.pid = 11, .uid = 1001};

static struct event_loop *loop;
static struct errands *errands;
static int gate[2]; /* errands of `wait` end as bytes are written */
static unsigned done;
static _Atomic unsigned begun, ended;
static pthread_t control;

/* ---- a system without room for another thread ---- */

typedef int create_fn(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                      void *arg);

static _Atomic bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    create_fn *create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");

    return atomic_load(&no_threads) ? EAGAIN : create(thread, attr, run, arg);
}

static int setup(void **state)
{
    int err;

    control = pthread_self();
    loop = event_loop_create(&err);
    errands = errands_create(loop, &err);
    assert_non_null(errands);
    done = 0;
    atomic_store(&no_threads, false);
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    return pipe(gate);
}

static int teardown(void **state)
{
    if (errands)
        errands_destroy(errands);
    event_loop_destroy(loop);
    close(gate[0]);
    close(gate[1]);
    return 0;
}

static void run_at_once(struct errand *e)
{
    atomic_fetch_add(&begun, 1);
}

static void run_wait(struct errand *e)
{
    char byte;

    atomic_fetch_add(&begun, 1);
    assert_int_equal(read(gate[0], &byte, 1), 1);
    atomic_fetch_add(&ended, 1);
}

static void count_done(struct errand *e)
{
    assert_true(pthread_equal(pthread_self(), control));
    done++;
    free(e);
}

static void post(const struct ucred *peer, void (*run)(struct errand *e))
{
    struct errand *e = calloc(1, sizeof(*e));

    *e = (struct errand){.run = run, .done = count_done};
    errands_post(errands, peer, e);
}

static void let_go(unsigned n)
{
    while (n--)
        assert_int_equal(write(gate[1], "x", 1), 1);
}

static void await_done(unsigned n)
{
    unsigned ticks = 1000; /* of a timer; all else is reported */

    while (done < n && ticks--)
        assert_true(event_loop_step(loop, 5000));
    assert_int_equal(done, n);
}

static void test_in_place(void **state)
{
    struct errands *none = errands;

    errands = NULL;
    post(&alice, run_at_once);
    assert_int_equal(done, 1);
    assert_int_equal(errands_pending(NULL, alice.uid), 0);
    errands = none;
}

static void test_others_go_on(void **state)
{
    for (unsigned i = 0; i < 3 * ERRAND_CLIENT_THREADS; i++)
        post(&alice, run_wait);
    for (unsigned i = 0; i < 100; i++)
        post(&bob, run_at_once);
    await_done(100);
    assert_int_equal(errands_pending(errands, alice.uid), 3 * ERRAND_CLIENT_THREADS);
    assert_int_equal(errands_pending(errands, bob.uid), 0);
    while (atomic_load(&begun) < 100 + ERRAND_CLIENT_THREADS)
        sched_yield();
    assert_int_equal(atomic_load(&begun), 100 + ERRAND_CLIENT_THREADS);
    /* Each that ends makes room for one. */
    let_go(3 * ERRAND_CLIENT_THREADS);
    await_done(100 + 3 * ERRAND_CLIENT_THREADS);
    assert_int_equal(errands_pending(errands, alice.uid), 0);
}

/* A user's processes have threads each, but not without end. */
static void test_processes(void **state)
{
    struct ucred peer = alice;
    unsigned n = ERRAND_USER_THREADS + 10;

    for (unsigned i = 0; i < n; i++, peer.pid++)
        post(&peer, run_wait);
    post(&bob, run_at_once);
    await_done(1);
    while (atomic_load(&begun) < 1 + ERRAND_USER_THREADS)
        sched_yield();
    assert_int_equal(atomic_load(&begun), 1 + ERRAND_USER_THREADS);
    assert_int_equal(errands_pending(errands, alice.uid), n);
    let_go(n);
    await_done(1 + n);
}

/* The first errand needs no new thread. One that does gets it as soon as there is room: no other
 * errand has to come, or to end. */
static void test_no_thread(void **state)
{
    struct ucred peer = alice;
    unsigned n = 0;

    atomic_store(&no_threads, true);
    post(&bob, run_at_once);
    await_done(1);
    for (; n < 3; n++, peer.pid++)
        post(&peer, run_wait);
    post(&bob, run_at_once);
    while (atomic_load(&begun) < 1 + 2)
        sched_yield();
    assert_true(event_loop_step(loop, 5000)); /* tries */
    assert_int_equal(done, 1);
    atomic_store(&no_threads, false);
    await_done(2);
    let_go(n);
    await_done(2 + n);
}

static void test_close(void **state)
{
    int pair[2];
    char byte;

    assert_int_equal(pipe(pair), 0);
    errands_close(errands, &alice, pair[1]);
    assert_int_equal(read(pair[0], &byte, 1), 0); /* waits for the close */
    assert_int_equal(pipe(pair + 0), 0);
    errands_close(NULL, &alice, pair[1]);
    assert_int_equal(fcntl(pair[1], F_GETFD), -1);
    close(pair[0]);
}

/* The end of a TCP connection that waits until its peer has received all. */
static int lingering(int *peer)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 30000};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    static const uint8_t data[65536];
    socklen_t len = sizeof(addr);

    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
    *peer = accept(listener, NULL, NULL);
    assert_true(*peer >= 0);
    while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0) {
    }
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    close(listener);
    return fd;
}

/* More than a process has threads. The first is in a message that nothing has read. */
static void test_lingering_close(void **state)
{
    enum { MANY = ERRAND_CLIENT_THREADS + 1 };
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } cmsg = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr msg = {.msg_control = &cmsg, .msg_controllen = sizeof(cmsg)};
    int peer[MANY], fd[MANY], pair[2];

    for (unsigned i = 0; i < MANY; i++)
        fd[i] = lingering(&peer[i]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    memcpy(CMSG_DATA(&cmsg.header), &fd[0], sizeof(int));
    assert_int_equal(sendmsg(pair[0], &msg, 0), 0);
    close(fd[0]);
    fd[0] = pair[1];
    for (unsigned i = 0; i < MANY; i++)
        errands_close(errands, &alice, fd[i]);
    post(&alice, run_at_once);
    await_done(1);
    close(pair[0]);
    for (unsigned i = 0; i < MANY; i++)
        close(peer[i]);
}

/* ---- errands that last ---- */

static struct late_errand named[8];
static unsigned names;

static void name_late(void *ctx, const struct late_errand *late)
{
    assert_ptr_equal(ctx, &names);
    assert_true(names < ARRAY_SIZE(named));
    named[names++] = *late;
}

static unsigned named_of(const struct ucred *peer)
{
    unsigned n = 0;

    for (unsigned i = 0; i < names; i++)
        n += named[i].pid == peer->pid && named[i].uid == peer->uid && !named[i].is_close;
    return n;
}

/* Each application is named once, after a second, and shown for as long as it waits. */
static void test_late(void **state)
{
    struct late_errand late[4];
    ns_t start = worker_time();

    names = 0;
    errands_on_late(errands, name_late, &names);
    post(&alice, run_wait);
    post(&bob, run_wait);
    post(&bob, run_at_once);
    await_done(1);
    assert_int_equal(errands_late(errands, late, ARRAY_SIZE(late)), 0);
    while (names < 2)
        assert_true(event_loop_step(loop, 5000));
    assert_true(worker_time() >= start + ERRAND_LATE);
    assert_int_equal(named_of(&alice), 1);
    assert_int_equal(named_of(&bob), 1);
    assert_int_equal(errands_late(errands, late, ARRAY_SIZE(late)), 2);
    assert_int_equal(errands_late(errands, late, 1), 1);
    assert_int_equal(errands_late(NULL, late, 1), 0);
    /* One that begins later is named later, and those that were are not again. */
    post(&alice, run_wait);
    while (names < 3)
        assert_true(event_loop_step(loop, 5000));
    assert_int_equal(named_of(&alice), 2);
    let_go(3);
    await_done(4);
    assert_int_equal(errands_late(errands, late, ARRAY_SIZE(late)), 0);
    assert_int_equal(names, 3);
}

/* What waits for an application does not keep the daemon from its end. */
static void test_end(void **state)
{
    static struct errands *volatile abandoned; /* they stay, with the thread that waits */

    post(&alice, run_wait);
    while (!atomic_load(&begun))
        sched_yield();
    abandoned = errands;
    errands_destroy(abandoned);
    errands = NULL;
    let_go(1);
    while (!atomic_load(&ended))
        sched_yield();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lingering_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_errand", tests, NULL, NULL);
}
