/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC: see icrc.h. Short packets by icrc_short.c, the rest of long ones by ISA-L. */
#include <isa-l/crc.h>
#include <string.h>

#include "common.h"
#include "icrc_short.h"

/* The CRC-32 of the eight bytes of ones that stand for the LRH. */
#define ICRC_SEED UINT32_C(0x2144df1c)

#define BTH_SIZE 12

/* Not inlined, so that its callers have no array, whose stack the compiler would have to check. */
static __attribute__((noinline)) uint32_t head_crc(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    uint8_t head[ICRC_HEAD_LEN];

    memcpy(head, l3, len);
    for (size_t i = 0; i < len; i++)
        head[i] |= icrc_mask[kind][i];
    return crc32_gzip_refl(ICRC_SEED, head, len);
}

/*
 * ISA-L's AVX-512 code returns with the upper parts of the vector registers in use. Until they are
 * cleared, each of our SSE instructions waits for them: 140 ns a packet.
 */
static void release_vectors(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                               "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                               "xmm15");
#endif
}

static inline uint32_t compute_icrc(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    bool fast = icrc_short_is_fast();
    uint32_t crc;

    if (likely(fast && len <= ICRC_SHORT_LEN && !(len & 3)))
        return icrc_short(kind, l3, len);
    if (len <= ICRC_HEAD_LEN)
        return head_crc(kind, l3, len);
    crc = fast ? icrc_short(kind, l3, ICRC_HEAD_LEN) : head_crc(kind, l3, ICRC_HEAD_LEN);
    crc = crc32_gzip_refl(crc, l3 + ICRC_HEAD_LEN, len - ICRC_HEAD_LEN);
    release_vectors();
    return crc;
}

uint32_t icrc_compute(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    return compute_icrc(kind, l3, len);
}

void icrc_seal(enum icrc_l3 kind, uint8_t *l3, size_t len)
{
    uint32_t crc = compute_icrc(kind, l3, len);

    memcpy(l3 + len, &crc, sizeof(crc)); /* the host is little-endian, and so is the ICRC */
}

void icrc_seal_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n)
{
    size_t len = f->len - l3_off - sizeof(uint32_t);

    if (likely(icrc_short_is_fast() && len <= ICRC_SHORT_LEN)) {
        icrc_short_seal_batch(kind, l3_off, f, n);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        icrc_seal(kind, f[i].data + l3_off, len);
}

bool icrc_verify(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    uint32_t stored;

    if (len < icrc_headers(kind) + BTH_SIZE + sizeof(stored)) /* with all masked fields */
        return false;
    len -= sizeof(stored);
    memcpy(&stored, l3 + len, sizeof(stored));
#ifdef UROCE_FUZZ
    /* A fuzzer cannot guess a CRC: without this it would not reach the code behind the check. */
    stored = icrc_compute(kind, l3, len);
#endif
    return stored == compute_icrc(kind, l3, len);
}

unsigned icrc_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n)
{
    unsigned i = 0;

#ifndef UROCE_FUZZ
    if (likely(icrc_short_is_fast()))
        return icrc_short_verify_batch(kind, s, n);
#endif
    while (i < n && icrc_verify(kind, s[i].bth - icrc_headers(kind), s[i].len))
        i++;
    return i;
}
