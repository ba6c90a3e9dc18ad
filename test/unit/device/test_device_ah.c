/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of an address handle that no datagram names, and what it costs. */
#include "unit.h"

#include <errno.h>

#include "device_app.h"

#define LOOKS 4096u

static struct event_loop *loop;
static struct rnic *rnic;
static struct app app;
static struct app_cq cq;
static struct app_qp qp[LOOKS + 1];

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    app_open(&app, rnic);
    app_cq(&app, &cq, 64);
    return 0;
}

static int teardown(void **state)
{
    app_close(&app);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* How often it is asked for. */
static unsigned requests_to_destroy(uint32_t handle)
{
    unsigned n = 1;

    while (app_call_handle(&app, CTL_DESTROY_AH, handle) == -EAGAIN)
        n++;
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_AH, handle), -ENOENT);
    return n;
}

/* A request looks at some queue pairs only, and what it does not see does not keep the handle. */
static void test_looks_are_few(void **state)
{
    uint32_t number;

    for (unsigned i = 0; i < LOOKS; i++)
        assert_int_equal(app_qp(&app, &qp[i], QPT_UD, &cq, 0, 0), 0);
    assert_int_equal(requests_to_destroy(app_ah(&app, app.pd, "127.0.0.1", &number)), 1);
    assert_int_equal(app_qp(&app, &qp[LOOKS], QPT_UD, &cq, 0, 0), 0);
    assert_int_equal(requests_to_destroy(app_ah(&app, app.pd, "127.0.0.1", &number)),
                     1 + END_TRIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_looks_are_few, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
