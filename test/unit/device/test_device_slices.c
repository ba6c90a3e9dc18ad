/* SPDX-License-Identifier: BSD-3-Clause */
/* Long work of the control thread: in slices, between which descriptors are served. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"

static struct event_loop *loop;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    return loop ? 0 : -1;
}

static int teardown(void **state)
{
    event_loop_destroy(loop);
    return 0;
}

struct job {
    struct event_job j;
    unsigned left, *last;
};

static bool run_job(struct event_job *j)
{
    struct job *job = container_of(j, struct job, j);

    *job->last = job->left;
    return --job->left;
}

static unsigned served;

static void on_ready(struct event_source *s, uint32_t events)
{
    served++;
}

static void test_jobs(void **state)
{
    unsigned a_last = 0, b_last = 0;
    struct job a = {.j.run = run_job, .left = 3, .last = &a_last};
    struct job b = {.j.run = run_job, .left = 1, .last = &b_last};
    struct event_source source = {.fd = eventfd(1, EFD_CLOEXEC), .ready = on_ready};

    served = 0;
    assert_int_equal(event_loop_add(loop, &source, EPOLLIN), 0);
    event_loop_start(loop, &a.j);
    event_loop_start(loop, &b.j);
    /* In turn, one slice after each descriptor. */
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(served, 1);
    assert_int_equal(a_last, 3);
    assert_int_equal(b_last, 0);
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(served, 2);
    assert_int_equal(a_last, 3);
    assert_int_equal(b_last, 1);
    /* And without one. */
    event_loop_remove(loop, &source);
    assert_true(event_loop_step(loop, -1));
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(a.left, 0);
    assert_false(event_loop_step(loop, 0));
    assert_int_equal(served, 2);
    close(source.fd);
}

static uint32_t handle_of(struct session *sn, enum ctl_type type, struct ctl_msg m)
{
    struct ctl_call k = {0};

    assert_int_equal(kit_call(sn, type, &m, &k, false), 0);
    return type == CTL_ALLOC_MW ? k.reply.alloc_mw.handle : k.reply.handle;
}

static uint64_t interruptions(struct rnic *r)
{
    return counter_get(&worker_stats(rnic_worker(r, 0))->calls);
}

/* The end of an application with much of everything: few interruptions of the workers, and no slice
 * that lasts long. */
static void test_end(void **state)
{
    enum { MANY = 20000 };
    struct rnic *r = kit_rnic(loop, NULL);
    struct session *sn = session_create(r, &(struct ucred){.pid = getpid()});
    uint64_t before;
    unsigned slices = 1;
    uint32_t pd;

    handle_of(sn, CTL_OPEN, (struct ctl_msg){0});
    pd = handle_of(sn, CTL_ALLOC_PD, (struct ctl_msg){0});
    for (unsigned i = 0; i < MANY; i++) {
        struct ctl_msg ah = {.create_ah = {.pd = pd, .attr = {.is_global = 1, .port_num = 1}}};
        struct ctl_msg mr = {.reg_mr = {.pd = pd, .addr = KIT_BASE, .length = 64}};

        handle_of(sn, CTL_ALLOC_MW, (struct ctl_msg){.alloc_mw = {.pd = pd, .type = 2}});
        handle_of(sn, CTL_REG_MR, mr);
        memcpy(ah.create_ah.attr.dgid, sn->device->gids.entry[0].gid.raw, 16);
        handle_of(sn, CTL_CREATE_AH, ah);
        handle_of(sn, CTL_ALLOC_PD, (struct ctl_msg){0});
    }
    before = interruptions(r);
    while (session_close_some(sn))
        slices++;
    assert_in_range(interruptions(r) - before, 1, 3 * MANY / 64);
    assert_true(slices > 1);
    rnic_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_slices", tests, NULL, NULL);
}
