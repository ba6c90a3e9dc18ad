/* SPDX-License-Identifier: BSD-3-Clause */
/* Suspending copies: see freeze.h. */
#include "freeze.h"

#include <sched.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void mem_freeze_begin(struct mem_freeze *f, uint64_t ns)
{
    atomic_store_explicit(&f->waited, 0, memory_order_relaxed);
    atomic_store_explicit(&f->until, now_ns() + ns, memory_order_release);
}

uint64_t mem_freeze_end(struct mem_freeze *f)
{
    atomic_store_explicit(&f->until, 0, memory_order_release);
    return atomic_load_explicit(&f->waited, memory_order_relaxed);
}

/* Yields the CPU, because the application may need this one to finish. */
void mem_freeze_sleep(struct mem_freeze *f)
{
    uint64_t start = now_ns(), now = start, until;

    while ((until = atomic_load_explicit(&f->until, memory_order_acquire)) && now < until) {
        sched_yield();
        now = now_ns();
    }
    atomic_fetch_add_explicit(&f->waited, now - start, memory_order_relaxed);
}
