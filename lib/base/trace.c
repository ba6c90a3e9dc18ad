/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a trace beside its writer: see trace.h. */
#include "trace.h"

#include "record_ring.h"

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

unsigned trace_read(const struct trace *t, struct trace_record out[TRACE_RECORDS])
{
    struct record_span s = record_ring_begin(&t->count, TRACE_RECORDS);
    unsigned n = 0;

    for (uint64_t i = s.first; i < s.end; i++)
        out[i - s.first] = read_record(t, i);
    for (uint64_t i = record_ring_whole(&t->count, TRACE_RECORDS, s); i < s.end; i++)
        out[n++] = out[i - s.first];
    return n;
}
