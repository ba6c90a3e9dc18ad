/* SPDX-License-Identifier: BSD-3-Clause */
/* The Toeplitz hash, by tables and by its definition: see toeplitz.h. */
#include "toeplitz.h"

#include "bytes.h"

const uint8_t toeplitz_key_microsoft[TOEPLITZ_KEY_LEN] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

const uint8_t toeplitz_key_symmetric[TOEPLITZ_KEY_LEN] = {
    0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a,
    0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a,
    0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a,
};

/* The 32 bits of the key from `bit` on; bit 0 is the highest of the first byte. */
static uint32_t key_window(const uint8_t *key, unsigned bit)
{
    uint64_t bits = (uint64_t)get_be32(key + bit / 8) << 8 | key[bit / 8 + 4];

    return (uint32_t)(bits >> (8 - bit % 8));
}

uint32_t toeplitz_hash_bits(const uint8_t key[TOEPLITZ_KEY_LEN], const uint8_t *input, unsigned len)
{
    uint32_t hash = 0;

    for (unsigned bit = 0; bit < 8 * len; bit++)
        if (input[bit / 8] & 0x80 >> bit % 8)
            hash ^= key_window(key, bit);
    return hash;
}

void toeplitz_init(struct toeplitz *t, const uint8_t key[TOEPLITZ_KEY_LEN])
{
    for (unsigned half = 0; half < 2 * RSS_INPUT_MAX; half++)
        for (unsigned value = 0; value < 16; value++) {
            uint32_t hash = 0;

            for (unsigned bit = 0; bit < 4; bit++)
                if (value & 8 >> bit)
                    hash ^= key_window(key, 4 * half + bit);
            t->part[half][value] = hash;
        }
}

uint32_t toeplitz_hash(const struct toeplitz *t, const uint8_t *input, unsigned len)
{
    uint32_t hash = 0;

    for (unsigned i = 0; i < len; i++)
        hash ^= t->part[2 * i][input[i] >> 4] ^ t->part[2 * i + 1][input[i] & 0xF];
    return hash;
}
