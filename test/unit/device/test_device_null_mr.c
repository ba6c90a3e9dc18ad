/* SPDX-License-Identifier: BSD-3-Clause */
/* Null regions end with their protection domain, as with mlx5, where a null region is a key of the
 * device; perftest deregisters none. */
#include "unit.h"

#include <errno.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"
#include "objects/pd_mr.h"

#define NULLS 150u /* more than the daemon ends at once */

static struct event_loop *loop;
static struct rnic *rnic;
static struct session *session;
static uint32_t pd;

static int call(enum ctl_type type, struct ctl_msg *m)
{
    struct ctl_call k = {0};
    int status = kit_call(session, type, m, &k, false);

    *m = k.reply;
    return status;
}

static int setup(void **state)
{
    struct ctl_msg m = {0};
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    session = session_create(rnic, &(struct ucred){.pid = getpid()});
    assert_int_equal(call(CTL_OPEN, &m), 0);
    m = (struct ctl_msg){0};
    assert_int_equal(call(CTL_ALLOC_PD, &m), 0);
    pd = m.handle;
    return 0;
}

static int teardown(void **state)
{
    session_close(session);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static struct ctl_reg_mr reg(uint32_t flags, uint64_t addr, uint64_t length)
{
    struct ctl_msg m = {.reg_mr = {.pd = pd,
                                   .access = MEM_LOCAL_WRITE,
                                   .addr = addr,
                                   .iova = addr,
                                   .length = length,
                                   .flags = flags}};

    assert_int_equal(call(CTL_REG_MR, &m), 0);
    return m.reg_mr;
}

static struct ctl_reg_mr null_region(void)
{
    return reg(CTL_MR_NULL, 0, UINT64_MAX);
}

static int dealloc(void)
{
    return kit_call_handle(session, CTL_DEALLOC_PD, pd);
}

static int dereg(const struct ctl_reg_mr *mr)
{
    return kit_call_handle(session, CTL_DEREG_MR, mr->handle);
}

static bool is_known(const struct ctl_reg_mr *mr)
{
    return mr_lookup(&session->device->mrs, mr->lkey);
}

static void all_end_with_the_domain(void **state)
{
    struct ctl_reg_mr null[NULLS];
    unsigned turns = 0;
    int err;

    for (unsigned i = 0; i < NULLS; i++)
        null[i] = null_region();
    assert_int_equal(dereg(&null[0]), 0);
    while ((err = dealloc()) == -EAGAIN) /* the library asks again */
        assert_true(++turns < NULLS);
    assert_int_equal(err, 0);
    assert_true(turns > 0);
    for (unsigned i = 0; i < NULLS; i++)
        assert_false(is_known(&null[i]));
    assert_int_equal(dereg(&null[1]), -ENOENT);
    assert_int_equal(dealloc(), -ENOENT);
}

static void none_ends_while_the_domain_is_in_use(void **state)
{
    struct ctl_reg_mr null = null_region(), real = reg(0, KIT_BASE, 64);

    assert_int_equal(dealloc(), -EBUSY);
    assert_true(is_known(&null));
    assert_int_equal(dereg(&null), 0);
    assert_int_equal(dealloc(), -EBUSY);
    assert_int_equal(dereg(&real), 0);
    assert_int_equal(dealloc(), 0);
}

static void those_of_other_domains_stay(void **state)
{
    struct ctl_reg_mr first = null_region(), second;
    uint32_t old = pd;
    struct ctl_msg m = {0};

    assert_int_equal(call(CTL_ALLOC_PD, &m), 0);
    pd = m.handle;
    second = null_region();
    assert_int_equal(dealloc(), 0);
    pd = old;
    assert_true(is_known(&first));
    assert_false(is_known(&second));
    assert_int_equal(dealloc(), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(all_end_with_the_domain),
        T(none_ends_while_the_domain_is_in_use),
        T(those_of_other_domains_stay),
    };

    return cmocka_run_group_tests_name("device_null_mr", tests, NULL, NULL);
}
