/* SPDX-License-Identifier: BSD-3-Clause */
/* The hashes of switches: see crc_hash.h. */
#include "crc_hash.h"

#include "bytes.h"
#include "encap_layout.h"

#define ECMP_INPUT_MAX (RSS_INPUT_MAX + 2)

uint16_t crc16_ccitt(uint16_t crc, const uint8_t *data, unsigned len)
{
    for (unsigned i = 0; i < len; i++) {
        crc ^= (uint16_t)(data[i] << 8);
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0));
    }
    return crc;
}

uint32_t crc32_ethernet(uint32_t crc, const uint8_t *data, unsigned len)
{
    crc = ~crc;
    for (unsigned i = 0; i < len; i++) {
        crc ^= data[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

/* The 5-tuple. The protocol is a 16-bit word, so that ECMP_XOR includes it. */
static unsigned ecmp_input(uint8_t out[ECMP_INPUT_MAX], const struct rss_tuple *t)
{
    unsigned len = rss_input(out, t, RSS_ALL);

    put_be16(out + len, IP_PROTO_UDP);
    return len + 2;
}

uint32_t ecmp_hash(enum ecmp_function function, uint32_t seed, const struct rss_tuple *t)
{
    uint8_t input[ECMP_INPUT_MAX];
    unsigned len = ecmp_input(input, t);

    switch (function) {
    case ECMP_CRC16:
        return crc16_ccitt((uint16_t)seed, input, len);
    case ECMP_CRC32:
        return crc32_ethernet(seed, input, len);
    case ECMP_XOR:
        break;
    }
    return (uint16_t)(rss_xor(input, len) ^ seed);
}

unsigned ecmp_width(enum ecmp_function function)
{
    return function == ECMP_CRC32 ? 32 : 16;
}
