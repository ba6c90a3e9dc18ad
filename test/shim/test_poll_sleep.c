/* SPDX-License-Identifier: BSD-3-Clause */
/* How long empty polls sleep when another thread keeps the CPU, and what wakes them. */
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
static _Atomic uint32_t *written; /* by a peer during each sleep */

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
    if (written)
        atomic_fetch_add(written, 1);
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

static unsigned sleeps_of(struct ibv_cq *cq, unsigned polls)
{
    sleeps = 0;
    poll_empty(cq, polls);
    return sleeps;
}

/* A peer's WRITE since the program looked at its memory: the next poll does not sleep, as the
 * program has to look again; and those after it sleep shortly. */
static void writes_end_sleeps(void **state)
{
    struct rings *r = rings_new();
    struct ibv_cq *cq = ibv_cq_ex_to_cq(&r->cq->ex);
    _Atomic uint32_t *writes = &r->cq->queue.client->shared->worker[0].writes;

    client_idle = (struct client_idle){.blocking_polls = POLLS};
    assert_int_equal(sleeps_of(cq, 6), 6);
    assert_int_equal(slept[5], 400000);
    atomic_fetch_add(writes, 1);
    assert_int_equal(sleeps_of(cq, 1), 0);
    assert_int_equal(sleeps_of(cq, 2), 2);
    assert_int_equal(slept[0], 50000);
    assert_int_equal(slept[1], 100000);
    written = writes; /* these wake it */
    assert_int_equal(sleeps_of(cq, 4), 4);
    assert_int_equal(slept[1], 50000);
    assert_int_equal(slept[3], 50000);
    written = NULL;
    rings_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeps_grow),
        cmocka_unit_test(writes_end_sleeps),
    };

    return cmocka_run_group_tests_name("shim_poll_sleep", tests, NULL, NULL);
}
