/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several workers use a window while others bind it, invalidate it and deregister the region behind
 * it. Each binding is to a part of the region that no other binding has had, and marks the part
 * with a word in memory. A worker that gets access must find the word of the binding whose key it
 * used, and no binding ends while a worker still uses it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "common.h"
#include "mem_window.h"
#include "unit.h"

#define PD     7u
#define QPN    0x11u
#define BASE   UINT64_C(0x10000)
#define PART   64u
#define PARTS  64u
#define ROUNDS 3000u
#define USERS  2

static struct mr_table table;
static _Thread_local struct mr_cache cache = {.table = &table};
static struct mem_region region = {.pd = PD,
                                   .access = MEM_LOCAL_WRITE | MEM_MW_BIND,
                                   .iova = BASE,
                                   .addr = BASE,
                                   .len = (uint64_t)PART * PARTS};
static struct mem_region window;
static _Atomic uint32_t key_now; /* as the application would send it to its peers */
static _Atomic bool over;
/* By part: whether a binding leads there. Binders write it while no user can have access. */
static bool led[PARTS];
static _Atomic uint32_t entered;

static void make_table(uint8_t kind)
{
    static const uint64_t secret[2] = {1, 2};

    window = (struct mem_region){.kind = kind, .pd = PD};
    region.windows = 0;
    assert_int_equal(mr_table_init(&table, 16, secret), 0);
    assert_int_equal(mr_insert(&table, &region, 1), 0);
    assert_int_equal(mr_insert(&table, &window, 2), 0);
    memset(led, 0, sizeof(led));
    over = false;
    key_now = 0;
    entered = 0;
}

/* Windows are zero-based, so that a user learns its part from the check alone. */
static void *user(void *arg)
{
    while (!atomic_load(&over)) {
        uint32_t key = atomic_load(&key_now);
        struct mr_span span = {0};

        if (mr_check_remote(&cache, key, PD, QPN, 8, 8, MEM_REMOTE_READ, &span) != MR_OK) {
            sched_yield();
            continue;
        }
        assert_ptr_equal(span.mr, &region);
        assert_int_equal((span.addr - BASE) % PART, 8);
        /* ThreadSanitizer reports a binder that writes it concurrently. */
        assert_true(led[(span.addr - BASE) / PART]);
        atomic_fetch_add(&entered, 1);
        mr_span_end(&span);
    }
    return NULL;
}

static enum mr_fault bind_part(uint32_t key, uint32_t next, unsigned part)
{
    struct window_bind b = {.window_key = key,
                            .new_key = next,
                            .region_key = region.key,
                            .pd = PD,
                            .qpn = QPN,
                            .va = BASE + part * PART,
                            .len = PART,
                            .access = MEM_REMOTE_READ | MEM_ZERO_BASED};

    return window_bind(&table, &b);
}

static uint32_t next_key(uint32_t key)
{
    return (key & ~0xFFu) | ((key + 1) & 0xFF);
}

static void start(pthread_t *thread, void *(*fn)(void *), unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fn, NULL), 0);
}

static void join(pthread_t *thread, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}

/* Waits until a user has had access with the current key, so that every round tests something. */
static void let_in(void)
{
    uint32_t before = atomic_load(&entered);

    while (atomic_load(&entered) == before)
        sched_yield();
}

static void *bind_again(void *arg)
{
    assert_int_equal(bind_part(window.key, next_key(window.key), 1), MR_OK);
    return NULL;
}

/* A change waits for who is using the window, and lets in no other. */
static void test_shut_while_it_changes(void **state)
{
    struct mr_span held = {0}, more = {0};
    time_t deadline = time(NULL) + 20;
    pthread_t thread;
    uint32_t key;

    make_table(MEM_WINDOW_1);
    assert_int_equal(bind_part(window.key, next_key(window.key), 0), MR_OK);
    key = window.key;
    assert_int_equal(mr_check_remote(&cache, key, PD, QPN, 8, 8, MEM_REMOTE_READ, &held), MR_OK);
    start(&thread, bind_again, 1);
    while (mr_check_remote(&cache, key, PD, QPN, 8, 8, MEM_REMOTE_READ, &more) == MR_OK) {
        mr_span_end(&more);
        assert_true(time(NULL) < deadline);
        sched_yield();
    }
    assert_int_equal(window.key, key);
    mr_span_end(&held);
    join(&thread, 1);
    assert_int_not_equal(window.key, key);
    mr_table_fini(&table);
}

/* Type 1, bound again and again: when a bind returns, no user has access to the part before. */
static void test_rebind(void **state)
{
    pthread_t thread[USERS];
    uint32_t key;

    make_table(MEM_WINDOW_1);
    key = window.key;
    start(thread, user, USERS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned part = i % PARTS;

        led[part] = true;
        assert_int_equal(bind_part(key, next_key(key), part), MR_OK);
        led[(part + PARTS - 1) % PARTS] = false;
        key = next_key(key);
        atomic_store(&key_now, key);
        if (i % 16 == 0)
            let_in();
    }
    over = true;
    join(thread, USERS);
    assert_int_equal(region.windows, 1);
    mr_table_fini(&table);
}

/* Type 2: invalidated, and bound again under the key it had. */
static void test_invalidate(void **state)
{
    pthread_t thread[USERS];
    uint32_t key;

    make_table(MEM_WINDOW_2);
    key = window.key;
    atomic_store(&key_now, key);
    start(thread, user, USERS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned part = i % PARTS;

        led[part] = true;
        assert_int_equal(bind_part(key, key, part), MR_OK);
        if (i % 16 == 0)
            let_in();
        assert_int_equal(window_invalidate(&table, key, PD, QPN), MR_OK);
        led[part] = false;
    }
    over = true;
    join(thread, USERS);
    assert_int_equal(region.windows, 0);
    mr_table_fini(&table);
}

/* Binders of several queue pairs of the domain, each with the key that it last saw: one of them
 * succeeds each time, the others fail. */
static _Atomic uint32_t bound;

static void *binder(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t key = atomic_load(&key_now);

        if (bind_part(key, next_key(key), i % PARTS) == MR_OK) {
            atomic_fetch_add(&bound, 1);
            atomic_store(&key_now, next_key(key));
        }
    }
    return NULL;
}

static void test_binders(void **state)
{
    pthread_t thread[4];
    uint32_t first;

    make_table(MEM_WINDOW_1);
    for (unsigned i = 0; i < PARTS; i++)
        led[i] = true;
    first = window.key;
    atomic_store(&key_now, first);
    bound = 0;
    start(thread, binder, 2);
    start(thread + 2, user, 2);
    join(thread, 2);
    over = true;
    join(thread + 2, 2);
    assert_true(bound > 0);
    assert_int_equal(window.key, (first & ~0xFFu) | ((first + bound) & 0xFF));
    assert_int_equal(region.windows, 1);
    mr_table_fini(&table);
}

/* A region is deregistered, or a window is bound to it: never both. */
static void *closer(void *arg)
{
    return region_close(&region) ? &region : NULL;
}

static void test_close(void **state)
{
    for (unsigned i = 0; i < 200; i++) {
        pthread_t thread;
        void *closed;
        bool has;

        make_table(MEM_WINDOW_1);
        start(&thread, closer, 1);
        has = bind_part(window.key, window.key, 0) == MR_OK;
        assert_int_equal(pthread_join(thread, &closed), 0);
        assert_int_equal(closed != NULL, !has);
        mr_table_fini(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shut_while_it_changes),
        cmocka_unit_test(test_rebind),
        cmocka_unit_test(test_invalidate),
        cmocka_unit_test(test_binders),
        cmocka_unit_test(test_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
