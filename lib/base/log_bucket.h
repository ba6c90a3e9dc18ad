/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets that grow with their values: exact below 2^bits, and above that 2^bits buckets for each
 * power of two, so that the relative error is at most 1 / 2^bits.
 */
#ifndef UROCE_LOG_BUCKET_H
#define UROCE_LOG_BUCKET_H

#include "common.h"

/* How many buckets values below 2^value_bits need. */
#define LOG_BUCKETS(bits, value_bits) (((value_bits) - (bits) + 1) << (bits))

static inline unsigned log_bucket(unsigned bits, uint64_t value)
{
    unsigned shift = value >> bits ? 63 - bits - (unsigned)__builtin_clzll(value) : 0;

    return (shift << bits) + (unsigned)(value >> shift);
}

/* The largest value of a bucket. */
static inline uint64_t log_bucket_end(unsigned bits, unsigned index)
{
    unsigned shift = index >> bits ? (index >> bits) - 1 : 0;
    uint64_t first = (uint64_t)index - ((uint64_t)shift << bits);

    return (first << shift) + ((UINT64_C(1) << shift) - 1);
}

#endif
