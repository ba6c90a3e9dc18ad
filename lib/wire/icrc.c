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
#define MASKED_MAX (40 + 8 + BTH_SIZE)

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

uint32_t icrc_compute(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    uint8_t head[MASKED_MAX];
    size_t head_len = masked_len[kind];
    uint32_t crc;

    memcpy(head, l3, head_len);
    mask_headers(kind, head);
    crc = crc32_gzip_refl(ICRC_SEED, head, head_len);
    return crc32_gzip_refl(crc, l3 + head_len, len - head_len);
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
