/* SPDX-License-Identifier: BSD-3-Clause */
/* Long copies without string instructions: see mem_memcpy.h. */
#include "mem_memcpy.h"

#include "common.h"

typedef uint64_t v16 __attribute__((vector_size(16), aligned(1), may_alias));

static inline v16 load16(const uint8_t *p)
{
    return *(const v16 *)p;
}

/* Copies in steps of 64 bytes. A step loads all its bytes before it stores them, so that no step
 * waits for an earlier store. The last step overlaps the one before. */
void mem_memcpy_narrow(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t at = 0, last = len - 64;

    for (;;) {
        v16 a = load16(from + at), b = load16(from + at + 16);
        v16 c = load16(from + at + 32), d = load16(from + at + 48);

        *(v16 *)(to + at) = a;
        *(v16 *)(to + at + 16) = b;
        *(v16 *)(to + at + 32) = c;
        *(v16 *)(to + at + 48) = d;
        if (at == last)
            return;
        at = at + 64 < last ? at + 64 : last;
    }
}

#ifdef __x86_64__
typedef uint64_t v64 __attribute__((vector_size(64), aligned(1), may_alias));

#define AVX512 __attribute__((target("avx512f")))

ALWAYS_INLINE AVX512 void copy64(uint8_t *to, const uint8_t *from)
{
    *(v64 *)to = *(const v64 *)from;
}

static AVX512 void copy_avx512(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t at = 0, last = len - 256;

    for (;;) {
        copy64(to + at, from + at);
        copy64(to + at + 64, from + at + 64);
        copy64(to + at + 128, from + at + 128);
        copy64(to + at + 192, from + at + 192);
        if (at == last)
            return;
        at = at + 256 < last ? at + 256 : last;
    }
}

void mem_memcpy_long(uint8_t *to, const uint8_t *from, size_t len)
{
    if (__builtin_cpu_supports("avx512f"))
        copy_avx512(to, from, len);
    else
        mem_memcpy_narrow(to, from, len);
}

#else

void mem_memcpy_long(uint8_t *to, const uint8_t *from, size_t len)
{
    mem_memcpy_narrow(to, from, len);
}

#endif
