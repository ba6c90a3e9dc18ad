/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory with a known value in every byte: data in a message, guard bytes everywhere else. */
#include "verify.h"

#define MARGIN    64u /* guard bytes before the message, and after it */
#define SHIFT_MAX 64u /* messages begin at any alignment */
#define GAP_MAX   64u

/* splitmix64 */
uint64_t mix(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t layout_room(uint32_t size)
{
    size_t most = (size_t)size + 2 * MARGIN + SHIFT_MAX + MAX_PIECES * GAP_MAX;

    return (most + PAGE - 1) / PAGE * PAGE;
}

struct layout layout_make(uint64_t seed, uint32_t size, unsigned pieces)
{
    struct layout l = {.pieces = size < pieces ? size : pieces};
    uint32_t offset = MARGIN + mix(seed, 0) % SHIFT_MAX, left = size;

    for (unsigned i = 0; i < l.pieces; i++) {
        uint32_t others = l.pieces - 1 - i; /* each gets one byte at least */
        uint32_t length = others ? 1 + mix(seed, 2 * i + 1) % (left - others) : left;

        l.piece[i].offset = offset;
        l.piece[i].length = length;
        left -= length;
        offset += length + (others ? 1 + mix(seed, 2 * i + 2) % GAP_MAX : 0);
    }
    l.extent = offset + MARGIN;
    return l;
}

void layout_sges(const struct layout *l, const struct region *r, struct ibv_sge *sge)
{
    for (unsigned i = 0; i < l->pieces; i++)
        sge[i] = (struct ibv_sge){.addr = (uintptr_t)r->bytes + l->piece[i].offset,
                                  .length = l->piece[i].length,
                                  .lkey = r->mr->lkey};
}

static uint8_t byte_at(uint64_t seed, uint32_t i, uint64_t *word)
{
    if (!(i & 7))
        *word = mix(seed, i >> 3);
    return *word >> (8 * (i & 7));
}

/* Bytes [first, first + length) of a seed's endless sequence. */
static void fill(uint8_t *to, uint64_t seed, uint32_t first, uint32_t length)
{
    uint64_t word = mix(seed, first >> 3);

    for (uint32_t i = 0; i < length; i++)
        to[i] = byte_at(seed, first + i, &word);
}

/* The first byte that differs, or length. */
static uint32_t compare(const uint8_t *bytes, uint64_t seed, uint32_t first, uint32_t length)
{
    uint64_t word = mix(seed, first >> 3);

    for (uint32_t i = 0; i < length; i++) {
        if (bytes[i] != byte_at(seed, first + i, &word))
            return i;
    }
    return length;
}

void region_guard(struct region *r, const struct layout *l, uint64_t guard)
{
    fill(r->bytes, guard, 0, l->extent);
}

void region_fill(struct region *r, const struct layout *l, uint64_t data)
{
    uint32_t done = 0;

    for (unsigned i = 0; i < l->pieces; i++) {
        fill(r->bytes + l->piece[i].offset, data, done, l->piece[i].length);
        done += l->piece[i].length;
    }
}

static enum outcome check_guard(struct session *s, const char *what, const struct region *r,
                                uint32_t from, uint32_t to, uint64_t guard)
{
    uint32_t at = compare(r->bytes + from, guard, from, to - from);

    if (at == to - from)
        return PASSED;
    return fail(s, "%s: the byte at offset %u was overwritten, which is outside of the message",
                what, from + at);
}

enum outcome region_check(struct session *s, const char *what, const struct region *r,
                          const struct layout *l, uint32_t from, uint32_t size, uint64_t guard,
                          uint64_t data)
{
    uint32_t done = 0;

    for (unsigned i = 0; i < l->pieces; i++) {
        uint32_t offset = l->piece[i].offset;
        uint32_t length = l->piece[i].length < size - done ? l->piece[i].length : size - done;
        uint32_t at = compare(r->bytes + offset, data, done, length);

        TRY(check_guard(s, what, r, from, offset, guard));
        if (at != length)
            return fail(s, "%s: byte %u of %u is not the one that was sent", what, done + at, size);
        done += length;
        from = offset + length;
    }
    return check_guard(s, what, r, from, l->extent, guard);
}
