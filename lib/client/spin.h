/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small lock for the posting and polling paths: one atomic exchange without contention, and a
 * plain store in a process with one thread, where no other can hold it. A waiter yields soon,
 * because the holder may have lost its CPU. Not recursive, not fair.
 */
#ifndef UROCE_SPIN_H
#define UROCE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common.h"

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define SPIN_SINGLE_THREADED __libc_single_threaded
#endif
#endif
#ifndef SPIN_SINGLE_THREADED
#define SPIN_SINGLE_THREADED false
#endif

#define SPIN_PAUSES 32

struct spin {
    _Atomic bool held;
};

static inline bool spin_trylock(struct spin *s)
{
    return !atomic_exchange_explicit(&s->held, true, memory_order_acquire);
}

static inline void spin_lock(struct spin *s)
{
    unsigned tries = 0;

    if (likely(SPIN_SINGLE_THREADED)) {
        atomic_store_explicit(&s->held, true, memory_order_relaxed);
        return;
    }
    while (unlikely(!spin_trylock(s))) {
        while (atomic_load_explicit(&s->held, memory_order_relaxed)) {
            if (++tries < SPIN_PAUSES)
                cpu_pause();
            else
                sched_yield();
        }
    }
}

static inline void spin_unlock(struct spin *s)
{
    atomic_store_explicit(&s->held, false, memory_order_release);
}

#endif
