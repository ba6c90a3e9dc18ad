/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem_memcpy.h"

#include "common.h"

typedef uint64_t v16 __attribute__((vector_size(16), aligned(1), may_alias));

static inline v16 at16(const uint8_t *p)
{
    return *(const v16 *)p;
}

/* In steps of 64 bytes, loaded before they are stored: a later step may not wait for an earlier
 * store. What is left is copied by a last step that overlaps. */
void mem_memcpy_narrow(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t at = 0, last = len - 64;

    for (;;) {
        v16 a = at16(from + at), b = at16(from + at + 16);
        v16 c = at16(from + at + 32), d = at16(from + at + 48);

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

#define WIDE __attribute__((target("avx512f")))

ALWAYS_INLINE WIDE void copy_64(uint8_t *to, const uint8_t *from)
{
    *(v64 *)to = *(const v64 *)from;
}

static WIDE void copy_wide(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t at = 0, last = len - 256;

    for (;;) {
        copy_64(to + at, from + at);
        copy_64(to + at + 64, from + at + 64);
        copy_64(to + at + 128, from + at + 128);
        copy_64(to + at + 192, from + at + 192);
        if (at == last)
            return;
        at = at + 256 < last ? at + 256 : last;
    }
}

void mem_memcpy_long(uint8_t *to, const uint8_t *from, size_t len)
{
    if (__builtin_cpu_supports("avx512f"))
        copy_wide(to, from, len);
    else
        mem_memcpy_narrow(to, from, len);
}

#else

void mem_memcpy_long(uint8_t *to, const uint8_t *from, size_t len)
{
    mem_memcpy_narrow(to, from, len);
}

#endif
