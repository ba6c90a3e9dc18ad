/* SPDX-License-Identifier: BSD-3-Clause */
/* For how long the applications of a user may stop the workers, and how often. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/inherit.h"
#include "device_kit.h"
#include "device_private.h"
#include "objects/freeze_credit.h"

static struct event_loop *loop;
static struct rnic *rnic;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    return 0;
}

static int teardown(void **state)
{
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static int call(struct session *c, enum ctl_type type, struct ctl_msg *m)
{
    struct ctl_call k = {0};
    int status = kit_call(c, type, m, &k, false);

    *m = k.reply;
    return status;
}

static uint32_t alloc_pd(struct session *c)
{
    struct ctl_msg m = {0};

    assert_int_equal(call(c, CTL_ALLOC_PD, &m), 0);
    return m.handle;
}

static uint32_t freeze_of(struct session *c)
{
    struct ctl_msg m = {0};

    assert_int_equal(call(c, CTL_FREEZE_MRS, &m), 0);
    return m.freeze.granted_us;
}

static uint32_t register_as(struct session *c, uint32_t pd, uint32_t why, int fd)
{
    struct ctl_msg m = {.reg_mr = {.pd = pd,
                                   .flags = CTL_MR_FD,
                                   .why = why,
                                   .addr = KIT_BASE,
                                   .length = 4096,
                                   .fd_offset = 0}};
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1};

    assert_int_equal(kit_call(c, CTL_REG_MR, &m, &k, false), 0);
    assert_int_equal(k.reply.reg_mr.mapped, 1);
    return k.reply.reg_mr.handle;
}

static struct session *open_session_of(uid_t uid)
{
    struct session *c = session_create(rnic, &(struct ucred){.pid = getpid(), .uid = uid});
    struct ctl_msg m = {0};

    assert_int_equal(call(c, CTL_OPEN, &m), 0);
    return c;
}

static uint64_t stops(void)
{
    return counter_get(&worker_stats(rnic_worker(rnic, 0))->calls);
}

static ns_t test_time = NS_PER_SEC, test_step;

static ns_t test_clock(void)
{
    return test_time += test_step;
}

static int unmap(struct session *c)
{
    return call(c, CTL_FREEZE_MRS, &(struct ctl_msg){.freeze.flags = CTL_FREEZE_UNMAP});
}

static int remap_of(struct session *c, uint32_t handle, int fd, uint64_t length)
{
    struct ctl_msg m = {.remap = {.handle = handle, .why = CTL_MR_ADOPTED, .pieces = 1}};
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1};

    m.remap.piece[0].length = length;
    return kit_call(c, CTL_REMAP_MR, &m, &k, false);
}

/* Nor does a call that unmaps stop the workers without credit: regions that stay mapped have
 * nothing to do with it, and what has to is refused, as is a new mapping. */
static void test_unmapping_takes_credit(void **state)
{
    int fd = memfd_create("kit", MFD_CLOEXEC);
    struct session *c;
    uint32_t pd, handle;
    uint64_t before;

    rnic->config.clock = test_clock;
    test_step = 0;
    c = open_session_of(1000);
    pd = alloc_pd(c);
    assert_int_equal(ftruncate(fd, 8192), 0);
    handle = register_as(c, pd, CTL_MR_ADOPTED, fd);
    register_as(c, pd, CTL_MR_SHARED, fd);
    register_as(c, pd, CTL_MR_UNKNOWN, fd);
    assert_int_equal(unmap(c), 0);
    assert_int_equal(c->mrs_mapped, 2);
    for (unsigned i = 0; i < CREDIT_MAX / STOP_COST; i++)
        assert_int_equal(unmap(c), 0);
    before = stops();
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(unmap(c), 0);
    assert_int_equal(remap_of(c, handle, fd, 4096), -EAGAIN);
    register_as(c, pd, CTL_MR_ADOPTED, fd);
    assert_int_equal(unmap(c), -EAGAIN);
    assert_int_equal(stops(), before);
    assert_int_equal(c->mrs_mapped, 3);
    test_time += CREDIT_RATE * STOP_COST;
    assert_int_equal(remap_of(c, handle, fd, 100), 0); /* in vain, and for nothing */
    assert_int_equal(remap_of(c, handle, fd, 4096), 0);
    assert_int_equal(unmap(c), -EAGAIN);
    /* Work that takes long costs what it takes. */
    test_time += CREDIT_RATE * CREDIT_MAX;
    test_step = 10 * NS_PER_MS;
    assert_int_equal(unmap(c), 0);
    assert_int_equal(c->mrs_mapped, 2);
    test_step = 0;
    before = stops();
    for (unsigned i = 0; i < CREDIT_MAX / STOP_COST; i++)
        unmap(c);
    assert_in_range(stops() - before, CREDIT_MAX / STOP_COST - 101, CREDIT_MAX / STOP_COST - 40);
    session_close(c);
    close(fd);
}

/* A user's applications have one allowance, for the time and for the number of freezes; new
 * connections bring no other. */
static void test_freezes_of_a_user(void **state)
{
    enum { MANY = 40 };
    struct session *c[MANY], *other;
    uint64_t total = 0, before;

    for (unsigned i = 0; i < MANY; i++) {
        c[i] = open_session_of(1000);
        total += freeze_of(c[i]);
    }
    assert_in_range(total, 80000, 100000);
    assert_int_equal(freeze_of(c[MANY - 1]), 0);
    other = open_session_of(1001);
    assert_in_range(freeze_of(other), 15000, 20000);
    /* What was not used comes back: the workers have not waited. */
    for (unsigned i = 0; i < MANY; i++)
        session_close(c[i]);
    c[0] = open_session_of(1000);
    assert_in_range(freeze_of(c[0]), 15000, 20000);
    for (unsigned i = 0; i < 2000; i++)
        freeze_of(c[0]);
    before = stops();
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(freeze_of(c[0]), 0);
    assert_in_range(stops() - before, 0, 200);
    session_close(c[0]);
    c[0] = open_session_of(1000);
    assert_int_equal(freeze_of(c[0]), 0);
    session_close(c[0]);
    session_close(other);
}

/* A child goes on with the session's context, whose process has ended. */
static int inherit(struct session *left)
{
    struct session *child =
        session_create(rnic, &(struct ucred){.pid = getpid(), .uid = left->peer.uid});
    struct ctl_msg m = {0};
    int status;

    left->is_left = true;
    memcpy(m.open.join_key, left->join_key, sizeof(m.open.join_key));
    status = call(child, CTL_INHERIT, &m);
    if (!status)
        session_inherit(left, child);
    session_close(child);
    return status;
}

static unsigned inherits(struct session *c)
{
    unsigned n = 0;

    while (n < 2 * CREDIT_MAX / STOP_COST && !inherit(c))
        n++;
    return n;
}

/* A program that forks again and again, and whose parents end, has no more of the workers' time. */
static void test_inheriting_takes_credit(void **state)
{
    struct session *c;

    rnic->config.clock = test_clock;
    test_step = 0;
    c = open_session_of(1000);
    assert_int_equal(inherits(c), CREDIT_MAX / STOP_COST);
    assert_int_equal(inherit(c), -EAGAIN);
    test_time += 3 * CREDIT_RATE * STOP_COST;
    assert_int_equal(inherits(c), 3);
    /* Work that takes long costs what it takes, also more than there is. */
    test_time += CREDIT_RATE * STOP_COST;
    test_step = 50 * NS_PER_MS;
    assert_int_equal(inherit(c), 0);
    test_step = 0;
    assert_int_equal(inherit(c), -EAGAIN);
    test_time += CREDIT_RATE * 10 * NS_PER_MS;
    assert_int_equal(inherit(c), -EAGAIN);
    test_time += CREDIT_RATE * CREDIT_MAX;
    assert_in_range(inherits(c), 1, CREDIT_MAX / STOP_COST - 100);
    session_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_freezes_of_a_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unmapping_takes_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inheriting_takes_credit, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_freeze", tests, NULL, NULL);
}
