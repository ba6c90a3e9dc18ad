/* SPDX-License-Identifier: BSD-3-Clause */
/* The masked bits, and the ICRC of short packets: see icrc_short.h. */
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
#include "icrc_fold.h"

bool icrc_short_is_fast(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx");
}

__attribute__((target("pclmul,avx"))) uint32_t icrc_short(enum icrc_l3 kind, const uint8_t *l3,
                                                          size_t len)
{
    return ~reduce(fold_all(icrc_mask[kind], l3, len));
}

/* How many packets, from the first one on, are short and have the right ICRC. Inlined for kinds
 * that are constants. */
CLMUL_INLINE unsigned verify_short_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    __m128i begin = _mm_setzero_si128();
    unsigned i;

    for (i = 0; i < n && s[i].len <= ICRC_SHORT_LEN + sizeof(uint32_t); i++) {
        size_t len = s[i].len - sizeof(uint32_t), missing = -len & 15;
        const uint8_t *l3 = s[i].bth - icrc_headers(kind);
        uint32_t stored;

        if (!s[i].alike)
            begin = fold_alike(kind, l3, missing);
        memcpy(&stored, l3 + len, sizeof(stored));
        if (unlikely(~reduce(fold_unlike(kind, begin, l3, len, missing)) != stored))
            break;
    }
    return i;
}

__attribute__((target("pclmul,avx"), noinline)) static unsigned
verify_long_headers(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    return kind == ICRC_IPV6 ? verify_short_batch(ICRC_IPV6, s, n)
                             : verify_short_batch(ICRC_GRH, s, n);
}

__attribute__((target("pclmul,avx"))) unsigned
icrc_short_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    unsigned i = 0;

    for (;;) {
        i += likely(kind == ICRC_IPV4) ? verify_short_batch(ICRC_IPV4, s + i, n - i)
                                       : verify_long_headers(kind, s + i, n - i);
        if (i == n || !icrc_verify(kind, s[i].bth - icrc_headers(kind), s[i].len))
            return i;
        i++;
    }
}

CLMUL_INLINE void seal_short_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f,
                                   unsigned n)
{
    size_t len = f->len - l3_off - sizeof(uint32_t), missing = -len & 15;
    __m128i begin = fold_alike(kind, f->data + l3_off, missing);

    for (const struct frame *end = f + n; f < end; f++) {
        uint8_t *l3 = f->data + l3_off;
        uint32_t crc = ~reduce(fold_unlike(kind, begin, l3, len, missing));

        memcpy(l3 + len, &crc, sizeof(crc));
    }
}

__attribute__((target("pclmul,avx"))) void icrc_short_seal_batch(enum icrc_l3 kind, size_t l3_off,
                                                                 const struct frame *f, unsigned n)
{
    if (likely(kind == ICRC_IPV4))
        seal_short_batch(ICRC_IPV4, l3_off, f, n);
    else if (kind == ICRC_IPV6)
        seal_short_batch(ICRC_IPV6, l3_off, f, n);
    else
        seal_short_batch(ICRC_GRH, l3_off, f, n);
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

unsigned icrc_short_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    return 0;
}

void icrc_short_seal_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n)
{
}

#endif
