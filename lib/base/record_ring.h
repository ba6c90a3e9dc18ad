/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a ring of records beside its one writer, which overwrites the oldest record: the writer
 * stores a record's words, and then the count of all records ever written. Record n is at
 * n % size; the size is a power of two.
 */
#ifndef UROCE_RECORD_RING_H
#define UROCE_RECORD_RING_H

#include <stdatomic.h>
#include <stdint.h>

/* The records from first to end (not included) are in the ring. */
struct record_span {
    uint64_t first, end;
};

/* What there is to copy. */
static inline struct record_span record_ring_begin(const _Atomic uint64_t *count, uint64_t size)
{
    uint64_t end = atomic_load_explicit(count, memory_order_acquire);

    return (struct record_span){end > size ? end - size : 0, end};
}

/* After it was copied: the first record that is whole. The writer may have overwritten others since
 * they were copied, and may be overwriting one now. */
static inline uint64_t record_ring_whole(const _Atomic uint64_t *count, uint64_t size,
                                         struct record_span copied)
{
    uint64_t now, whole;

    atomic_thread_fence(memory_order_acquire);
    now = atomic_load_explicit(count, memory_order_relaxed);
    whole = now >= size ? now - size + 1 : 0;
    return whole > copied.first ? whole : copied.first;
}

#endif
