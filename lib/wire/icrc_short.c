/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CRC is the remainder of a polynomial. Multiplying a 128-bit piece of it by x^128 modulo the
 * CRC's polynomial, and adding the next piece, shortens it by 16 bytes in two multiplications; what
 * is left at last is reduced as Barrett's method has it. Bits are in the reflected order of CRC-32
 * all along. V. Gopal and others: "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ".
 */
#include <string.h>

#include "common.h"
#include "icrc_short.h"

/* IPv4: TOS, TTL, header checksum, UDP checksum. IPv6 and GRH: traffic class, flow label, hop
 * limit; UDP checksum. All: the byte of the BTH with FECN and BECN. */
const uint8_t icrc_mask[3][ICRC_HEAD_LEN + 16] = {
    [ICRC_IPV4] = {[1] = 0xFF, [8] = 0xFF, [10] = 0xFF, 0xFF, [26] = 0xFF, 0xFF, [32] = 0xFF},
    [ICRC_IPV6] = {[0] = 0x0F, 0xFF, 0xFF, 0xFF, [7] = 0xFF, [46] = 0xFF, 0xFF, [52] = 0xFF},
    [ICRC_GRH] = {[0] = 0x0F, 0xFF, 0xFF, 0xFF, [7] = 0xFF, [44] = 0xFF},
};

#ifdef __x86_64__
#include <immintrin.h>

/* What the CRC is after the eight bytes of ones that stand for the LRH, before it is inverted. */
#define STATE_AFTER_LRH 0xdebb20e3u

#define FOLD_HIGH  0x0ccaa009e /* x^(128-32) and x^(128+32) modulo the polynomial, reflected */
#define FOLD_LOW   0x1751997d0
#define FOLD_64    0x163cd6124 /* x^64 */
#define POLYNOMIAL 0x1db710641
#define QUOTIENT   0x1f7011641 /* x^64 divided by it */

bool icrc_short_is_fast(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx");
}

/* Shifts a register's bytes up by n, zeros coming in: the 16 bytes at position 16 - n. */
static const uint8_t shift_up[32] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15};

#define FAST static inline __attribute__((target("pclmul,avx"), always_inline))

FAST __m128i load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* 16 bytes of the packet, masked. */
FAST __m128i piece(const uint8_t *l3, const uint8_t *mask, size_t at)
{
    return _mm_or_si128(load(l3 + at), load(mask + at));
}

FAST __m128i fold(__m128i x, __m128i next)
{
    const __m128i by = _mm_set_epi64x(FOLD_HIGH, FOLD_LOW);

    return _mm_xor_si128(
        next, _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)));
}

FAST uint32_t reduce(__m128i x)
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
 * In pieces of 16 bytes, aligned at the end. The first has zeros in front for what it lacks, which
 * add nothing: the CRC's state, which belongs to the first bytes, is added before they are shifted.
 * This is the sum of the first two, which cover 20 to 32 bytes.
 */
FAST __m128i first_two(const uint8_t *mask, const uint8_t *l3, size_t lacks)
{
    __m128i x = _mm_xor_si128(piece(l3, mask, 0), _mm_cvtsi32_si128((int)STATE_AFTER_LRH));

    return fold(_mm_shuffle_epi8(x, load(shift_up + 16 - lacks)), piece(l3, mask, 16 - lacks));
}

/* And of all, which are three or more. */
FAST __m128i all(__m128i x, const uint8_t *mask, const uint8_t *l3, size_t len, size_t lacks)
{
    size_t at = 32 - lacks;

    x = fold(x, piece(l3, mask, at));
    if ((at += 16) < len)
        x = fold(x, piece(l3, mask, at));
    if ((at += 16) < len)
        x = fold(x, piece(l3, mask, at));
    for (at += 16; at < len; at += 16)
        x = fold(x, load(l3 + at));
    return x;
}

FAST __m128i sum(const uint8_t *mask, const uint8_t *l3, size_t len)
{
    size_t lacks = -len & 15;

    return all(first_two(mask, l3, lacks), mask, l3, len, lacks);
}

__attribute__((target("pclmul,avx"))) uint32_t icrc_short(enum icrc_l3 kind, const uint8_t *l3,
                                                          size_t len)
{
    return ~reduce(sum(icrc_mask[kind], l3, len));
}

__attribute__((target("pclmul,avx"))) void icrc_short_alike(enum icrc_l3 kind, size_t l3_off,
                                                            const struct frame *f, unsigned n)
{
    const uint8_t *mask = icrc_mask[kind];
    size_t len = f->len - l3_off - sizeof(uint32_t), lacks = -len & 15;
    __m128i begin = first_two(mask, f->data + l3_off, lacks);

    for (const struct frame *end = f + n; f < end; f++) {
        uint8_t *l3 = f->data + l3_off;
        uint32_t crc = ~reduce(all(begin, mask, l3, len, lacks));

        memcpy(l3 + len, &crc, sizeof(crc));
    }
}

/* So many of them, from the first on, that are short and right. */
FAST unsigned verify_short(const uint8_t *mask, const struct icrc_span *s, unsigned n)
{
    __m128i begin = _mm_setzero_si128();
    unsigned i;

    for (i = 0; i < n && s[i].size.len <= ICRC_SHORT_LEN + sizeof(uint32_t); i++) {
        size_t len = s[i].size.len - sizeof(uint32_t), lacks = -len & 15;
        uint32_t stored;

        if (!s[i].size.alike || !i)
            begin = first_two(mask, s[i].l3, lacks);
        memcpy(&stored, s[i].l3 + len, sizeof(stored));
        if (unlikely(~reduce(all(begin, mask, s[i].l3, len, lacks)) != stored))
            break;
    }
    return i;
}

__attribute__((target("pclmul,avx"))) unsigned
icrc_short_verify_run(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    unsigned i = 0;

    for (;;) {
        i += verify_short(icrc_mask[kind], s + i, n - i);
        if (i == n || s[i].size.len <= ICRC_SHORT_LEN + sizeof(uint32_t) ||
            !icrc_verify(kind, s[i].l3, s[i].size.len))
            return i;
        i++;
    }
}

#else

bool icrc_short_is_fast(void)
{
    return false;
}

uint32_t icrc_short(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    return icrc_reference(kind, l3, len);
}

void icrc_short_alike(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n)
{
}

unsigned icrc_short_verify_run(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    return 0;
}

#endif
