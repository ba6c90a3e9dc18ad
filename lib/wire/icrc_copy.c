/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * icrc_seal_copy: copies a payload into its packet and computes the ICRC in one pass. Each byte is
 * loaded once, and stored from the register that is multiplied. A copy and a second pass take about
 * twice as long, from the cache as well as from memory.
 */
#include <string.h>

#include "common.h"
#include "icrc_short.h"

/* Copies and pads the payload, then computes the ICRC of the copy. */
static void copy_then_seal(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                           size_t len)
{
    size_t pad = -len & 3;

    memcpy(l3 + head_len, from, len);
    memset(l3 + head_len + len, 0, pad);
    icrc_seal(kind, l3, head_len + len + pad);
}

#ifdef __x86_64__
#include "icrc_fold.h"

/* For steps of 64 and 256 bytes: x^(n-32) and x^(n+32) modulo the polynomial, reflected. */
#define STEP_64_HIGH  0x1c6e41596
#define STEP_64_LOW   0x154442bd4
#define STEP_256_HIGH 0x1322d1430
#define STEP_256_LOW  0x11542778a

CLMUL_INLINE __m128i fold_with(__m128i x, __m128i next, __m128i by)
{
    return _mm_xor_si128(
        next, _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)));
}

/* Copies 16 bytes and returns them. */
CLMUL_INLINE __m128i copy16(uint8_t *to, const uint8_t *from)
{
    __m128i x = load16(from);

    _mm_storeu_si128((__m128i *)(void *)to, x);
    return x;
}

/* Copies and folds len bytes, a multiple of 64, as four interleaved streams of 16-byte pieces.
 * x: the fold of the bytes before. */
__attribute__((target("pclmul,avx"))) static __m128i copy_fold_128(__m128i x, uint8_t *to,
                                                                   const uint8_t *from, size_t len)
{
    const __m128i by = _mm_set_epi64x(STEP_64_HIGH, STEP_64_LOW);
    __m128i a = fold(x, copy16(to, from)), b = copy16(to + 16, from + 16);
    __m128i c = copy16(to + 32, from + 32), d = copy16(to + 48, from + 48);

    for (size_t at = 64; at < len; at += 64) {
        a = fold_with(a, copy16(to + at, from + at), by);
        b = fold_with(b, copy16(to + at + 16, from + at + 16), by);
        c = fold_with(c, copy16(to + at + 32, from + at + 32), by);
        d = fold_with(d, copy16(to + at + 48, from + at + 48), by);
    }
    return fold(fold(fold(a, b), c), d);
}

#define AVX512 __attribute__((target("avx512f,vpclmulqdq,pclmul,avx")))

ALWAYS_INLINE AVX512 __m512i copy64(uint8_t *to, const uint8_t *from)
{
    __m512i x = _mm512_loadu_si512(from);

    _mm512_storeu_si512(to, x);
    return x;
}

ALWAYS_INLINE AVX512 __m512i fold64(__m512i x, __m512i next, __m512i by)
{
    return _mm512_ternarylogic_epi64(next, _mm512_clmulepi64_epi128(x, by, 0x00),
                                     _mm512_clmulepi64_epi128(x, by, 0x11), 0x96); /* xor */
}

/* The same, for a multiple of 256, with registers four times as wide. */
static AVX512 __m128i copy_fold_512(__m128i x, uint8_t *to, const uint8_t *from, size_t len)
{
    __m512i by = _mm512_broadcast_i32x4(_mm_set_epi64x(STEP_256_HIGH, STEP_256_LOW));
    __m512i a = copy64(to, from), b = copy64(to + 64, from + 64);
    __m512i c = copy64(to + 128, from + 128), d = copy64(to + 192, from + 192);

    /* To fold x with zeros advances it by 16 bytes. */
    a = _mm512_xor_si512(a, _mm512_zextsi128_si512(fold(x, _mm_setzero_si128())));
    for (size_t at = 256; at < len; at += 256) {
        a = fold64(a, copy64(to + at, from + at), by);
        b = fold64(b, copy64(to + at + 64, from + at + 64), by);
        c = fold64(c, copy64(to + at + 128, from + at + 128), by);
        d = fold64(d, copy64(to + at + 192, from + at + 192), by);
    }
    by = _mm512_broadcast_i32x4(_mm_set_epi64x(STEP_64_HIGH, STEP_64_LOW));
    d = fold64(fold64(fold64(a, b, by), c, by), d, by);
    x = fold(_mm512_castsi512_si128(d), _mm512_extracti32x4_epi32(d, 1));
    return fold(fold(x, _mm512_extracti32x4_epi32(d, 2)), _mm512_extracti32x4_epi32(d, 3));
}

typedef __m128i copy_fold_fn(__m128i x, uint8_t *to, const uint8_t *from, size_t len);

/* First the headers and the payload's length modulo 256, like a short packet; then the rest of the
 * payload, a multiple of 256. */
__attribute__((target("pclmul,avx"))) static void copy_and_seal(enum icrc_l3 kind, uint8_t *l3,
                                                                size_t head_len,
                                                                const uint8_t *from, size_t len,
                                                                copy_fold_fn *copy_fold)
{
    size_t head_payload = len & 255, folded_len = head_len + head_payload;
    uint32_t crc;
    __m128i x;

    memcpy(l3 + head_len, from, head_payload);
    x = fold_all(icrc_mask[kind], l3, folded_len);
    x = copy_fold(x, l3 + folded_len, from + head_payload, len - head_payload);
    crc = ~reduce(x);
    memcpy(l3 + head_len + len, &crc, sizeof(crc));
}

void icrc_seal_copy(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                    size_t len)
{
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");

    if (len < ICRC_COPY_LEN || (len & 3) || !icrc_short_is_fast())
        copy_then_seal(kind, l3, head_len, from, len);
    else
        copy_and_seal(kind, l3, head_len, from, len, wide ? copy_fold_512 : copy_fold_128);
}

void icrc_seal_copy_narrow(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                           size_t len)
{
    if (len < ICRC_COPY_LEN || (len & 3) || !icrc_short_is_fast())
        copy_then_seal(kind, l3, head_len, from, len);
    else
        copy_and_seal(kind, l3, head_len, from, len, copy_fold_128);
}

#else

void icrc_seal_copy_narrow(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                           size_t len)
{
    copy_then_seal(kind, l3, head_len, from, len);
}

void icrc_seal_copy(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                    size_t len)
{
    copy_then_seal(kind, l3, head_len, from, len);
}

#endif

bool icrc_verify_copy(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                      size_t len)
{
    size_t payload = len - sizeof(uint32_t);
    uint8_t *end = l3 + head_len + payload;
    bool right;

    icrc_seal_copy(kind, l3, head_len, from, payload);
    right = !memcmp(end, from + payload, sizeof(uint32_t));
    memcpy(end, from + payload, sizeof(uint32_t));
#ifdef UROCE_FUZZ
    right = true; /* as in icrc_verify */
#endif
    return right;
}
