/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_WATCH: who may have work requests timed, for how long, and that all applications know; and
 * CTL_JUDGE: calls that rules let fail. */
#include "unit.h"

#include <errno.h>

#include "control/session_state.h"
#include "device_app.h"
#include "device_host.h"

#define STRANGER 12345

static struct event_loop *loop;
static struct rnic *rnic;
static struct app app;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    app_open(&app, rnic);
    return 0;
}

static int teardown(void **state)
{
    app_close(&app);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static int watch(struct app *a, uint32_t latency)
{
    struct ctl_msg m = {.watch.latency = latency};

    return app_call(a, CTL_WATCH, &m);
}

/* What an application of the device is asked to do. */
static uint32_t asked(const struct app *a)
{
    const struct ctx_shared *shared = a->session->segment.base;

    return atomic_load(&shared->watch);
}

static void test_while_it_lasts(void **state)
{
    struct app first, second, later;

    app_open(&first, rnic);
    app_open(&second, rnic);
    assert_int_equal(asked(&app), 0);
    assert_int_equal(watch(&first, 1), 0);
    assert_int_equal(asked(&app), CTX_WATCH_LATENCY);
    assert_int_equal(watch(&first, 1), 0); /* once is enough */
    assert_int_equal(watch(&second, 1), 0);
    app_open(&later, rnic);
    assert_int_equal(asked(&later), CTX_WATCH_LATENCY);
    assert_int_equal(watch(&first, 0), 0);
    assert_int_equal(asked(&app), CTX_WATCH_LATENCY);
    app_close(&second); /* which has not ended it */
    assert_int_equal(asked(&app), 0);
    assert_int_equal(asked(&later), 0);
    app_close(&later);
    app_close(&first);
}

static void test_refused(void **state)
{
    struct app stranger;

    app_open_as(&stranger, rnic, STRANGER);
    assert_int_equal(watch(&stranger, 1), -EPERM);
    assert_int_equal(asked(&app), 0);
    assert_int_equal(watch(&app, 2), -EINVAL);
    assert_int_equal(asked(&app), 0);
    app_close(&stranger);
}

static uint32_t add_rule(const char *text)
{
    struct ctl_msg m = {.fault.op = CTL_FAULT_ADD};

    snprintf(m.fault.text, sizeof(m.fault.text), "%s", text);
    assert_int_equal(app_call(&app, CTL_FAULT, &m), 0);
    return m.fault.number;
}

static void remove_rule(uint32_t number)
{
    struct ctl_msg m = {.fault = {.op = CTL_FAULT_REMOVE, .number = number}};

    assert_int_equal(app_call(&app, CTL_FAULT, &m), 0);
}

static int judge(uint32_t call)
{
    struct ctl_msg m = {.judge.call = call};

    return app_call(&app, CTL_JUDGE, &m);
}

/* An application asks about calls for which there is a rule, if it is for this application. */
static void test_judged_calls(void **state)
{
    static const char *const verb[CTL_JUDGED] = {"post_send", "post_recv", "post_srq_recv",
                                                 "poll_cq", "req_notify_cq"};
    char text[64];
    uint32_t number = add_rule("fail reg_mr EIO");

    assert_int_equal(asked(&app), 0);
    remove_rule(number);
    number = add_rule("fail post_send EIO program no_such_name");
    assert_int_equal(asked(&app), 0);
    assert_int_equal(judge(CTL_JUDGE_POST_SEND), 0);
    remove_rule(number);
    for (uint32_t i = 0; i < CTL_JUDGED; i++) {
        snprintf(text, sizeof(text), "fail %s ENOSPC nth 2", verb[i]);
        number = add_rule(text);
        assert_int_equal(asked(&app), CTX_WATCH_CALLS);
        assert_int_equal(judge(i), 0);
        assert_int_equal(judge(i ? 0 : 1), 0); /* another call does not count */
        assert_int_equal(judge(i), -ENOSPC);
        remove_rule(number);
        assert_int_equal(asked(&app), 0);
        assert_int_equal(judge(i), 0);
    }
    assert_int_equal(judge(CTL_JUDGED), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_while_it_lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_judged_calls, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
