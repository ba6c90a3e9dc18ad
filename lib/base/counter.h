/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-writer counters: one thread adds, any thread reads. A plain increment that the
 * compiler may neither tear nor keep in a register; no locked instruction.
 */
#ifndef UROCE_COUNTER_H
#define UROCE_COUNTER_H

#include <stdint.h>

typedef struct {
    uint64_t value;
} counter_t;

/* Adds n. Only the counter's owner thread may call it. */
static inline void counter_add(counter_t *c, uint64_t n)
{
    __atomic_store_n(&c->value, __atomic_load_n(&c->value, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline void counter_inc(counter_t *c)
{
    counter_add(c, 1);
}

/* Any thread. */
static inline uint64_t counter_get(const counter_t *c)
{
    return __atomic_load_n(&c->value, __ATOMIC_RELAXED);
}

/* The sum of n counters that share a writer; not one moment's, while that adds. */
static inline uint64_t counter_sum(const counter_t *c, unsigned n)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += counter_get(&c[i]);
    return sum;
}

#endif
