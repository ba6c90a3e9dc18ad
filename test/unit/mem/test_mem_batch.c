/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common.h"
#include "mem_batch.h"
#include "mem_memcpy.h"
#include "unit.h"

/* ---- a backend that notes what it is asked for ---- */

static struct {
    char log[256]; /* a letter per call's direction and space, a digit for how many transfers */
    uint64_t word;
} fake;

static void note(char direction, const char *space, const struct mem_io *io, unsigned n)
{
    char entry[4] = {direction, *space, (char)('0' + n), 0};

    strcat(fake.log, entry);
    for (unsigned i = 0; i < n; i++)
        assert_ptr_equal(io[i].mr->space, space);
}

static void fake_in(void *space, struct mem_io *io, unsigned n)
{
    note('<', space, io, n);
    for (unsigned i = 0; i < n; i++)
        io[i].status = io[i].addr == 0xBAD ? -EFAULT : 0;
}

static void fake_out(void *space, struct mem_io *io, unsigned n)
{
    note('>', space, io, n);
    for (unsigned i = 0; i < n; i++)
        io[i].status = io[i].addr == 0xBAD ? -ESRCH : 0;
}

static int fake_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    *old = fake.word;
    fake.word += swap_add;
    return addr == 0xBAD ? -EFAULT : 0;
}

static const struct mem_backend fake_backend = {"fake", fake_in, fake_out, fake_atomic};
static char space_a[] = "A", space_b[] = "B";
static struct mem_region a = {.backend = &fake_backend, .space = space_a};
static struct mem_region b = {.backend = &fake_backend, .space = space_b};

static int reset(void **state)
{
    memset(&fake, 0, sizeof(fake));
    return 0;
}

static void test_neighbours_share_a_call(void **state)
{
    static struct mem_region *const order[] = {&a, &a, &b, &b, &b, &a};
    struct mem_batch batch = {0};
    uint8_t byte;

    for (unsigned i = 0; i < ARRAY_SIZE(order); i++)
        assert_false(mem_batch_out(&batch, order[i], i == 3 ? 0xBAD : 0x100 + i, &byte, 1, 50 + i));
    assert_int_equal(batch.n, 6);
    assert_int_equal(mem_batch_flush_out(&batch), 1);
    assert_string_equal(fake.log, ">A2>B3>A1");
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(batch.io[i].status, i == 3 ? -ESRCH : 0);
        assert_int_equal(batch.io[i].tag, 50 + i);
    }

    reset(NULL);
    batch.n = 0;
    assert_false(mem_batch_in(&batch, &a, 0xBAD, &byte, 1, 0));
    assert_false(mem_batch_in(&batch, &b, 0xBAD, &byte, 1, 0));
    assert_int_equal(mem_batch_flush_in(&batch), 2);
    assert_string_equal(fake.log, "<A1<B1");
    batch.n = 0;
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    assert_string_equal(fake.log, "<A1<B1");
}

static void test_full(void **state)
{
    struct mem_batch batch = {0};
    uint8_t byte;

    for (unsigned i = 0; i < MEM_BATCH_MAX; i++) {
        assert_false(mem_batch_full(&batch));
        mem_batch_in(&batch, &a, i, &byte, 1, i);
    }
    assert_true(mem_batch_full(&batch));
    assert_int_equal(mem_batch_flush_in(&batch), 0);
}

/* ---- mapped regions ---- */

static uint64_t words[8];
static struct mem_region direct = {
    .iova = 0, .addr = 0x7000, .len = sizeof(words), .direct = (uint8_t *)words};

static void test_direct_is_done_at_once(void **state)
{
    struct mem_batch batch = {0};
    char in[6] = {0};

    assert_true(mem_batch_out(&batch, &direct, 0x7003, "hello", 6, 0));
    assert_memory_equal((char *)words + 3, "hello", 6);
    assert_true(mem_batch_in(&batch, &direct, 0x7003, in, 6, 0));
    assert_string_equal(in, "hello");
    assert_int_equal(batch.n, 0);
}

static void test_atomic(void **state)
{
    uint64_t old = 0;

    words[2] = UINT64_MAX;
    assert_int_equal(mem_atomic(NULL, &direct, 0x7010, MEM_FETCH_ADD, 3, 99, &old, 0), 0);
    assert_true(old == UINT64_MAX);
    assert_int_equal(words[2], 2);
    assert_int_equal(mem_atomic(NULL, &direct, 0x7010, MEM_CMP_SWP, 70, 1, &old, 0), 0);
    assert_int_equal(old, 2);
    assert_int_equal(words[2], 2); /* differed */
    assert_int_equal(mem_atomic(NULL, &direct, 0x7010, MEM_CMP_SWP, 70, 2, &old, 0), 0);
    assert_int_equal(old, 2);
    assert_int_equal(words[2], 70);
    /* An address that is aligned in the application but not in this process. */
    direct.direct++;
    assert_int_equal(mem_atomic(NULL, &direct, 0x7010, MEM_FETCH_ADD, 1, 0, &old, 0), -EFAULT);
    direct.direct--;
    assert_int_equal(words[2], 70);

    fake.word = 5;
    assert_int_equal(mem_atomic(NULL, &a, 0x10, MEM_FETCH_ADD, 4, 0, &old, 0), 0);
    assert_int_equal(old, 5);
    assert_int_equal(fake.word, 9);
    assert_int_equal(mem_atomic(NULL, &a, 0xBAD, MEM_FETCH_ADD, 4, 0, &old, 0), -EFAULT);
}

static void test_store(void **state)
{
    static const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};

    words[2] = words[3] = 70;
    assert_int_equal(mem_store8(NULL, &direct, 0x7010, bytes, 0), 0);
    assert_memory_equal(&words[2], bytes, sizeof(bytes));
    /* As an atomic: it would be a split lock. */
    direct.direct += 4;
    assert_int_equal(mem_store8(NULL, &direct, 0x7010, bytes, 0), -EFAULT);
    direct.direct -= 4;
    assert_memory_equal(&words[2], bytes, sizeof(bytes));
    assert_int_equal(words[3], 70);
}

#define ADDS 200000

static void *add_many(void *arg)
{
    uint64_t old;

    for (int i = 0; i < ADDS; i++)
        mem_atomic(NULL, &direct, 0x7008, MEM_FETCH_ADD, 1, 0, &old, 0);
    return NULL;
}

static void test_atomic_between_workers(void **state)
{
    pthread_t thread;

    words[1] = 0;
    assert_int_equal(pthread_create(&thread, NULL, add_many, NULL), 0);
    add_many(NULL);
    pthread_join(thread, NULL);
    assert_int_equal(words[1], 2 * ADDS);
}

/* Every length, from any address to any address: the bytes arrive, and no byte beside them
 * changes. */
static void test_copy(void **state)
{
    static uint8_t from[1400], to[1400], wanted[1400];
    static void (*const copies[])(uint8_t *, const uint8_t *, size_t) = {mem_memcpy,
                                                                         mem_memcpy_narrow};

    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t len = MEM_MEMCPY_LONG - 2; len < 1200; len++)
        for (size_t way = 0; way < ARRAY_SIZE(copies); way++) {
            size_t f = len % 67, t = len % 71;

            memset(to, 0xEE, sizeof(to));
            memset(wanted, 0xEE, sizeof(wanted));
            memcpy(wanted + t, from + f, len);
            copies[way](to + t, from + f, len);
            assert_memory_equal(to, wanted, sizeof(to));
        }
}

/* The same of short ones, which other bytes follow directly. */
static void test_small_copy(void **state)
{
    uint8_t from[80], to[80], wanted[80];

    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i + 1);
    for (size_t len = 0; len <= 64; len++) {
        memset(to, 0xEE, sizeof(to));
        memset(wanted, 0xEE, sizeof(wanted));
        memcpy(wanted + len % 9, from + len % 7, len);
        mem_memcpy_small(to + len % 9, from + len % 7, len);
        assert_memory_equal(to, wanted, sizeof(to));
    }
}

/* It is another backend than that of other regions without a space. */
static void test_no_memory(void **state)
{
    struct mem_region null = {.backend = &mem_null_backend, .len = UINT64_MAX};
    struct mem_batch batch = {0};
    uint8_t in[3][8], expected[8] = {0};
    uint64_t old = 5;

    memset(in, 0x77, sizeof(in));
    assert_false(mem_batch_in(&batch, &null, 0, in[0], 8, 1));
    assert_false(mem_batch_in(&batch, &a, 0, in[1], 8, 2));
    assert_false(mem_batch_in(&batch, &null, UINT64_MAX - 8, in[2], 5, 3));
    batch.io[0].status = batch.io[2].status = -EFAULT;
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    assert_string_equal(fake.log, "<A1");
    assert_memory_equal(in[0], expected, 8);
    assert_memory_equal(in[2], expected, 5);
    assert_int_equal(in[2][5], 0x77);
    batch = (struct mem_batch){0};
    assert_false(mem_batch_out(&batch, &null, 0, in[1], 8, 1));
    batch.io[0].status = -EFAULT;
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    assert_int_equal(mem_atomic(NULL, &null, 8, MEM_FETCH_ADD, 3, 0, &old, 0), 0);
    assert_int_equal(old, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_neighbours_share_a_call, reset),
        cmocka_unit_test_setup(test_full, reset),
        cmocka_unit_test_setup(test_no_memory, reset),
        cmocka_unit_test(test_direct_is_done_at_once),
        cmocka_unit_test_setup(test_atomic, reset),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_atomic_between_workers),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_small_copy),
    };

    return cmocka_run_group_tests_name("mem_batch", tests, NULL, NULL);
}
