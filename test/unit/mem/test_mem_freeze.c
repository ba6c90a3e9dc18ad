/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy waits while the application rearranges its memory, for a limited time. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "copy.h"
#include "unit.h"

#define LONG UINT64_C(60000000000)

static struct mem_copy_space space;
static _Atomic bool began, done;
static uint8_t from[8] = "abcdefg", to[8];

static void *copies(void *arg)
{
    struct mem_region mr = {.backend = &mem_copy_backend, .space = &space};
    struct mem_io io = {.mr = &mr, .addr = (uintptr_t)from, .local = to, .len = sizeof(to)};

    began = true;
    mem_copy_backend.copy_in(&space, &io, 1);
    assert_int_equal(io.status, 0);
    done = true;
    return NULL;
}

static void waits_for_the_end(void **state)
{
    pthread_t thread;

    assert_int_equal(mem_copy_space_init(&space, getpid()), 0);
    mem_freeze_begin(&space.freeze, LONG);
    began = done = false;
    pthread_create(&thread, NULL, copies, NULL);
    while (!began)
        sched_yield();
    for (unsigned i = 0; i < 100; i++) {
        sched_yield();
        assert_false(done);
        assert_int_equal(to[0], 0);
    }
    mem_freeze_end(&space.freeze);
    pthread_join(thread, NULL);
    assert_int_equal(to[0], 'a');
    to[0] = 0;
}

static void ends_by_itself(void **state)
{
    mem_freeze_begin(&space.freeze, 1000000);
    copies(NULL);
    assert_int_equal(to[0], 'a');
    assert_true(mem_freeze_end(&space.freeze) > 0);
    assert_int_equal(mem_freeze_end(&space.freeze) > 0, 1);
    mem_freeze_begin(&space.freeze, LONG);
    assert_int_equal(mem_freeze_end(&space.freeze), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_the_end),
        cmocka_unit_test(ends_by_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
