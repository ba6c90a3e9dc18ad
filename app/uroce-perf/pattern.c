/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t word(uint64_t key, size_t index)
{
    return mix(key + GOLDEN * (index + 1));
}

uint64_t pattern_key(uint64_t seed, uint32_t sender, uint32_t message)
{
    return mix(mix(seed + GOLDEN) ^ ((uint64_t)sender << 32 | message));
}

void pattern_fill(uint8_t *bytes, size_t n, uint64_t key)
{
    for (size_t at = 0; at < n; at += sizeof(uint64_t)) {
        uint64_t w = word(key, at / sizeof(w));

        memcpy(bytes + at, &w, n - at < sizeof(w) ? n - at : sizeof(w));
    }
}

uint8_t pattern_byte(size_t offset, uint64_t key)
{
    return (uint8_t)(word(key, offset / sizeof(uint64_t)) >> offset % sizeof(uint64_t) * 8);
}

size_t pattern_check(const uint8_t *bytes, size_t n, uint64_t key)
{
    size_t at;

    for (at = 0; at + sizeof(uint64_t) <= n; at += sizeof(uint64_t)) {
        uint64_t w;

        memcpy(&w, bytes + at, sizeof(w));
        if (w != word(key, at / sizeof(w)))
            break;
    }
    while (at < n && bytes[at] == pattern_byte(at, key))
        at++;
    return at;
}
