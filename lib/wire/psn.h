/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Packet sequence numbers: 24-bit serial numbers in a type of their own, so that no plain
 * `<` can be applied to them (volume 1, 9.7.2). All values are reduced to 24 bits. Any thread.
 */
#ifndef UROCE_PSN_H
#define UROCE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK UINT32_C(0xFFFFFF) /**< The bits of a PSN. */

/** A PSN; its functions keep v below 2^24. */
typedef struct {
    uint32_t v; /**< The number. */
} psn_t;

/**
 * Make a PSN of a number.
 *
 * @param v  Any number.
 * @return  v modulo 2^24.
 */
static inline psn_t psn(uint32_t v)
{
    return (psn_t){v & PSN_MASK};
}

/**
 * Move a PSN forward.
 *
 * @param a  The PSN.
 * @param n  By how many; modulo 2^24, so that UINT32_MAX is one back.
 * @return  a + n.
 */
static inline psn_t psn_add(psn_t a, uint32_t n)
{
    return psn(a.v + n);
}

/**
 * The PSN before another.
 *
 * @param a  The PSN.
 * @return  a - 1.
 */
static inline psn_t psn_prev(psn_t a)
{
    return psn(a.v - 1);
}

/**
 * The distance from one PSN to another.
 *
 * @param a  The PSN to go to.
 * @param b  The PSN to come from.
 * @return  a - b, from -2^23 to 2^23 - 1; negative when a is before b.
 */
static inline int32_t psn_diff(psn_t a, psn_t b)
{
    return (int32_t)((a.v - b.v) << 8) >> 8;
}

/**
 * Whether two PSNs are the same.
 *
 * @param a  A PSN.
 * @param b  Another.
 * @return  True when they are equal.
 */
static inline bool psn_eq(psn_t a, psn_t b)
{
    return a.v == b.v;
}

/**
 * Whether a PSN comes before another in serial order.
 *
 * @param a  The PSN.
 * @param b  The other.
 * @return  True when psn_diff(a, b) is negative.
 */
static inline bool psn_before(psn_t a, psn_t b)
{
    return psn_diff(a, b) < 0;
}

/**
 * Whether a PSN is in a range, in serial order.
 *
 * @param a  The PSN.
 * @param first  The first PSN of the range.
 * @param last  The last one, less than 2^23 after the first.
 * @return  True for first <= a <= last.
 */
static inline bool psn_within(psn_t a, psn_t first, psn_t last)
{
    return psn_diff(a, first) >= 0 && psn_diff(last, a) >= 0;
}

#endif
