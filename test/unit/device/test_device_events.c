/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion events that a full channel does not take, while the worker and the control thread deal
 * with them at the same time: a worker's event comes in the middle of the control thread's send. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"
#include "unit.h"
#include "worker_internal.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct session *session;
static struct cq *cq;
static int channel; /* the application's end */
static bool full;
static unsigned rung;             /* events of the worker */
static void (*during_send)(void); /* once, before the call returns */

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    void (*now)(void) = during_send;
    ssize_t n = -1;

    if (!full)
        n = __real_send(fd, data, len, flags);
    during_send = NULL;
    if (now)
        now();
    if (full)
        errno = EAGAIN;
    return n;
}

/* The worker reports a completion. */
static void ring(void)
{
    struct engine_host host = worker_host(session->device->port[0]);

    host.cq_event(host.ctx, &cq->dp.cq);
    worker_flush_notifications(rnic_worker(rnic, 0));
    rung++;
}

static unsigned received(void)
{
    uint64_t cookie;
    unsigned n = 0;

    while (recv(channel, &cookie, sizeof(cookie), MSG_DONTWAIT) == sizeof(cookie))
        n++;
    return n;
}

/* How many queues the list has; 9: too many, it may be a circle. */
static unsigned listed(void)
{
    unsigned n = 0;

    for (struct dp_cq *dq = dp_cq_take_late(&rnic->group); dq && n < 9; dq = dq->next_late)
        n++;
    return n;
}

static int setup(void **state)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    session = session_create(rnic, &(struct ucred){.pid = getpid()});
    assert_non_null(session);
    assert_int_equal(kit_call(session, CTL_OPEN, &m, &k, false), 0);
    assert_int_equal(kit_call(session, CTL_CREATE_CHANNEL, &m, &k, true), 0);
    channel = k.out_fd[0];
    m = (struct ctl_msg){.create_cq = {.cqe = 16, .channel = k.reply.handle}};
    assert_int_equal(kit_call(session, CTL_CREATE_CQ, &m, &k, false), 0);
    cq = container_of(TAILQ_FIRST(&session->objects[OBJ_CQ]), struct cq, o);
    full = true;
    rung = 0;
    return 0;
}

static int teardown(void **state)
{
    full = false;
    close(channel);
    session_close(session);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* The control thread has the queue: it is not listed as well, and so never twice. */
static void test_event_while_the_channel_is_full(void **state)
{
    ring();
    assert_int_equal(listed(), 1);
    for (unsigned i = 0; i < 3; i++) {
        during_send = ring;
        assert_false(dp_cq_send_unsent(&cq->dp));
    }
    assert_int_equal(rung, 4);
    assert_int_equal(listed(), 0);
    full = false;
    assert_true(dp_cq_send_unsent(&cq->dp));
    assert_int_equal(received(), 4);
    full = true;
    ring();
    assert_int_equal(listed(), 1);
}

/* An event that comes during the last send is sent too, or listed. */
static void test_event_during_the_last_send(void **state)
{
    ring();
    assert_int_equal(listed(), 1);
    full = false;
    during_send = ring;
    assert_true(dp_cq_send_unsent(&cq->dp));
    assert_int_equal(received() + listed(), 2);
    ring();
    assert_int_equal(received(), 1);
}

/* The control thread could not watch the channel: the next event brings the queue back, once. */
static void test_listed_again_with_unsent_events(void **state)
{
    ring();
    assert_int_equal(listed(), 1);
    dp_cq_allow_listing(&cq->dp);
    ring();
    ring();
    during_send = ring;
    assert_false(dp_cq_send_unsent(&cq->dp));
    assert_int_equal(listed(), 1);
    full = false;
    assert_true(dp_cq_send_unsent(&cq->dp));
    assert_int_equal(received(), 4);
}

/* The queue is destroyed: no list has it any longer. */
static void test_destroyed_with_unsent_events(void **state)
{
    struct object *o = &cq->o;

    ring();
    assert_int_equal(listed(), 1);
    during_send = ring;
    assert_false(dp_cq_send_unsent(&cq->dp));
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CQ, o->handle), 0);
    assert_int_equal(listed(), 0);
}

static int raise_cq(void)
{
    return kit_call_handle(session, CTL_RAISE_CQ, cq->o.handle);
}

/* The application asks for the event of an armed queue: once, also when the channel is full. */
static void test_raised_by_the_application(void **state)
{
    atomic_store(&cq->dp.cq.shared->arm, CQ_ARM_NONE);
    assert_int_equal(raise_cq(), 0);
    assert_int_equal(atomic_load(&cq->dp.unsent), 0);
    atomic_store(&cq->dp.cq.shared->arm, CQ_ARM_NEXT);
    assert_int_equal(raise_cq(), 0);
    assert_int_equal(raise_cq(), 0);
    assert_int_equal(atomic_load(&cq->dp.unsent), 1);
    assert_int_equal(listed(), 0); /* the control thread has it */
    full = false;
    assert_true(dp_cq_send_unsent(&cq->dp));
    atomic_store(&cq->dp.cq.shared->arm, CQ_ARM_NEXT);
    assert_int_equal(raise_cq(), 0);
    assert_int_equal(received(), 2);
    assert_int_equal(kit_call_handle(session, CTL_RAISE_CQ, cq->o.handle + 1), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_raised_by_the_application, setup, teardown),
        cmocka_unit_test_setup_teardown(test_event_while_the_channel_is_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_event_during_the_last_send, setup, teardown),
        cmocka_unit_test_setup_teardown(test_listed_again_with_unsent_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroyed_with_unsent_events, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
