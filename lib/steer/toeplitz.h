/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The Toeplitz hash of receive-side scaling: for every bit of the input that is set, the 32 bits of
 * the key that begin at the bit's position, all xored. Pure; any thread.
 */
#ifndef UROCE_TOEPLITZ_H
#define UROCE_TOEPLITZ_H

#include <stdint.h>

#include "rss_input.h"

/** As long as the longest input asks for. Of a NIC's longer key the first 40 bytes matter. */
#define TOEPLITZ_KEY_LEN (RSS_INPUT_MAX + 4)

/** The key of Microsoft's specification, which many drivers take unless told otherwise. */
extern const uint8_t toeplitz_key_microsoft[TOEPLITZ_KEY_LEN];

/**
 * 6d 5a, repeated. A key with a period of 16 bits hashes both directions of a flow alike; but the
 * hash has then only 16 bits of information, and every field enters it in the same way.
 */
extern const uint8_t toeplitz_key_symmetric[TOEPLITZ_KEY_LEN];

/**
 * A key prepared for speed: the hash of every value of every half byte of the input. Half bytes
 * and not bytes: twice the look-ups, but an eighth of the room, and so the tables stay in the first
 * cache beside what else a packet needs.
 */
struct toeplitz {
    uint32_t part[2 * RSS_INPUT_MAX][16];
};

/**
 * Prepare a key.
 *
 * @param t  Set.
 * @param key  The key, not used afterwards.
 */
void toeplitz_init(struct toeplitz *t, const uint8_t key[TOEPLITZ_KEY_LEN]);

/**
 * Hash with a prepared key.
 *
 * @param t  The key.
 * @param input  The bytes.
 * @param len  How many, at most RSS_INPUT_MAX.
 * @return  The hash.
 */
uint32_t toeplitz_hash(const struct toeplitz *t, const uint8_t *input, unsigned len);

/**
 * The same by the definition, bit by bit: slow; the tables are made with it.
 *
 * @param key  The key.
 * @param input  The bytes.
 * @param len  How many, at most RSS_INPUT_MAX.
 * @return  The hash.
 */
uint32_t toeplitz_hash_bits(const uint8_t key[TOEPLITZ_KEY_LEN], const uint8_t *input,
                            unsigned len);

#endif
