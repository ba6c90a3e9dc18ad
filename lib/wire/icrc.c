/* SPDX-License-Identifier: BSD-3-Clause */
#include <isa-l/crc.h>
#include <string.h>

#include "common.h"
#include "icrc.h"

/* The CRC-32 of the eight bytes of ones that stand for the LRH, from which everything continues. */
#define ICRC_SEED UINT32_C(0x2144df1c)

#define BTH_SIZE 12

/* Network headers and BTH that hold every masked field, by enum icrc_l3. */
static const uint8_t masked_len[] = {
    [ICRC_IPV4] = 20 + 8 + BTH_SIZE,
    [ICRC_IPV6] = 40 + 8 + BTH_SIZE,
    [ICRC_GRH] = 40 + BTH_SIZE,
};

/* How much is copied to be masked: more than has to be, but what the CRC takes in whole steps, and
 * all of a packet without payload. */
#define HEAD_LEN 64
_Static_assert(HEAD_LEN >= 40 + 8 + BTH_SIZE, "holds every masked field");

/* Traffic class, flow label and hop limit; the version's four bits stay. */
static void mask_ipv6(uint8_t *h)
{
    h[0] |= 0x0F;
    memset(h + 1, 0xFF, 3);
    h[7] = 0xFF;
}

static void mask_headers(enum icrc_l3 kind, uint8_t *h)
{
    uint8_t *bth = h + masked_len[kind] - BTH_SIZE;

    switch (kind) {
    case ICRC_IPV4:
        h[1] = 0xFF;              /* TOS */
        h[8] = 0xFF;              /* TTL */
        memset(h + 10, 0xFF, 2);  /* header checksum */
        memset(bth - 2, 0xFF, 2); /* UDP checksum */
        break;
    case ICRC_IPV6:
        mask_ipv6(h);
        memset(bth - 2, 0xFF, 2);
        break;
    case ICRC_GRH:
        mask_ipv6(h);
        break;
    }
    bth[4] = 0xFF; /* FECN, BECN, reserved */
}

/*
 * ISA-L's AVX-512 code returns with the upper parts of the vector registers in use, and until they
 * are cleared every SSE instruction of ours waits for them: 140 ns a packet here.
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

uint32_t icrc_compute(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    uint8_t head[HEAD_LEN];
    uint32_t crc;

    if (len <= HEAD_LEN) {
        memcpy(head, l3, len);
        mask_headers(kind, head);
        return crc32_gzip_refl(ICRC_SEED, head, len);
    }
    memcpy(head, l3, HEAD_LEN);
    mask_headers(kind, head);
    crc = crc32_gzip_refl(ICRC_SEED, head, HEAD_LEN);
    crc = crc32_gzip_refl(crc, l3 + HEAD_LEN, len - HEAD_LEN);
    release_vectors();
    return crc;
}

void icrc_seal(enum icrc_l3 kind, uint8_t *l3, size_t len)
{
    uint32_t crc = icrc_compute(kind, l3, len);

    memcpy(l3 + len, &crc, sizeof(crc)); /* the host is little-endian, and so is the ICRC */
}

bool icrc_verify(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    uint32_t stored;

    if (len < masked_len[kind] + sizeof(stored))
        return false;
    len -= sizeof(stored);
    memcpy(&stored, l3 + len, sizeof(stored));
#ifdef UROCE_FUZZ
    /* A fuzzer cannot guess a CRC, and what lies behind it wants fuzzing too. */
    stored = icrc_compute(kind, l3, len);
#endif
    return stored == icrc_compute(kind, l3, len);
}
