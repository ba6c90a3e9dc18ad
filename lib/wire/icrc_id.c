/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See icrc_id.h. Polynomials over GF(2) modulo the CRC's, in 32 bits; the highest bit is the
 * coefficient of 1. A difference d in two neighbouring bytes, as a polynomial of degree below 16,
 * with n bytes behind them changes the CRC by d * x^(32 + 8n). x has the order 2^32 - 1, as the
 * polynomial is primitive, so that this can be undone by a multiplication.
 */
#include "icrc_id.h"

#include "bytes.h"
#include "icrc.h"

#define POLYNOMIAL 0xEDB88320u
#define ONE        0x80000000u
#define ID_AT      4
#define FLAGS_AT   6
#define FLAG_DF    0x40

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = ONE; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* x to the power n. */
static uint32_t power(uint32_t n)
{
    uint32_t square = ONE >> 1, result = ONE;

    for (; n; n >>= 1) {
        if (n & 1)
            result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

bool icrc_find_id(uint8_t *ip, size_t len)
{
    size_t covered = len - 4;
    uint32_t stored =
        __builtin_bswap32(get_be32(ip + covered)); /* the least significant byte first */
    uint32_t change = icrc_compute(ICRC_IPV4, ip, covered) ^ stored;
    uint32_t behind_id = 8 * (uint32_t)(covered - ID_AT - 2);
    uint32_t undo = power(UINT32_MAX - 16 - behind_id);
    uint32_t d = multiply(change, undo);

    /* The lowest 16 bits are d * x^16, the first byte lowest; a difference of others has none. */
    if (d > 0xFFFF) {
        d = multiply(change ^ multiply(FLAG_DF, power(behind_id)), undo);
        if (d > 0xFFFF)
            return false;
        ip[FLAGS_AT] ^= FLAG_DF;
    }
    ip[ID_AT] ^= (uint8_t)d;
    ip[ID_AT + 1] ^= (uint8_t)(d >> 8);
    return true;
}
