/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose caller does not wait: their bytes, and what they keep from ending. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "mem_batch.h"
#include "mem_window.h"
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

static bool run_failed(struct mem_caller *caller)
{
    memset(caller->call->small, 'S', sizeof(caller->call->small));
    caller->call->io[0].status = -EFAULT;
    return true;
}

/* What the call kept before is another's. */
static void bytes_of_a_failed_call_stay(void **state)
{
    struct mem_caller caller = {.call = &prepared, .run = run_failed};
    struct mem_batch b = {.caller = &caller};
    struct mem_region mr = a_region();
    uint8_t in[8] = {0};

    assert_false(mem_batch_in(&b, &mr, 0, in, sizeof(in), 0));
    assert_int_equal(mem_batch_flush_in(&b), 1);
    assert_int_equal(b.io[0].status, -EFAULT);
    assert_memory_equal(in, (uint8_t[8]){0}, sizeof(in));
}

/* ---- a batch whose calls are late ---- */

static struct mem_call others[4];
static unsigned runs, late_runs, told;
static bool makes[4];

/* The calls of `makes` are made; the others are late, and their transfers change at once. */
static bool run_some(struct mem_caller *caller)
{
    struct mem_call *c = caller->call;

    if (makes[runs++]) {
        mem_call_run(c);
        return true;
    }
    for (unsigned i = 0; i < c->n; i++)
        c->io[i].status = 0;
    caller->call = &others[late_runs++];
    return false;
}

static void note_late(void *owner, struct mem_call *call)
{
    told += call->n;
}

/* Two spaces, one's neighbours twice: three calls. */
static void a_part_is_late(void **state)
{
    static struct space second;
    static struct mem_region first_mr, second_mr;

    first_mr = second_mr = a_region();
    second_mr.space = &second;
    for (unsigned late = 0; late < 8; late++) {
        static struct mem_call call;
        struct mem_caller caller = {.call = &call, .run = run_some};
        struct mem_batch b = {.caller = &caller, .late = note_late};
        struct mem_region *mr[] = {&first_mr, &first_mr, &second_mr, &first_mr};
        const unsigned call_of[] = {0, 0, 1, 2};
        uint8_t in[4][8] = {{0}};
        unsigned n = 0;

        runs = late_runs = told = 0;
        for (unsigned i = 0; i < 3; i++)
            makes[i] = !(late >> i & 1);
        for (unsigned i = 0; i < 4; i++)
            mem_batch_in(&b, mr[i], 0, in[i], sizeof(in[i]), 100 + i);
        for (unsigned i = 0; i < 4; i++)
            n += !makes[call_of[i]];
        assert_int_equal(mem_batch_flush_in(&b), n);
        assert_int_equal(told, n);
        assert_int_equal(runs, 3);
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(b.io[i].tag, 100 + i);
            assert_int_equal(b.io[i].status, makes[call_of[i]] ? 0 : -EINPROGRESS);
            assert_int_equal(in[i][0], makes[call_of[i]] ? memory[0] : 0);
        }
    }
}

/* The window of a late copy is released with the flush, like that of others. */
static void a_window_is_late(void **state)
{
    static struct mem_call call;
    struct mem_caller caller = {.call = &call, .run = run_some};
    struct mem_batch b = {.caller = &caller, .late = note_late};
    struct mr_cache cache = {.table = &table};
    struct mr_span span;
    uint8_t in[8];

    make_table();
    runs = late_runs = 0;
    makes[0] = false;
    assert_int_equal(bind_to(&slow), MR_OK);
    assert_int_equal(mr_check_remote(&cache, window.key, PD, QPN, 0, 8, MEM_REMOTE_WRITE, &span),
                     MR_OK);
    assert_false(mem_batch_in_span(&b, &span, in, 8, 1));
    assert_int_equal(mem_batch_flush_in(&b), 1);
    assert_int_equal(b.io[0].status, -EINPROGRESS);
    assert_int_equal(window_invalidate(&table, window.key, PD, QPN), MR_OK);
    free_table();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_wait_by_themselves),
        cmocka_unit_test(region_ends_first),
        cmocka_unit_test(windows_of_the_region_stay),
        cmocka_unit_test(late_while_the_gate_closes),
        cmocka_unit_test(own_bytes_come_back),
        cmocka_unit_test(bytes_of_a_failed_call_stay),
        cmocka_unit_test(a_part_is_late),
        cmocka_unit_test(a_window_is_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
