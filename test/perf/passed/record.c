/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the place of ThreadSanitizer's library, for code that is compiled with -fsanitize=thread and
 * linked without it: each access to memory is noted by its cache line, and one that finds the line
 * with another thread is counted for the place in the code. At the end of the program each place
 * has a line in the file that PASSED_LINES names: its address, reads, writes. passed_lines.py
 * builds and runs such a program.
 *
 * A line is with the threads that have read it since it was written, and with the one that wrote it
 * last, as in caches that invalidate each other's lines. The record is kept without locks: two
 * threads that meet in it may lose a count, which no place that matters does again and again.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_BITS   21
#define PLACE_BITS  14
#define THREADS_MAX 16 /* later ones share the last number */
#define PROBES      64
#define MIX         UINT64_C(0x9E3779B97F4A7C15)

struct line {
    uint64_t number;
    uint32_t threads; /* that have it, by bit */
};

struct place {
    void *code;
    uint64_t reads, writes;
};

static struct line lines[1 << LINE_BITS];
static struct place places[THREADS_MAX][1 << PLACE_BITS];
static _Atomic unsigned threads;
static _Thread_local unsigned number; /* from 1 on; 0: it has none yet */

static unsigned thread_number(void)
{
    if (!number) {
        unsigned next = atomic_fetch_add(&threads, 1);

        number = 1 + (next < THREADS_MAX ? next : THREADS_MAX - 1);
    }
    return number - 1;
}

static void count(unsigned thread, void *code, bool write)
{
    unsigned at = (uintptr_t)code * MIX >> (64 - PLACE_BITS);

    for (unsigned i = 0; i < PROBES; i++) {
        struct place *p = &places[thread][(at + i) % (1 << PLACE_BITS)];

        if (p->code && p->code != code)
            continue;
        p->code = code;
        *(write ? &p->writes : &p->reads) += 1;
        return;
    }
}

/* Another line in the same slot is forgotten: it is rare, as there are many slots. */
static void touch(uint64_t line_number, void *code, bool write)
{
    struct line *l = &lines[line_number * MIX >> (64 - LINE_BITS)];
    unsigned thread = thread_number();
    uint32_t own = UINT32_C(1) << thread;

    if (l->number != line_number) {
        *l = (struct line){line_number, own};
        return;
    }
    if (write ? l->threads & ~own : !(l->threads & own))
        count(thread, code, write);
    l->threads = write ? own : l->threads | own;
}

static void access_range(const volatile void *at, size_t bytes, bool write, void *code)
{
    uint64_t first = (uintptr_t)at / 64, last = ((uintptr_t)at + bytes - 1) / 64;

    for (uint64_t i = first; bytes && i <= last; i++)
        touch(i, code, write);
}

#define CODE __builtin_return_address(0)

/* ---- what the compiler calls; their prototypes are its own ---- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define ACCESS(name, bytes)                     \
    void __tsan_read##name(void *at)            \
    {                                           \
        access_range(at, bytes, false, CODE);   \
    }                                           \
    void __tsan_write##name(void *at)           \
    {                                           \
        access_range(at, bytes, true, CODE);    \
    }                                           \
    void __tsan_unaligned_read##name(void *at)  \
    {                                           \
        access_range(at, bytes, false, CODE);   \
    }                                           \
    void __tsan_unaligned_write##name(void *at) \
    {                                           \
        access_range(at, bytes, true, CODE);    \
    }                                           \
    void __tsan_volatile_read##name(void *at)   \
    {                                           \
        access_range(at, bytes, false, CODE);   \
    }                                           \
    void __tsan_volatile_write##name(void *at)  \
    {                                           \
        access_range(at, bytes, true, CODE);    \
    }

ACCESS(1, 1)
ACCESS(2, 2)
ACCESS(4, 4)
ACCESS(8, 8)
ACCESS(16, 16)

void __tsan_read_range(void *at, size_t bytes)
{
    access_range(at, bytes, false, CODE);
}

void __tsan_write_range(void *at, size_t bytes)
{
    access_range(at, bytes, true, CODE);
}

#define EXCHANGES(bits, type, kind)                                                               \
    int __tsan_atomic##bits##_compare_exchange_##kind(volatile type *at, type *expected, type to, \
                                                      int order, int otherwise)                   \
    {                                                                                             \
        access_range(at, sizeof(type), true, CODE);                                               \
        return __atomic_compare_exchange_n(at, expected, to, 0, __ATOMIC_SEQ_CST,                 \
                                           __ATOMIC_SEQ_CST);                                     \
    }

#define CHANGES(bits, type, kind)                                                  \
    type __tsan_atomic##bits##_fetch_##kind(volatile type *at, type by, int order) \
    {                                                                              \
        access_range(at, sizeof(type), true, CODE);                                \
        return __atomic_fetch_##kind(at, by, __ATOMIC_SEQ_CST);                    \
    }

#define ATOMIC(bits, type)                                                                     \
    type __tsan_atomic##bits##_load(const volatile type *at, int order)                        \
    {                                                                                          \
        access_range(at, sizeof(type), false, CODE);                                           \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                          \
    }                                                                                          \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                 \
    {                                                                                          \
        access_range(at, sizeof(type), true, CODE);                                            \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                         \
    }                                                                                          \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order)              \
    {                                                                                          \
        access_range(at, sizeof(type), true, CODE);                                            \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                               \
    }                                                                                          \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type to, \
                                                    int order, int otherwise)                  \
    {                                                                                          \
        access_range(at, sizeof(type), true, CODE);                                            \
        __atomic_compare_exchange_n(at, &expected, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected;                                                                       \
    }                                                                                          \
    EXCHANGES(bits, type, strong)                                                              \
    EXCHANGES(bits, type, weak)                                                                \
    CHANGES(bits, type, add)                                                                   \
    CHANGES(bits, type, sub)                                                                   \
    CHANGES(bits, type, and)                                                                   \
    CHANGES(bits, type, or)                                                                    \
    CHANGES(bits, type, xor)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
    atomic_thread_fence(memory_order_seq_cst);
}

void __tsan_atomic_signal_fence(int order)
{
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
}

void __tsan_func_exit(void)
{
}

/* Of stacks that a thread changes (carrier.c): the thread is the same. */
void *__tsan_get_current_fiber(void)
{
    return NULL;
}

void *__tsan_create_fiber(unsigned flags)
{
    return &threads;
}

void __tsan_destroy_fiber(void *fiber)
{
}

void __tsan_switch_to_fiber(void *fiber, unsigned flags)
{
}

/* ---- the end ---- */

static __attribute__((destructor)) void report(void)
{
    const char *name = getenv("PASSED_LINES");
    FILE *f = name ? fopen(name, "w") : NULL;

    for (unsigned t = 0; f && t < THREADS_MAX; t++)
        for (unsigned i = 0; i < 1 << PLACE_BITS; i++) {
            const struct place *p = &places[t][i];

            if (p->code)
                fprintf(f, "%p %lu %lu\n", p->code, (unsigned long)p->reads,
                        (unsigned long)p->writes);
        }
    if (f)
        fclose(f);
}
