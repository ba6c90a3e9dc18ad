/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small lock for the posting and polling paths: one atomic exchange when nobody contends. A
 * waiter yields soon, because the holder may have lost its processor. Not recursive, not fair.
 */
#ifndef UROCE_SPIN_H
#define UROCE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common.h"

#define SPIN_PAUSES 32

struct spin {
    _Atomic bool held;
};

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool spin_trylock(struct spin *s)
{
    return !atomic_exchange_explicit(&s->held, true, memory_order_acquire);
}

static inline void spin_lock(struct spin *s)
{
    unsigned tries = 0;

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
