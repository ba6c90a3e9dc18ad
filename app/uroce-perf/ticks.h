/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU's time counter: a read takes a few nanoseconds. Its rate is measured when a run begins.
 */
#ifndef UROCE_PERF_TICKS_H
#define UROCE_PERF_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static inline uint64_t ticks_now(void)
{
#if defined(__aarch64__)
    uint64_t count;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return __rdtsc();
#endif
}

#endif
