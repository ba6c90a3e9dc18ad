/* SPDX-License-Identifier: BSD-3-Clause */
/* How long empty polls sleep when another thread keeps the CPU. */
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rings.h"
#include "unit.h"

#define POLLS 64

/* ---- in the place of the C library's: sleeps end at once, and are noted ---- */

static long slept[2 * POLLS];
static unsigned sleeps;

long syscall(long number, ...)
{
    const struct timespec *limit;
    va_list ap;

    va_start(ap, number);
    va_arg(ap, void *);
    assert_int_equal(va_arg(ap, int), FUTEX_WAIT);
    va_arg(ap, int);
    limit = va_arg(ap, const struct timespec *);
    va_end(ap);
    assert_int_equal(number, SYS_futex);
    assert_int_equal(limit->tv_sec, 0);
    assert_true(sleeps < ARRAY_SIZE(slept));
    slept[sleeps++] = limit->tv_nsec;
    return 0;
}

/* ---- */

static void poll_empty(struct ibv_cq *cq, unsigned n)
{
    struct ibv_wc wc;

    for (unsigned i = 0; i < n; i++)
        assert_int_equal(shim_poll_cq(cq, 1, &wc), 0);
}

/* They become longer while nothing comes, and short again after a completion. */
static void sleeps_grow(void **state)
{
    static const long want[] = {50000, 100000, 200000, 400000, 400000};
    struct rings *r = rings_new();
    struct ibv_cq *cq = ibv_cq_ex_to_cq(&r->cq->ex);
    struct ibv_wc wc;

    client_idle = (struct client_idle){.blocking_polls = POLLS};
    poll_empty(cq, ARRAY_SIZE(want));
    rings_complete(r, WC_SEND, 0, WC_SUCCESS, 1);
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 1);
    poll_empty(cq, ARRAY_SIZE(want));
    assert_int_equal(sleeps, 2 * ARRAY_SIZE(want));
    for (unsigned i = 0; i < sleeps; i++)
        assert_int_equal(slept[i], want[i % ARRAY_SIZE(want)]);
    poll_empty(cq, POLLS - sleeps); /* the episode ends */
    assert_int_equal(sleeps, POLLS);
    assert_int_equal(client_idle.blocking_polls, 0);
    rings_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeps_grow),
    };

    return cmocka_run_group_tests_name("shim_poll_sleep", tests, NULL, NULL);
}
