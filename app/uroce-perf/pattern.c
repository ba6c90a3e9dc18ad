/* SPDX-License-Identifier: BSD-3-Clause */
/* See pattern.h. */
#include "pattern.h"

#include <string.h>

#include "random.h"

/* The generator's state advances by a constant, so any word of the stream can be computed directly.
 */
#define STEP UINT64_C(0x9e3779b97f4a7c15)

static uint64_t stream_word(uint64_t key, size_t index)
{
    struct random r = {key + STEP * index};

    return random_next(&r);
}

uint64_t pattern_key(uint64_t seed, uint32_t sender, uint32_t message)
{
    struct random r = {seed};

    r.state = random_next(&r) ^ ((uint64_t)sender << 32 | message);
    return random_next(&r);
}

void pattern_fill(uint8_t *bytes, size_t n, uint64_t key)
{
    for (size_t at = 0; at < n; at += sizeof(uint64_t)) {
        uint64_t w = stream_word(key, at / sizeof(w));

        memcpy(bytes + at, &w, n - at < sizeof(w) ? n - at : sizeof(w));
    }
}

uint8_t pattern_byte(size_t offset, uint64_t key)
{
    return (uint8_t)(stream_word(key, offset / sizeof(uint64_t)) >> offset % sizeof(uint64_t) * 8);
}

size_t pattern_check(const uint8_t *bytes, size_t n, uint64_t key)
{
    size_t at;

    for (at = 0; at + sizeof(uint64_t) <= n; at += sizeof(uint64_t)) {
        uint64_t w;

        memcpy(&w, bytes + at, sizeof(w));
        if (w != stream_word(key, at / sizeof(w)))
            break;
    }
    while (at < n && bytes[at] == pattern_byte(at, key))
        at++;
    return at;
}
