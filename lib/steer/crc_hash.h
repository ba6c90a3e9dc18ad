/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How switches spread flows over equal paths (ECMP, link aggregation): a hash of addresses,
 * protocol and ports, of which some bits choose the path. Switches differ in the polynomial, the
 * order of fields and the bits they take; these are plain representatives of each kind. Pure; any
 * thread.
 */
#ifndef UROCE_CRC_HASH_H
#define UROCE_CRC_HASH_H

#include <stdint.h>

#include "rss_input.h"

/* CRC-16-CCITT (x^16 + x^12 + x^5 + 1), highest bit first, continued from crc: 0 begins
 * CRC-16/XMODEM, 0xFFFF CRC-16/CCITT-FALSE. */
uint16_t crc16_ccitt(uint16_t crc, const uint8_t *data, unsigned len);

/* The CRC-32 of Ethernet and zlib, continued from the CRC of what precedes (0: nothing). */
uint32_t crc32_ieee(uint32_t crc, const uint8_t *data, unsigned len);

enum ecmp_function {
    ECMP_CRC16,
    ECMP_CRC32,
    ECMP_XOR, /* of 16-bit words */
};

/*
 * A flow's hash: of source address, destination address, source port, destination port and
 * protocol (17). seed: a switch's own number, with which the CRC begins, or which is xored in. All
 * three functions are linear: two flows whose hashes differ by some bits with one seed differ by
 * the same bits with every seed.
 */
uint32_t ecmp_hash(enum ecmp_function function, uint32_t seed, const struct rss_tuple *t);

/* Bits of the function's hash: 16 or 32. */
unsigned ecmp_width(enum ecmp_function function);

/* Path hash mod paths (which must be at least 1): the low bits, if paths is a power of two. */
static inline uint32_t ecmp_path_modulo(uint32_t hash, uint32_t paths)
{
    return hash % paths;
}

/* The path by the high bits of a hash that is width bits wide: paths equal parts of its range.
 * paths from 1 to 65536. */
static inline uint32_t ecmp_path_high(uint32_t hash, unsigned width, uint32_t paths)
{
    return (uint32_t)((uint64_t)hash * paths >> width);
}

#endif
