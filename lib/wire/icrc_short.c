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

/* How many packets, from the first one on, begin like it, have its length and the right ICRC. */
CLMUL_INLINE unsigned verify_run(enum icrc_l3 kind, const struct unlike *u,
                                 const struct icrc_span *s, unsigned n, unsigned pieces)
{
    uint32_t len = s->len, stored;
    unsigned i = 0;

    do {
        const uint8_t *l3 = s[i].bth - icrc_headers(kind);

        memcpy(&stored, l3 + len - sizeof(stored), sizeof(stored));
        if (unlikely(~reduce(fold_unlike(kind, u, l3, pieces)) != stored))
            break;
    } while (++i < n && s[i].alike && s[i].len == len);
    return i;
}

CLMUL_INLINE unsigned verify_run_of(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    struct unlike u =
        unlike_of(kind, s->bth - icrc_headers(kind), s->len - (uint32_t)sizeof(uint32_t));

    switch (u.pieces) {
    case 1:
        return verify_run(kind, &u, s, n, 1);
    case 2:
        return verify_run(kind, &u, s, n, 2);
    case 3:
        return verify_run(kind, &u, s, n, 3);
    default:
        return verify_run(kind, &u, s, n, u.pieces);
    }
}

/* How many packets, from the first one on, are short and have the right ICRC. Inlined for kinds
 * that are constants. */
CLMUL_INLINE unsigned verify_short_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    unsigned i = 0, right = 1;

    while (i < n && right && s[i].len <= ICRC_SHORT_LEN + sizeof(uint32_t)) {
        right = verify_run_of(kind, s + i, n - i);
        i += right;
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

CLMUL_INLINE void seal_run(enum icrc_l3 kind, const struct unlike *u, size_t l3_off,
                           const struct frame *f, unsigned n, unsigned pieces)
{
    size_t at = f->len - sizeof(uint32_t);

    for (const struct frame *end = f + n; f < end; f++) {
        uint32_t crc = ~reduce(fold_unlike(kind, u, f->data + l3_off, pieces));

        memcpy(f->data + at, &crc, sizeof(crc));
    }
}

CLMUL_INLINE void seal_short_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f,
                                   unsigned n)
{
    struct unlike u = unlike_of(kind, f->data + l3_off, f->len - l3_off - sizeof(uint32_t));

    switch (u.pieces) {
    case 1:
        seal_run(kind, &u, l3_off, f, n, 1);
        break;
    case 2:
        seal_run(kind, &u, l3_off, f, n, 2);
        break;
    case 3:
        seal_run(kind, &u, l3_off, f, n, 3);
        break;
    default:
        seal_run(kind, &u, l3_off, f, n, u.pieces);
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
