/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-writer counters: one thread adds, any thread reads. An increment is a load and a store
 * that the compiler may neither tear nor keep in a register; there is no locked instruction.
 */
#ifndef UROCE_COUNTER_H
#define UROCE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Atomic uint64_t value;
} counter_t;

/* Any thread. */
static inline uint64_t counter_get(const counter_t *c)
{
    return atomic_load_explicit(&c->value, memory_order_relaxed);
}

/* Only the counter's writer may call it, as the next two. */
static inline void counter_set(counter_t *c, uint64_t value)
{
    atomic_store_explicit(&c->value, value, memory_order_relaxed);
}

static inline void counter_add(counter_t *c, uint64_t n)
{
    counter_set(c, counter_get(c) + n);
}

static inline void counter_inc(counter_t *c)
{
    counter_add(c, 1);
}

/* The sum of n counters that share a writer. While the writer adds, the sum is not that of a single
 * moment. */
static inline uint64_t counter_sum(const counter_t *c, unsigned n)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += counter_get(&c[i]);
    return sum;
}

#endif
