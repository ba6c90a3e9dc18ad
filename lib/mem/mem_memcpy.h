/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcpy for payloads. A C library's memcpy may use the string instructions, which take twice the
 * time of a loop where source and destination differ in alignment, and a packet's payload always
 * does. The last bytes are written last: an application that polls them finds the others. Pure; any
 * thread.
 */
#ifndef UROCE_MEM_MEMCPY_H
#define UROCE_MEM_MEMCPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MEM_MEMCPY_LONG 512

/* mem_memcpy of MEM_MEMCPY_LONG bytes or more. */
void mem_memcpy_long(uint8_t *to, const uint8_t *from, size_t len);
/* mem_memcpy_long as a CPU without AVX-512 executes it; for tests. */
void mem_memcpy_narrow(uint8_t *to, const uint8_t *from, size_t len);

/* Eight to sixteen bytes. Eight are stored once: a second store could come after the application
 * that polls them has seen and cleared them. */
static inline void mem_memcpy_few(uint8_t *to, const uint8_t *from, size_t len)
{
    uint64_t first, last;

    memcpy(&first, from, sizeof(first));
    memcpy(&last, from + len - sizeof(last), sizeof(last));
    memcpy(to, &first, sizeof(first));
    if (len != sizeof(first))
        memcpy(to + len - sizeof(last), &last, sizeof(last));
}

static inline bool mem_memcpy_is_few(size_t len)
{
    return len - 8 <= 8;
}

static inline void mem_memcpy(uint8_t *to, const uint8_t *from, size_t len)
{
    if (mem_memcpy_is_few(len))
        mem_memcpy_few(to, from, len);
    else if (len >= MEM_MEMCPY_LONG)
        mem_memcpy_long(to, from, len);
    else
        memcpy(to, from, len);
}

/* The first and the last n bytes, which meet or overlap; n is a constant, at most 32. */
static inline void mem_memcpy_ends(uint8_t *to, const uint8_t *from, size_t len, size_t n)
{
    uint8_t first[32], last[32];

    memcpy(first, from, n);
    memcpy(last, from + len - n, n);
    memcpy(to, first, n);
    memcpy(to + len - n, last, n);
}

/* Up to 64 bytes, for the daemon's own memory alone: some may be stored twice. */
static inline void mem_memcpy_small(uint8_t *to, const uint8_t *from, size_t len)
{
    if (len >= 32)
        mem_memcpy_ends(to, from, len, 32);
    else if (len >= 16)
        mem_memcpy_ends(to, from, len, 16);
    else if (len >= 8)
        mem_memcpy_few(to, from, len);
    else
        for (size_t i = 0; i < len; i++)
            to[i] = from[i];
}

#endif
