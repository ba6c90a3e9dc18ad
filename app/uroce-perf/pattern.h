/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents of messages that reveal every wrong byte: a stream of words made from a key that differs
 * for each message. Pure. */
#ifndef UROCE_PERF_PATTERN_H
#define UROCE_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* The key of the message with this number, of this sender, in a run with this seed. */
uint64_t pattern_key(uint64_t seed, uint32_t sender, uint32_t message);

void pattern_fill(uint8_t *bytes, size_t n, uint64_t key);

/* The offset of the first of n bytes that differs from pattern_fill's; n: all are right. */
size_t pattern_check(const uint8_t *bytes, size_t n, uint64_t key);

/* The byte at this offset of the pattern. */
uint8_t pattern_byte(size_t offset, uint64_t key);

#endif
