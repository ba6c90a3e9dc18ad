/* SPDX-License-Identifier: BSD-3-Clause */
/* See comp_counter.h. */
#include "comp_counter.h"

static void add(_Atomic uint64_t *count, uint64_t n)
{
    if (n)
        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                              memory_order_release);
}

void comp_counter_add(struct comp_counter *c, uint32_t lane, uint64_t done, uint64_t bytes,
                      uint64_t failed)
{
    struct counter_line *line = &c->line[lane];

    add(&line->done, c->bytes ? bytes : done);
    add(&line->failed, failed);
}

/* ---- the application's end ---- */

static _Atomic uint64_t *own_of(struct counter_reader *r, enum counter_part part)
{
    return part == COUNTER_DONE ? &r->done : &r->failed;
}

/* What the workers have counted. */
static uint64_t sum(const struct counter_reader *r, enum counter_part part)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->lines; i++) {
        const struct counter_line *line = &r->line[i];

        n += atomic_load_explicit(part == COUNTER_DONE ? &line->done : &line->failed,
                                  memory_order_acquire);
    }
    return n;
}

uint64_t counter_reader_get(const struct counter_reader *r, enum counter_part part)
{
    return sum(r, part) + atomic_load(part == COUNTER_DONE ? &r->done : &r->failed);
}

void counter_reader_add(struct counter_reader *r, enum counter_part part, uint64_t n)
{
    atomic_fetch_add(own_of(r, part), n);
}

void counter_reader_set(struct counter_reader *r, enum counter_part part, uint64_t value)
{
    atomic_store(own_of(r, part), value - sum(r, part));
}
