/* SPDX-License-Identifier: BSD-3-Clause */
/* Small things that every component uses: time, sizes, container lookup. */
#ifndef UROCE_COMMON_H
#define UROCE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Byte order: the shared-memory rings and the ICRC code assume a little-endian host. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian hosts only");

#define CACHE_LINE    64
#define CACHE_ALIGNED __attribute__((aligned(CACHE_LINE)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)

/* For a function that is specialised by its constant arguments, and therefore never called. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* For a function of the packet path that runs once per batch or packet, and whose local arrays are
 * indexed by constants alone: the compiler's check of its stack costs more than it finds. */
#ifdef __has_attribute
#if __has_attribute(no_stack_protector)
#define NO_STACK_PROTECTOR __attribute__((no_stack_protector))
#endif
#endif
#ifndef NO_STACK_PROTECTOR
#define NO_STACK_PROTECTOR
#endif

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Points in time and durations are nanoseconds of a monotonic clock. The caller passes them to a
 * pure component, which never reads a clock. */
typedef uint64_t ns_t;
#define NS_PER_US  UINT64_C(1000)
#define NS_PER_MS  UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)
#define NS_NEVER   UINT64_MAX

#define min_of(a, b) ((a) < (b) ? (a) : (b))
#define max_of(a, b) ((a) > (b) ? (a) : (b))

static inline uint64_t round_up(uint64_t v, uint64_t multiple)
{
    return (v + multiple - 1) / multiple * multiple;
}

static inline bool is_pow2(uint64_t v)
{
    return v && !(v & (v - 1));
}

/* In a loop that waits for another thread: the CPU saves power and leaves the loop sooner. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The smallest power of two that is not less than v (v from 1 to 2^31). */
static inline uint32_t pow2_at_least(uint32_t v)
{
    return v <= 1 ? 1 : UINT32_C(1) << (32 - __builtin_clz(v - 1));
}

#endif
