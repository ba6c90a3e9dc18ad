/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose caller does not wait: their bytes, and what they keep from ending. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "mem.h"
#include "unit.h"

#define LONG (4 * MEM_SMALL)
#define PD   7u
#define QPN  0x11u

struct space {
    unsigned holders;
    _Atomic unsigned late;
};

static uint8_t memory[LONG];

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_non_null(io[i].mr);
        memcpy(io[i].local, memory, io[i].len);
        io[i].status = 0;
    }
}

static void hold(void *space)
{
    ((struct space *)space)->holders++;
}

static void release(void *space)
{
    ((struct space *)space)->holders--;
}

static _Atomic unsigned *late_calls(void *space)
{
    return &((struct space *)space)->late;
}

static const struct mem_backend backend = {
    .copy_in = copy_in, .hold = hold, .release = release, .late = late_calls};
static struct space space;

static struct mem_region a_region(void)
{
    return (struct mem_region){.pd = PD,
                               .access = MEM_LOCAL_WRITE | MEM_MW_BIND,
                               .len = LONG,
                               .backend = &backend,
                               .space = &space};
}

static struct mem_call late_call(struct mem_region *const *mr, unsigned n)
{
    struct mem_call c = {.kind = MEM_CALL_OUT, .backend = &backend, .space = &space, .n = n};

    for (unsigned i = 0; i < n; i++)
        c.io[i] = (struct mem_io){.mr = mr[i], .len = 1};
    mem_call_begin_late(&c);
    return c;
}

/* ---- what waits ---- */

static void regions_wait_by_themselves(void **state)
{
    struct mem_region mr[3] = {a_region(), a_region(), a_region()};
    struct mem_call first = late_call((struct mem_region *[]){&mr[0], &mr[0], &mr[1]}, 3);
    struct mem_call second = late_call((struct mem_region *[]){&mr[1]}, 1);

    assert_int_equal(space.holders, 2);
    assert_int_equal(space.late, 2);
    assert_true(mr_waits(&mr[0]) && mr_waits(&mr[1]));
    assert_false(mr_waits(&mr[2]));
    mem_call_end_late(&first);
    assert_false(mr_waits(&mr[0]));
    assert_true(mr_waits(&mr[1]));
    mem_call_end_late(&second);
    assert_false(mr_waits(&mr[1]));
    assert_int_equal(space.holders + space.late, 0);
    for (unsigned i = 0; i < 3; i++)
        mr_end(&mr[i]);
}

/* The application has left, and its regions are freed: the call still ends. */
static void region_ends_first(void **state)
{
    struct mem_region *mr = malloc(sizeof(*mr));
    struct mem_call call;

    *mr = a_region();
    call = late_call(&mr, 1);
    mr_end(mr);
    free(mr);
    mem_call_end_late(&call);
    assert_int_equal(space.holders, 0);
}

/* ---- windows ---- */

static struct mr_table table;
static struct mem_region slow, other, window;

static void make_table(void)
{
    static const uint64_t secret[2] = {1, 2};

    slow = other = a_region();
    window = (struct mem_region){.kind = MEM_WINDOW_2, .pd = PD};
    assert_int_equal(mr_table_init(&table, 16, secret), 0);
    assert_int_equal(mr_insert(&table, &slow, 1), 0);
    assert_int_equal(mr_insert(&table, &other, 2), 0);
    assert_int_equal(mr_insert(&table, &window, 3), 0);
}

static void free_table(void)
{
    window_unbind(&window);
    mr_end(&slow);
    mr_end(&other);
    mr_table_fini(&table);
}

static enum mr_fault bind_to(const struct mem_region *mr)
{
    const struct window_bind b = {.window_key = window.key,
                                  .new_key = window.key ^ 1,
                                  .region_key = mr->key,
                                  .pd = PD,
                                  .qpn = QPN,
                                  .len = LONG,
                                  .access = MEM_REMOTE_WRITE};

    return window_bind(&table, &b);
}

/* Only windows of a region whose memory is late stay as they are. */
static void windows_of_the_region_stay(void **state)
{
    struct mem_region *mr = &slow;
    struct mem_call call;

    make_table();
    call = late_call(&mr, 1);
    assert_int_equal(bind_to(&other), MR_OK);
    assert_int_equal(window_invalidate(&table, window.key, PD, QPN), MR_OK);
    assert_int_equal(bind_to(&slow), MR_OK);
    assert_true(window_waits(&window));
    assert_int_equal(window_invalidate(&table, window.key, PD, QPN), MR_BAD_ACCESS);
    mem_call_end_late(&call);
    assert_int_equal(window_invalidate(&table, window.key, PD, QPN), MR_OK);
    free_table();
}

static void *invalidate(void *result)
{
    *(enum mr_fault *)result = window_invalidate(&table, window.key, PD, QPN);
    return NULL;
}

/* A call becomes late while an invalidation waits for the user of the window. */
static void late_while_the_gate_closes(void **state)
{
    struct mr_cache cache = {.table = &table};
    struct mem_region *mr = &slow;
    struct mem_call call;
    struct mr_span span;
    enum mr_fault result = MR_OK;
    pthread_t thread;

    make_table();
    assert_int_equal(bind_to(&slow), MR_OK);
    assert_int_equal(mr_check_remote(&cache, window.key, PD, QPN, 0, 8, MEM_REMOTE_WRITE, &span),
                     MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, invalidate, &result), 0);
    while ((window.gate & ~1u) != 3u << 30) /* locked, changing */
        cpu_pause();
    call = late_call(&mr, 1);
    mr_span_end(&span);
    pthread_join(thread, NULL);
    assert_int_equal(result, MR_BAD_ACCESS);
    assert_true(window.bound);
    mem_call_end_late(&call);
    assert_int_equal(window_invalidate(&table, window.key, PD, QPN), MR_OK);
    assert_int_equal(slow.windows, 0);
    free_table();
}

/* ---- calls with bytes of their own ---- */

static struct mem_call prepared;

static bool run_owned(struct mem_caller *caller)
{
    assert_true(mem_call_own(caller->call));
    assert_non_null(caller->call->own);
    mem_call_run(caller->call);
    return true;
}

static void own_bytes_come_back(void **state)
{
    struct mem_caller caller = {.call = &prepared, .run = run_owned};
    struct mem_batch b = {.caller = &caller};
    struct mem_region mr = a_region();
    uint8_t small[8], large[LONG];

    for (unsigned i = 0; i < LONG; i++)
        memory[i] = (uint8_t)(i + 1);
    assert_false(mem_batch_in(&b, &mr, 0, small, sizeof(small), 0));
    assert_false(mem_batch_in(&b, &mr, 0, large, sizeof(large), 1));
    assert_int_equal(mem_batch_flush_in(&b), 0);
    assert_memory_equal(small, memory, sizeof(small));
    assert_memory_equal(large, memory, sizeof(large));
    assert_null(prepared.own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_wait_by_themselves), cmocka_unit_test(region_ends_first),
        cmocka_unit_test(windows_of_the_region_stay), cmocka_unit_test(late_while_the_gate_closes),
        cmocka_unit_test(own_bytes_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
