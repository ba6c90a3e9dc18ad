/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latest unusual events of an engine: a ring with one writer that overwrites the oldest record,
 * and that any thread may read concurrently. A peer can cause records, but each costs a few stores
 * and leads to no other output.
 */
#ifndef UROCE_TRACE_H
#define UROCE_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#define TRACE_RECORDS 1024 /* a power of two */

/* What happened; in brackets, what a and b hold. */
enum trace_event {
    TRACE_DROP = 1,        /* a packet was dropped [enum drop] */
    TRACE_STATE,           /* a queue pair changed its state [from, to] */
    TRACE_FAULT,           /* the peer or the application did something wrong [enum fault, PSN] */
    TRACE_NAK,             /* a peer refused a request [AETH syndrome, PSN] */
    TRACE_TIMEOUT,         /* no answer: the oldest requests go out again [PSN, retries left] */
    TRACE_REPATH,          /* another UDP source port [old, new] */
    TRACE_QP_MIGRATED_OUT, /* the queue pair went to another worker's engine [its lane] */
    TRACE_QP_MIGRATED_IN,  /* from another */
    TRACE_QP_MISPLACED,    /* its packets keep arriving at another engine [its lane, how many] */
    TRACE_CQ_OVERRUN,      /* a completion was lost [completion queue] */
    TRACE_TX_DROP, /* a packet to the queue pair was dropped by its sender [enum drop, PSN] */
    TRACE_EVENTS,
};

struct trace_record {
    uint64_t time; /* ns */
    uint32_t qpn;  /* 0: none */
    uint32_t event, a, b;
};

struct trace {
    _Atomic uint64_t count; /* records ever written */
    _Atomic uint64_t word[TRACE_RECORDS][3];
};

/* Adds a record. The writer. */
static inline void trace_put(struct trace *t, uint64_t time, enum trace_event event, uint32_t qpn,
                             uint32_t a, uint32_t b)
{
    uint64_t n = atomic_load_explicit(&t->count, memory_order_relaxed);
    _Atomic uint64_t *w = t->word[n & (TRACE_RECORDS - 1)];

    /* A reader that sees a word of this record also sees the whole record before it. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&w[0], time, memory_order_relaxed);
    atomic_store_explicit(&w[1], qpn | (uint64_t)event << 32, memory_order_relaxed);
    atomic_store_explicit(&w[2], a | (uint64_t)b << 32, memory_order_relaxed);
    atomic_store_explicit(&t->count, n + 1, memory_order_release);
}

/* Copies the records that the ring holds, the oldest first. Returns how many. Any thread. */
unsigned trace_read(const struct trace *t, struct trace_record out[TRACE_RECORDS]);

#endif
