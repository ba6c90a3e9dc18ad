/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Secret permutations of small numbers: tables count their slots up, and what the outside sees is
 * the permuted number, which tells neither the slot nor the next number. A Feistel network, which
 * is invertible whatever its round function is. Pure functions; any thread.
 */
#ifndef UROCE_PERMUTE_H
#define UROCE_PERMUTE_H

#include "common.h"

#define PERMUTE_ROUNDS 4

/* One round's pseudo-random function of half a number. */
ALWAYS_INLINE uint32_t permute_round(const uint64_t secret[2], unsigned half_bits, unsigned round,
                                     uint32_t half)
{
    uint64_t x = (round + 1) << half_bits | half;

    x = (x ^ secret[round & 1]) * UINT64_C(0xd1342543de82ef95);
    x ^= x >> 32;
    x = (x ^ secret[~round & 1]) * UINT64_C(0xaf251af3b0f025b5);
    return (uint32_t)(x >> (64 - half_bits));
}

/* Permutes the numbers of 2 * half_bits bits. */
ALWAYS_INLINE uint32_t permute_bits(const uint64_t secret[2], unsigned half_bits, uint32_t number)
{
    uint32_t left = number >> half_bits, right = number & ((1u << half_bits) - 1);

    for (unsigned round = 0; round < PERMUTE_ROUNDS; round++) {
        uint32_t swap = right;

        right = left ^ permute_round(secret, half_bits, round, right);
        left = swap;
    }
    return left << half_bits | right;
}

/* The inverse. */
ALWAYS_INLINE uint32_t unpermute_bits(const uint64_t secret[2], unsigned half_bits, uint32_t number)
{
    uint32_t left = number >> half_bits, right = number & ((1u << half_bits) - 1);

    for (unsigned round = PERMUTE_ROUNDS; round-- > 0;) {
        uint32_t swap = left;

        left = right ^ permute_round(secret, half_bits, round, left);
        right = swap;
    }
    return left << half_bits | right;
}

/* A permutation of the numbers below `size`. */
struct permutation {
    uint64_t secret[2];
    uint32_t size;
    unsigned half_bits; /* 0: every number stays as it is */
};

/* size: from 1 to 2^31. secret: from getrandom(2), or a seed in tests; NULL or zeros: the numbers
 * stay as they are. */
static inline void permutation_init(struct permutation *p, uint32_t size, const uint64_t secret[2])
{
    unsigned bits = (unsigned)__builtin_ctz(pow2_at_least(size));

    *p = (struct permutation){.size = size};
    if (!secret || !(secret[0] | secret[1]))
        return;
    p->secret[0] = secret[0];
    p->secret[1] = secret[1];
    p->half_bits = max_of((bits + 1) / 2, 1u);
}

/* number: less than the size. The network permutes a power of 4; from a number that is too large it
 * goes on to the next of the cycle, at most four times on average. */
static inline uint32_t permute(const struct permutation *p, uint32_t number)
{
    if (p->half_bits)
        do
            number = permute_bits(p->secret, p->half_bits, number);
        while (number >= p->size);
    return number;
}

/* The inverse. */
static inline uint32_t unpermute(const struct permutation *p, uint32_t number)
{
    if (p->half_bits)
        do
            number = unpermute_bits(p->secret, p->half_bits, number);
        while (number >= p->size);
    return number;
}

#endif
