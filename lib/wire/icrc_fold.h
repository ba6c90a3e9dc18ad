/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC by carry-less multiplication, private to lib/wire, x86: a CRC is the remainder of a
 * polynomial. Multiplying a 128-bit piece of the polynomial by x^128 modulo the CRC's polynomial,
 * and adding the next piece, shortens it by 16 bytes with two multiplications. Barrett's method
 * reduces the last piece. Bits are in the reflected order of CRC-32 throughout. V. Gopal and
 * others: "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ".
 */
#ifndef UROCE_ICRC_FOLD_H
#define UROCE_ICRC_FOLD_H

#include <immintrin.h>

#include "common.h"
#include "icrc_short.h"

/* The CRC after the eight bytes of ones that stand for the LRH, not inverted. */
#define STATE_AFTER_LRH 0xdebb20e3u

#define FOLD_HIGH  0x0ccaa009e /* x^(128-32) and x^(128+32) modulo the polynomial, reflected */
#define FOLD_LOW   0x1751997d0
#define FOLD_64    0x163cd6124 /* x^64 */
#define POLYNOMIAL 0x1db710641
#define QUOTIENT   0x1f7011641 /* x^64 divided by it */

/* The 16 bytes at position 16 - n are a shuffle that shifts a register's bytes up by n and fills
 * with zeros. */
static const uint8_t shift_up[32] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15};

#define CLMUL_INLINE ALWAYS_INLINE __attribute__((target("pclmul,avx")))

CLMUL_INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* 16 bytes of the packet, with the masked bits as ones. */
CLMUL_INLINE __m128i load_masked(const uint8_t *l3, const uint8_t *mask, size_t at)
{
    return _mm_or_si128(load16(l3 + at), load16(mask + at));
}

CLMUL_INLINE __m128i fold(__m128i x, __m128i next)
{
    const __m128i by = _mm_set_epi64x(FOLD_HIGH, FOLD_LOW);

    return _mm_xor_si128(
        next, _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)));
}

CLMUL_INLINE uint32_t reduce(__m128i x)
{
    const __m128i by = _mm_set_epi64x(FOLD_HIGH, FOLD_LOW), low = _mm_set_epi32(0, -1, 0, -1);
    const __m128i barrett = _mm_set_epi64x(QUOTIENT, POLYNOMIAL);
    __m128i t;

    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, by, 0x10));
    t = _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_set_epi64x(0, FOLD_64), 0x00);
    x = _mm_xor_si128(_mm_srli_si128(x, 4), t);
    t = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low), barrett, 0x10), low);
    x = _mm_xor_si128(x, _mm_clmulepi64_si128(t, barrett, 0x00));
    return (uint32_t)_mm_extract_epi32(x, 1);
}

/*
 * A packet is folded in pieces of 16 bytes that are aligned to its end. The first piece is
 * `missing` bytes short and starts with as many zeros, which do not change the result; the CRC's
 * initial state belongs to the packet's first bytes and is added before they are shifted. Returns
 * the fold of the first two pieces, which cover 20 to 32 bytes.
 */
CLMUL_INLINE __m128i fold_first_two(const uint8_t *mask, const uint8_t *l3, size_t missing)
{
    __m128i x = _mm_xor_si128(load_masked(l3, mask, 0), _mm_cvtsi32_si128((int)STATE_AFTER_LRH));

    return fold(_mm_shuffle_epi8(x, load16(shift_up + 16 - missing)),
                load_masked(l3, mask, 16 - missing));
}

/* Folds the remaining pieces, at least one, into x. */
CLMUL_INLINE __m128i fold_rest(__m128i x, const uint8_t *mask, const uint8_t *l3, size_t len,
                               size_t missing)
{
    size_t at = 32 - missing;

    x = fold(x, load_masked(l3, mask, at));
    if ((at += 16) < len)
        x = fold(x, load_masked(l3, mask, at));
    if ((at += 16) < len)
        x = fold(x, load_masked(l3, mask, at));
    for (at += 16; at < len; at += 16)
        x = fold(x, load16(l3 + at));
    return x;
}

/*
 * The same of packets that are alike, in two parts: what begins all of them, up to the BTH's P_Key,
 * and the rest. Behind an IPv6 header more pieces begin alike, and the last masked byte, which
 * follows the P_Key, is in the first piece of the rest.
 */
CLMUL_INLINE size_t pieces_alike(enum icrc_l3 kind, size_t missing)
{
    return kind == ICRC_IPV6 ? (icrc_headers(ICRC_IPV6) + 4 + missing) / 16 : 2;
}

CLMUL_INLINE __m128i fold_alike(enum icrc_l3 kind, const uint8_t *l3, size_t missing)
{
    const uint8_t *mask = icrc_mask[kind];
    __m128i x = fold_first_two(mask, l3, missing);

    for (size_t i = 2; i < pieces_alike(kind, missing); i++)
        x = fold(x, load_masked(l3, mask, 16 * i - missing));
    return x;
}

/* What is the same for all of them: the fold of the first part, where the rest begins, in how many
 * pieces it is, at least one, and the mask of the first of these. */
struct unlike {
    __m128i begin, mask;
    size_t at;
    unsigned pieces;
};

CLMUL_INLINE struct unlike unlike_of(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    size_t missing = -len & 15, at = 16 * pieces_alike(kind, missing) - missing;

    return (struct unlike){fold_alike(kind, l3, missing), load16(icrc_mask[kind] + at), at,
                           (unsigned)(len - at) / 16};
}

/* Of one that has `pieces`: a constant, which saves a comparison for each. Only a GRH has masked
 * bits in the second piece. */
CLMUL_INLINE __m128i fold_unlike(enum icrc_l3 kind, const struct unlike *u, const uint8_t *l3,
                                 unsigned pieces)
{
    const uint8_t *rest = l3 + u->at;
    __m128i x = fold(u->begin, _mm_or_si128(load16(rest), u->mask));

    if (pieces > 1)
        x = fold(x, kind == ICRC_GRH ? load_masked(l3, icrc_mask[kind], u->at + 16)
                                     : load16(rest + 16));
    if (pieces > 2)
        x = fold(x, load16(rest + 32));
    for (unsigned i = 3; i < pieces; i++)
        x = fold(x, load16(rest + 16 * (size_t)i));
    return x;
}

CLMUL_INLINE __m128i fold_all(const uint8_t *mask, const uint8_t *l3, size_t len)
{
    size_t missing = -len & 15;

    return fold_rest(fold_first_two(mask, l3, missing), mask, l3, len, missing);
}

#endif
