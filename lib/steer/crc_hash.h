/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How switches spread flows over equal paths (ECMP, link aggregation): some bits of a hash of
 * addresses, protocol and ports choose the path. Switches differ in the polynomial, the
 * order of fields and the bits they take; these are plain representatives of each kind. Pure; any
 * thread.
 */
#ifndef UROCE_CRC_HASH_H
#define UROCE_CRC_HASH_H

#include <stdint.h>

#include "rss_input.h"

/**
 * CRC-16-CCITT (x^16 + x^12 + x^5 + 1), highest bit first.
 *
 * @param crc  The CRC of what precedes; 0 begins CRC-16/XMODEM, 0xFFFF CRC-16/CCITT-FALSE.
 * @param data  The bytes.
 * @param len  How many.
 * @return  The CRC with these bytes behind.
 */
uint16_t crc16_ccitt(uint16_t crc, const uint8_t *data, unsigned len);

/**
 * The CRC-32 of Ethernet and zlib.
 *
 * @param crc  The CRC of what precedes; 0: nothing does.
 * @param data  The bytes.
 * @param len  How many.
 * @return  The CRC with these bytes behind.
 */
uint32_t crc32_ethernet(uint32_t crc, const uint8_t *data, unsigned len);

/** The hashes. */
enum ecmp_function {
    ECMP_CRC16,
    ECMP_CRC32,
    ECMP_XOR, /**< of 16-bit words */
};

/**
 * Hash a flow: source address, destination address, source port, destination port and protocol
 * (17). All three functions are linear: two flows whose hashes differ by some bits with one seed
 * differ by the same bits with every seed.
 *
 * @param function  The hash.
 * @param seed  A switch's own number, with which the CRC begins, or which is xored in.
 * @param t  The flow's addresses and ports.
 * @return  The hash, ecmp_width() bits.
 */
uint32_t ecmp_hash(enum ecmp_function function, uint32_t seed, const struct rss_tuple *t);

/**
 * The width of a function's hash.
 *
 * @param function  The hash.
 * @return  16 or 32 bits.
 */
unsigned ecmp_width(enum ecmp_function function);

/**
 * The path by the low bits of a hash.
 *
 * @param hash  The hash.
 * @param paths  How many there are, at least 1.
 * @return  hash modulo paths.
 */
static inline uint32_t ecmp_path_modulo(uint32_t hash, uint32_t paths)
{
    return hash % paths;
}

/**
 * The path by the high bits of a hash: paths equal parts of its range.
 *
 * @param hash  The hash.
 * @param width  Its width in bits.
 * @param paths  How many there are, 1 to 65536.
 * @return  The path, less than paths.
 */
static inline uint32_t ecmp_path_high(uint32_t hash, unsigned width, uint32_t paths)
{
    return (uint32_t)((uint64_t)hash * paths >> width);
}

#endif
