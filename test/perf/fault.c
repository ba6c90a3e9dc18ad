/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into a uroce-perf for tests: one byte in the middle of its FAULT_AT-th message differs
 * from what verification expects. */
#include "pattern.h"

#define FAULT_AT 100

void __real_pattern_fill(uint8_t *bytes, size_t n, uint64_t key);
void __wrap_pattern_fill(uint8_t *bytes, size_t n, uint64_t key);

void __wrap_pattern_fill(uint8_t *bytes, size_t n, uint64_t key)
{
    static _Atomic unsigned calls;

    __real_pattern_fill(bytes, n, key);
    if (++calls == FAULT_AT)
        bytes[n / 2] ^= 0x10;
}
