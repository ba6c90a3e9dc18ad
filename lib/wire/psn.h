/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet sequence numbers: 24-bit serial numbers in a type of their own, so that no plain
 * `<` can be applied to them (volume 1, 9.7.2). All values are reduced to 24 bits.
 */
#ifndef UROCE_PSN_H
#define UROCE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK UINT32_C(0xFFFFFF)

typedef struct {
    uint32_t v;
} psn_t;

static inline psn_t psn(uint32_t v)
{
    return (psn_t){v & PSN_MASK};
}

static inline psn_t psn_add(psn_t a, uint32_t n)
{
    return psn(a.v + n);
}

static inline psn_t psn_prev(psn_t a)
{
    return psn(a.v - 1);
}

/* Signed distance a - b, from -2^23 to 2^23 - 1. */
static inline int32_t psn_diff(psn_t a, psn_t b)
{
    return (int32_t)((a.v - b.v) << 8) >> 8;
}

static inline bool psn_eq(psn_t a, psn_t b)
{
    return a.v == b.v;
}

static inline bool psn_before(psn_t a, psn_t b)
{
    return psn_diff(a, b) < 0;
}

/* first <= a <= last in serial order. */
static inline bool psn_within(psn_t a, psn_t first, psn_t last)
{
    return psn_diff(a, first) >= 0 && psn_diff(last, a) >= 0;
}

#endif
