/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * icrc_reference: the ICRC as the specification words it, one bit at a time. It finds a byte's mask
 * by its offset, and shares no code with icrc.c, so that each can check the other.
 */
#include "icrc.h"

static uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
    for (int bit = 0; bit < 8; bit++) {
        bool feedback = (crc ^ byte) & 1;

        crc >>= 1;
        byte >>= 1;
        if (feedback)
            crc ^= UINT32_C(0xEDB88320);
    }
    return crc;
}

/* The bits of the byte at this offset from the network header that count as ones. */
static uint8_t mask_at(enum icrc_l3 kind, size_t at)
{
    size_t bth = kind == ICRC_IPV4 ? 28 : kind == ICRC_IPV6 ? 48 : 40;

    if (at == bth + 4)
        return 0xFF;
    if (kind != ICRC_GRH && (at == bth - 2 || at == bth - 1))
        return 0xFF;
    if (kind == ICRC_IPV4)
        return at == 1 || at == 8 || at == 10 || at == 11 ? 0xFF : 0;
    if (at == 0)
        return 0x0F;
    return at <= 3 || at == 7 ? 0xFF : 0;
}

uint32_t icrc_reference(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (int i = 0; i < 8; i++)
        crc = crc_byte(crc, 0xFF);
    for (size_t i = 0; i < len; i++)
        crc = crc_byte(crc, l3[i] | mask_at(kind, i));
    return ~crc;
}
