/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a trace beside its writer: see trace.h. */
#include "trace.h"

static struct trace_record read_record(const struct trace *t, uint64_t n)
{
    const _Atomic uint64_t *w = t->word[n & (TRACE_RECORDS - 1)];
    uint64_t what = atomic_load_explicit(&w[1], memory_order_relaxed);
    uint64_t args = atomic_load_explicit(&w[2], memory_order_relaxed);

    return (struct trace_record){.time = atomic_load_explicit(&w[0], memory_order_relaxed),
                                 .qpn = (uint32_t)what,
                                 .event = (uint32_t)(what >> 32),
                                 .a = (uint32_t)args,
                                 .b = (uint32_t)(args >> 32)};
}

/* Leaves out the records that were overwritten while they were copied: those that the writer has
 * written since, and the one that it may be writing now. */
unsigned trace_read(const struct trace *t, struct trace_record out[TRACE_RECORDS])
{
    uint64_t end = atomic_load_explicit(&t->count, memory_order_acquire);
    uint64_t first = end > TRACE_RECORDS ? end - TRACE_RECORDS : 0;
    uint64_t now, whole;
    unsigned n = 0;

    for (uint64_t i = first; i < end; i++)
        out[i - first] = read_record(t, i);
    atomic_thread_fence(memory_order_acquire);
    now = atomic_load_explicit(&t->count, memory_order_relaxed);
    whole = now >= TRACE_RECORDS ? now - TRACE_RECORDS + 1 : 0;
    for (uint64_t i = whole > first ? whole : first; i < end; i++)
        out[n++] = out[i - first];
    return n;
}
