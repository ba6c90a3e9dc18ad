/* SPDX-License-Identifier: BSD-3-Clause */
/* The map of kept packets: see kept_map.h. */
#include "kept_map.h"
#include "bytes.h"

void kept_map_parse(struct kept_map *m, const uint8_t *bytes, size_t len)
{
    m->duplicates = bytes[0];
    m->first = psn(get_be24(bytes + 1));
    m->words = (unsigned)((len - KEPT_MAP_HEAD) / 8);
    for (unsigned i = 0; i < KEPT_MAP_WORDS; i++)
        m->bits[i] =
            i < m->words ? __builtin_bswap64(get_be64(bytes + KEPT_MAP_HEAD + (size_t)8 * i)) : 0;
}

size_t kept_map_build(uint8_t *bytes, const struct kept_map *m)
{
    put_be32(bytes, (uint32_t)m->duplicates << 24 | m->first.v);
    for (unsigned i = 0; i < m->words; i++)
        put_be64(bytes + KEPT_MAP_HEAD + (size_t)8 * i, __builtin_bswap64(m->bits[i]));
    return KEPT_MAP_HEAD + (size_t)8 * m->words;
}
